"""Reads Teradata's dictionary: columns, keys and identity, and how a statement would lock what it reads.

Never reads rows of a user's table, except to count them.
"""

from __future__ import annotations

import re
from typing import Protocol

from tidegate.core.column_selection import ColumnSelection
from tidegate.core.ports.dialect import Dialect, Relation, Row, TableFacts
from tidegate.core.schema import Schema
from tidegate.dialects.shared.columns import RelationColumns, described
from tidegate.dialects.teradata.types import column_of
from tidegate.errors import SourceError

SYSTEM = (
    "'All', 'Crashdumps', 'DBC', 'Default', 'EXTUSER', 'External_AP', 'LockLogShredder', 'PUBLIC', 'SQLJ', 'SYSBAR', "
    "'SYSLIB', 'SYSSPATIAL', 'SYSUDTLIB', 'SysAdmin', 'SystemFe', 'Sys_Calendar', 'TDMaps', 'TDPUSER', 'TDQCD', "
    "'TDStats', 'TD_ANALYTICS_DB', 'TD_SERVER_DB', 'TD_SYSFNLIB', 'TD_SYSGPL', 'TD_SYSXML', 'console', 'dbcmngr', "
    "'tdwm', 'val'"
)
INDEXES = """
SELECT i.IndexNumber, i.IndexType, i.UniqueFlag, i.ColumnName, c.Nullable FROM DBC.IndicesVX AS i
JOIN DBC.ColumnsVX AS c
  ON c.DatabaseName = i.DatabaseName AND c.TableName = i.TableName AND c.ColumnName = i.ColumnName
WHERE {where} ORDER BY i.IndexNumber, i.ColumnPosition
"""
PRIMARY = "K"
DIRTY = re.compile(r"\bfor\s+access\b", re.IGNORECASE)


class CatalogSession(Protocol):
    """What the questions here need of a session."""

    name: str

    @property
    def dialect(self) -> Dialect:
        """The SQL that the session speaks."""

    @property
    def database(self) -> str:
        """Where a table lies that is named alone."""

    @property
    def where(self) -> str:
        """Host and port."""

    def ask(self, sql: str) -> list[Row]:
        """The rows of a statement that is not asked again."""

    def describe(self, sql: str) -> list[tuple[str, bool]]:
        """Name of each column of a statement, and whether it may be NULL."""

    def estimate(self, relation: Relation, condition: str) -> int:
        """See `Session.estimate`."""


def columns(session: CatalogSession, relation: Relation, selection: ColumnSelection) -> Schema:
    """The columns that are read, exactly.

    Raises:
        ColumnMissing: there is no such table.
        SchemaRefused: types that cannot be kept, or names that Spark cannot tell apart.
        ConfigError: a column is named that is not there.
    """
    return _mapped(session, relation, selection).schema()


def _mapped(session: CatalogSession, relation: Relation, selection: ColumnSelection) -> RelationColumns:
    found = session.describe(f"SELECT * FROM {relation.sql} WHERE 1 = 0")
    quote = session.dialect.quote
    # A type is that of the column, whether or not there is a row.
    words = ", ".join(f"TYPE({quote(name)})" for name, _ in found)
    one = session.dialect.named(f"SELECT 1 AS {quote('tidegate one')}", "one_row")
    (types,) = session.ask(f"SELECT {words} FROM {one} LEFT JOIN {relation.sql} ON 1 = 0")
    natives = [(name, (str(word).strip(), null)) for (name, null), word in zip(found, types, strict=True)]
    return described(relation.label, natives, selection, column_of, as_text=())


def refuse_dirty(session: CatalogSession, relation: Relation) -> None:
    """Refuses what would read rows that are not committed, and may never be.

    Views often lock their tables for access, which waits for nobody; the plan says so, however deep the view lies.

    Raises:
        SourceError: it would.
    """
    plan = " ".join(str(row[0]) for row in session.ask(f"EXPLAIN SELECT * FROM {relation.sql}"))
    if DIRTY.search(plan):
        raise SourceError(
            f"connection {session.name!r}: {relation.label} is read with LOCKING … FOR ACCESS, which shows rows that "
            "are not committed: a load would keep those that are rolled back",
            hint="Name the table itself, or a view over it without LOCKING … FOR ACCESS.",
        )


def place(session: CatalogSession, relation: Relation) -> tuple[str, str]:
    """Database and name of a table."""
    return (relation.parts[0] if len(relation.parts) > 1 else session.database), relation.parts[-1]


def _named(session: CatalogSession, relation: Relation, alias: str) -> str:
    string = session.dialect.string
    database, table = place(session, relation)
    return f"{alias}.DatabaseName = {string(database)} AND {alias}.TableName = {string(table)}"


def schema_of(session: CatalogSession, relation: Relation) -> str | None:
    """The database of the connection, where it has the table."""
    rows = session.ask(f"SELECT t.DatabaseName FROM DBC.TablesVX AS t WHERE {_named(session, relation, 't')}")
    return str(rows[0][0]).rstrip() if rows else None


def identity(session: CatalogSession, relation: Relation) -> str:
    """Server, database and table, and when the table was created."""
    if not relation.parts:
        return f"teradata:{session.where}/{session.database}"
    rows = session.ask(
        "SELECT to_char(t.CreateTimeStamp, 'YYYY-MM-DD HH24:MI:SS') FROM DBC.TablesVX AS t "
        f"WHERE {_named(session, relation, 't')}"
    )
    table = ".".join(place(session, relation))
    return f"teradata:{session.where}/{table}{f'/{rows[0][0]}' if rows else ''}"


def unique_sets(session: CatalogSession, relation: Relation) -> tuple[frozenset[str], ...]:
    """The columns of each unique index that holds no NULL."""
    found = _indexes(session, relation)
    return tuple(frozenset(names) for _, unique, names in found if unique)


def _indexes(session: CatalogSession, relation: Relation) -> list[tuple[bool, bool, tuple[str, ...]]]:
    """Of every index: whether it is the primary key's, whether it holds each value once and no NULL, its columns."""
    if not relation.parts:
        return []
    indexes: dict[int, list[Row]] = {}
    for row in session.ask(INDEXES.format(where=_named(session, relation, "i"))):
        indexes.setdefault(int(row[0]), []).append(row)
    return [
        (
            str(rows[0][1]).strip() == PRIMARY,
            all(str(row[2]).strip() == "Y" and str(row[4]).strip() == "N" for row in rows),
            tuple(str(row[3]).rstrip() for row in rows),
        )
        for rows in indexes.values()
    ]


def list_tables(session: CatalogSession) -> list[tuple[str, str]]:
    """Tables that the user may see, outside the system's databases."""
    return _listed(session, "'T', 'O'")


def views(session: CatalogSession) -> list[tuple[str, str]]:
    """Views that the user may see, outside the system's databases."""
    return _listed(session, "'V'")


def _listed(session: CatalogSession, kinds: str) -> list[tuple[str, str]]:
    rows = session.ask(
        f"SELECT t.DatabaseName, t.TableName FROM DBC.TablesVX AS t WHERE t.TableKind IN ({kinds}) "
        f"AND t.DatabaseName NOT IN ({SYSTEM}) ORDER BY 1, 2"
    )
    return [(str(database).rstrip(), str(table).rstrip()) for database, table in rows]


def facts(session: CatalogSession, schema: str, table: str) -> TableFacts:
    """Keys, types, indexes and size of one table."""
    relation = session.dialect.relation(schema, table)
    found = _mapped(session, relation, ColumnSelection())
    indexes = _indexes(session, relation)
    return TableFacts(
        schema=schema,
        table=table,
        columns=Schema(columns=found.columns),
        unsupported=found.unsupported,
        primary_key=next((names for primary, _, names in indexes if primary), ()),
        indexes=tuple(names for primary, _, names in indexes if not primary),
        rows=session.estimate(relation, "1 = 1"),
        as_text=found.as_text,
    )
