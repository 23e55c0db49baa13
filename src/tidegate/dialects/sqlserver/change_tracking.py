"""Asks SQL Server's change tracking which keys of a table changed, and what their rows are now.

Everything is asked inside one snapshot transaction, as Microsoft's documentation recommends: no answer then has a
change that another has not, and the cleanup task takes nothing away in between.

Source: Microsoft's documentation, "Work with Change Tracking", "CHANGETABLE", "CHANGE_TRACKING_MIN_VALID_VERSION" and
"sys.database_recovery_status".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tidegate.core.ports.dialect import Relation
from tidegate.core.schema import Schema
from tidegate.dialects.sqlserver.catalog import object_id, unicode
from tidegate.dialects.sqlserver.session import SqlServerSession

DELETED = "D"
VERSION, OPERATION, PRESENT = "[tidegate version]", "[tidegate operation]", "[tidegate present]"
ROWS_AT_A_TIME = 2000
TRACKED = """
SELECT (SELECT count(*) FROM sys.change_tracking_databases AS d WHERE d.database_id = db_id()),
  (SELECT count(*) FROM sys.change_tracking_tables AS t WHERE t.object_id = {object}),
  coalesce(has_perms_by_name({table}, 'OBJECT', 'VIEW CHANGE TRACKING'), 0)
"""
FORK = """
SELECT CAST(r.recovery_fork_guid AS varchar(36)) FROM sys.database_recovery_status AS r WHERE r.database_id = db_id()
"""


class Tracked(NamedTuple):
    """Whether the database and the table are tracked, and whether this user may see it."""

    database: bool
    table: bool
    allowed: bool


class Versions(NamedTuple):
    """The least version from which changes are complete, and that of the last commit; None where nothing is tracked."""

    least: int | None
    current: int | None


class Span(NamedTuple):
    """Rows that changed after one version, and last up to another."""

    after: int
    upto: int


class Change(NamedTuple):
    """A row that changed, as it is now.

    Args:
        present: the table has such a row, for this user.
        values: the row's; of a row that is not there only those of the key.
    """

    version: int
    deleted: bool
    present: bool
    values: tuple[object, ...]


def tracked(session: SqlServerSession, relation: Relation) -> Tracked:
    asked = TRACKED.format(object=object_id(relation), table=unicode(relation.sql))
    ((database, table, allowed),) = session.ask(asked)
    return Tracked(database=bool(database), table=bool(table), allowed=bool(allowed))


def fork(session: SqlServerSession) -> str | None:
    """Which history of the database is at work: a restore begins another one; None where the user may not see it."""
    rows = session.ask(FORK)
    return str(rows[0][0]).lower() if rows and rows[0][0] is not None else None


def versions(session: SqlServerSession, relation: Relation) -> Versions:
    """How far back, and up to where, changes are known."""
    least = f"change_tracking_min_valid_version({object_id(relation)})"
    ((first, last),) = session.ask(f"SELECT {least}, change_tracking_current_version()")
    return Versions(least=None if first is None else int(first), current=None if last is None else int(last))


def count(session: SqlServerSession, relation: Relation, span: Span) -> int:
    """How many rows changed."""
    ((found,),) = session.ask(f"SELECT count_big(*) FROM {_changes(relation, span)} WHERE {_upto(span)}")
    return int(found)


def limited(session: SqlServerSession, relation: Relation, span: Span, most: int) -> int:
    """The version of the last of so many rows; there must be as many."""
    first = f"SELECT TOP ({most}) c.SYS_CHANGE_VERSION AS v FROM {_changes(relation, span)} WHERE {_upto(span)}"
    ((found,),) = session.ask(f"SELECT max(x.v) FROM ({first} ORDER BY c.SYS_CHANGE_VERSION) AS x")
    return int(found)


def changes(
    session: SqlServerSession, relation: Relation, columns: Schema, key: Sequence[str], span: Span
) -> Iterator[Change]:
    quote = session.dialect.quote
    first, *_ = key
    own = [f"{'c' if column.name in key else 't'}.{quote(column.name)}" for column in columns]
    inner = [
        f"c.SYS_CHANGE_VERSION AS {VERSION}",
        f"c.SYS_CHANGE_OPERATION AS {OPERATION}",
        f"CASE WHEN t.{quote(first)} IS NULL THEN 0 ELSE 1 END AS {PRESENT}",
        *own,
    ]
    same = " AND ".join(f"t.{quote(name)} = c.{quote(name)}" for name in key)
    values = [session.dialect.read(column).sql for column in columns]
    asked = (
        f"SELECT {', '.join([VERSION, OPERATION, PRESENT, *values])} FROM (SELECT {', '.join(inner)} "
        f"FROM {_changes(relation, span)} LEFT OUTER JOIN {relation.sql} AS t ON {same} WHERE {_upto(span)}) AS s"
    )
    for version, operation, present, *row in session.stream(asked, ROWS_AT_A_TIME):
        is_delete = str(operation).strip() == DELETED
        yield Change(version=int(version), deleted=is_delete, present=bool(present), values=tuple(row))


def _changes(relation: Relation, span: Span) -> str:
    return f"CHANGETABLE(CHANGES {relation.sql}, {span.after}) AS c"


def _upto(span: Span) -> str:
    return f"c.SYS_CHANGE_VERSION <= {span.upto}"
