"""Reads MariaDB's catalog: columns, keys, size and server identity.

Never reads rows of a user's table.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from tidegate.core.column_selection import ColumnSelection
from tidegate.core.ports.dialect import Dialect, Relation, Row, TableFacts
from tidegate.core.schema import Schema
from tidegate.dialects.mariadb.address import Address
from tidegate.dialects.mariadb.types import Native, column_of
from tidegate.dialects.shared.columns import RelationColumns, by_table, described

UNKNOWN_ROW_BYTES = 100
SYSTEM = "'information_schema', 'mysql', 'performance_schema', 'sys'"
# What only grows while a server goes on, by the names of MariaDB and of MySQL.
LOG_POSITIONS = "'Innodb_lsn_current', 'Innodb_redo_log_current_lsn'"


class CatalogSession(Protocol):
    """What the questions here need of a session: statements outside of its snapshot."""

    name: str
    account: str
    is_mariadb: bool

    @property
    def dialect(self) -> Dialect:
        """The SQL that the session speaks."""

    @property
    def address(self) -> Address:
        """Where the server is."""

    @property
    def thread(self) -> int:
        """The session's own number on the server."""

    def outside_rows(self, sql: str) -> list[Row]:
        """The rows of a statement that sees what is committed now."""

    def describe(self, sql: str) -> list[Native]:
        """The columns of a statement."""


def columns(session: CatalogSession, relation: Relation, selection: ColumnSelection) -> Schema:
    """The columns that are read, exactly.

    Raises:
        SchemaRefused: types that cannot be kept, or two names that Spark cannot tell apart.
        ConfigError: a column is named that is not there.
    """
    found = _mapped(session, relation, selection).schema()
    if relation.parts:
        where = named(session, relation)
        comments = session.outside_rows(
            f"SELECT column_name, column_comment FROM information_schema.columns WHERE {where} AND column_comment <> ''"
        )
        # A view says in its comment that it is one.
        comment = session.outside_rows(
            f"SELECT table_comment FROM information_schema.tables WHERE {where} AND table_type <> 'VIEW'"
        )
        return found.commented((comment[0][0] or "") if comment else "", dict(comments))
    # An outer join of the query may give NULL where the table has none.
    return replace(found, columns=tuple(replace(column, nullable=True) for column in found))


def _mapped(session: CatalogSession, relation: Relation, selection: ColumnSelection) -> RelationColumns:
    natives = [(native.name, native) for native in session.describe(f"SELECT * FROM {relation.sql} LIMIT 0")]
    return described(relation.label, natives, selection, column_of)


def named(session: CatalogSession, relation: Relation) -> str:
    """The condition by which information_schema finds the table."""
    string = session.dialect.string
    schema = relation.parts[0] if len(relation.parts) > 1 else session.address.database
    return f"table_schema = {string(schema)} AND table_name = {string(relation.parts[-1])}"


def identity(session: CatalogSession, relation: Relation) -> str:
    """The server's own id, else its host and port, with database and table."""
    known: dict[str, str] = dict(
        session.outside_rows(
            "SHOW GLOBAL VARIABLES WHERE variable_name IN ('server_uid', 'server_uuid', 'hostname', 'port')"
        )
    )
    server = known.get("server_uid") or known.get("server_uuid") or f"{known.get('hostname')}:{known.get('port')}"
    schema = relation.parts[0] if len(relation.parts) > 1 else session.address.database
    return ":".join(["mariadb", server, schema, *relation.parts[-1:]])


def clock(session: CatalogSession) -> int | None:
    """The position in InnoDB's log."""
    rows = session.outside_rows(f"SHOW GLOBAL STATUS WHERE variable_name IN ({LOG_POSITIONS})")
    return int(rows[0][1]) if rows else None


def unique_sets(session: CatalogSession, relation: Relation) -> tuple[frozenset[str], ...]:
    """The columns of each unique index that covers every row and no NULL."""
    found = [names for unique, names in _indexes(session, relation) if unique]
    return tuple(frozenset(names) for names in found)


def _indexes(session: CatalogSession, relation: Relation) -> list[tuple[bool, tuple[str, ...]]]:
    """Of every index over whole columns: whether it holds each value once and no NULL, and its columns in order."""
    if not relation.parts:
        return []
    rows = session.outside_rows(
        "SELECT index_name, non_unique, column_name, nullable FROM information_schema.statistics "
        f"WHERE {named(session, relation)} ORDER BY index_name <> 'PRIMARY', index_name, seq_in_index"
    )
    indexes: dict[str, list[tuple[int, str | None, str]]] = {}
    for index, repeats, column, nullable in rows:
        indexes.setdefault(index, []).append((repeats, column, nullable))
    found = []
    for parts in indexes.values():
        names = [column for _, column, _ in parts]
        if None not in names:  # an index over an expression says nothing of a column
            unique = not any(repeats or nullable == "YES" for repeats, _, nullable in parts)
            found.append((unique, tuple(str(name) for name in names)))
    return found


def table_rows(session: CatalogSession, relation: Relation) -> int | None:
    """The server's own estimate of a table's rows; None for what is no table."""
    if not relation.parts:
        return None
    rows = session.outside_rows(f"SELECT table_rows FROM information_schema.tables WHERE {named(session, relation)}")
    return int(rows[0][0]) if rows and rows[0][0] is not None else None


def row_bytes(session: CatalogSession, relation: Relation) -> int:
    """The server's average; a guess for what has none."""
    if not relation.parts:
        return UNKNOWN_ROW_BYTES
    rows = session.outside_rows(
        f"SELECT avg_row_length FROM information_schema.tables WHERE {named(session, relation)}"
    )
    return int(rows[0][0] or UNKNOWN_ROW_BYTES) if rows else UNKNOWN_ROW_BYTES


def list_tables(session: CatalogSession) -> list[tuple[str, str]]:
    """Tables that the user may see, outside the system's schemas."""
    rows = session.outside_rows(
        "SELECT table_schema, table_name FROM information_schema.tables "
        f"WHERE table_type IN ('BASE TABLE', 'SYSTEM VERSIONED') AND table_schema NOT IN ({SYSTEM}) ORDER BY 1, 2"
    )
    return [(schema, table) for schema, table in rows]


def views(session: CatalogSession) -> list[tuple[str, str]]:
    """Views that the user may see."""
    rows = session.outside_rows(
        "SELECT table_schema, table_name FROM information_schema.views "
        f"WHERE table_schema NOT IN ({SYSTEM}) ORDER BY 1, 2"
    )
    return [(schema, name) for schema, name in rows]


def clocked(session: CatalogSession, relation: Relation) -> dict[str, str]:
    """Columns with a time zone that the server sets at every insert and update, unless a statement does."""
    rows = session.outside_rows(
        f"SELECT column_name FROM information_schema.columns WHERE {named(session, relation)} "
        "AND data_type = 'timestamp' AND lower(extra) LIKE '%on update current_timestamp%' "
        "AND lower(column_default) LIKE 'current_timestamp%'"
    )
    return {name: "ON UPDATE, unless a statement does," for (name,) in rows}


def primary_keys(session: CatalogSession) -> dict[tuple[str, str], tuple[str, ...]]:
    rows = session.outside_rows(
        "SELECT table_schema, table_name, column_name FROM information_schema.statistics "
        f"WHERE index_name = 'PRIMARY' AND table_schema NOT IN ({SYSTEM}) ORDER BY 1, 2, seq_in_index"
    )
    return by_table(rows)


def facts(session: CatalogSession, schema: str, table: str) -> TableFacts:
    """Keys, types, indexes and size of one table."""
    relation = session.dialect.relation(schema, table)
    found = _mapped(session, relation, ColumnSelection())
    primary = session.outside_rows(
        "SELECT column_name FROM information_schema.statistics "
        f"WHERE {named(session, relation)} AND index_name = 'PRIMARY' ORDER BY seq_in_index"
    )
    indexes = [names for _, names in _indexes(session, relation)]
    return TableFacts(
        schema=schema,
        table=table,
        columns=Schema(columns=found.columns),
        unsupported=found.unsupported,
        primary_key=tuple(name for (name,) in primary),
        indexes=tuple(indexes[1:] if primary else indexes),
        rows=table_rows(session, relation) or 0,
        clocked=clocked(session, relation),
    )
