"""Queries for publications, which determine the changes of a table that a replication slot delivers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from psycopg import errors

from tidegate.core.ports.dialect import Relation
from tidegate.dialects.postgresql.catalog import oid_of
from tidegate.errors import SourceError, TidegateError

if TYPE_CHECKING:
    from tidegate.dialects.postgresql.session import PostgresqlSession

PUBLISHED = """
SELECT p.oid::text || '.' || p.xmin::text, p.pubinsert AND p.pubupdate AND p.pubdelete AND p.pubtruncate,
       t.tablename IS NOT NULL,
       (SELECT r.oid::bigint FROM pg_publication_rel r WHERE r.prpubid = p.oid AND r.prrelid = {oid}), {limited}
FROM pg_publication p LEFT JOIN (pg_publication_tables t JOIN pg_class c ON c.oid = {oid}
  AND t.tablename = c.relname AND t.schemaname::regnamespace = c.relnamespace) ON t.pubname = p.pubname
WHERE p.pubname = {name}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """What a publication says of a table.

    Args:
        mark: differs if the table was removed from it, it was recreated, or its options changed, even for a while.
        whole: it publishes every insert, update, delete and truncate.
        holds: the table's own changes are in it.
        lists: it names the table, and yet may hold those of its partitions alone.
        limited: only some rows or columns of it are.
    """

    mark: str
    whole: bool
    holds: bool
    lists: bool
    limited: bool


def published(session: PostgresqlSession, publication: str, relation: Relation) -> Publication | None:
    """What the publication says of the table; None where there is no such publication."""
    columns = "(SELECT count(*) FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped)"
    limited = (
        f"t.rowfilter IS NOT NULL OR cardinality(t.attnames) < {columns}" if session.version >= 150000 else "false"
    )
    name, oid = session.dialect.string(publication), oid_of(session, relation)
    rows = session.rows(PUBLISHED.format(oid=oid, name=name, limited=limited))
    if not rows:
        return None
    own, whole, holds, member, narrowed = rows[0]
    return Publication(
        mark=f"{own}:{member or 'all'}", whole=whole, holds=holds, lists=member is not None, limited=bool(narrowed)
    )


def publish(session: PostgresqlSession, publication: str, relation: Relation) -> None:
    """Makes a publication of exactly that table."""
    name = session.dialect.quote(publication)
    made = f"CREATE PUBLICATION {name} FOR TABLE {relation.sql} WITH (publish_via_partition_root = true)"
    try:
        session.rows(made)
    except TidegateError as error:
        if isinstance(error.__cause__, errors.InsufficientPrivilege):
            raise SourceError(
                f"connection {session.name!r} may not publish {relation.label}",
                hint=f"Let the table's owner run `{made}`.",
            ) from error
        raise


def unpublish(session: PostgresqlSession, publication: str) -> None:
    """Drops a publication that this user made; somebody else's stays."""
    name = session.dialect.string(publication)
    own = "SELECT 1 FROM pg_publication WHERE pg_get_userbyid(pubowner) = current_user AND pubname = "
    if session.rows(f"{own}{name}"):
        session.rows(f"DROP PUBLICATION {session.dialect.quote(publication)}")
