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
       (SELECT r.oid::bigint FROM pg_publication_rel r WHERE r.prpubid = p.oid AND r.prrelid = {oid}), {limited}, {ways}
FROM pg_publication p LEFT JOIN (pg_publication_tables t JOIN pg_class c ON c.oid = {oid}
  AND t.tablename = c.relname AND t.schemaname::regnamespace = c.relnamespace) ON t.pubname = p.pubname
WHERE p.pubname = {name}
"""
FAMILY = "SELECT {oid}::oid UNION SELECT relid FROM pg_partition_ancestors({oid})"
"""The table and, where it is a partition, those that it is of: they may be published for it."""
ANCESTORS = """
(SELECT string_agg(r.oid::text, ',' ORDER BY r.oid) FROM pg_publication_rel r
 WHERE r.prpubid = p.oid AND r.prrelid IN ({family})),
(SELECT string_agg(i.xmin::text, ',' ORDER BY i.inhrelid) FROM pg_inherits i WHERE i.inhrelid IN ({family}))
"""
SCHEMAS = """
(SELECT string_agg(n.oid::text, ',' ORDER BY n.oid) FROM pg_publication_namespace n JOIN pg_class s
   ON s.relnamespace = n.pnnspid WHERE n.pnpubid = p.oid AND s.oid IN ({family})),
(SELECT string_agg(d.xmin::text, ',' ORDER BY d.objid) FROM pg_depend d WHERE NOT p.puballtables
 AND d.classid = 'pg_class'::regclass AND d.objid IN ({family}) AND d.refclassid = 'pg_namespace'::regclass)
"""
"""The schemas that it has the table by, and when the table came into its schema."""
# The server keeps a table that is in a publication by its name from becoming UNLOGGED, and only then. That rewrites the
# table, with another one for values that are stored apart; VACUUM FULL, CLUSTER and TRUNCATE keep the latter.
STORAGE = "(SELECT coalesce(nullif(c.reltoastrelid, 0), c.relfilenode)::text FROM pg_class c WHERE c.oid = {oid})"


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

    def continues(self, mark: str | None) -> bool:
        """Whether that mark says the same; those of earlier versions have fewer parts, which are the first ones."""
        return f"{self.mark}:".startswith(f"{mark}:")


def published(session: PostgresqlSession, publication: str, relation: Relation) -> Publication | None:
    """What the publication says of the table; None where there is no such publication."""
    columns = (
        "(SELECT count(*) FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped "
        "AND attgenerated = '')"
    )
    since_15 = session.version >= 150000
    limited = f"t.rowfilter IS NOT NULL OR cardinality(t.attnames) < {columns}" if since_15 else "false"
    name, oid = session.dialect.string(publication), oid_of(session, relation)
    ways = f"{ANCESTORS}, {SCHEMAS if since_15 else 'NULL, NULL'}, {STORAGE}".format(
        oid=oid, family=FAMILY.format(oid=oid)
    )
    rows = session.rows(PUBLISHED.format(oid=oid, name=name, limited=limited, ways=ways))
    if not rows:
        return None
    own, whole, holds, member, narrowed, *others = rows[0]
    # One that names the table has it by that alone.
    parts = [str(member)] if member is not None else ["all", *(part or "" for part in others)]
    return Publication(
        mark=":".join([own, *parts]), whole=whole, holds=holds, lists=member is not None, limited=bool(narrowed)
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
