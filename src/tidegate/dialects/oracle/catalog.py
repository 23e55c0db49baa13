"""Reads Oracle's dictionary: columns, keys, size and identity.

Never reads rows of a user's table, except to count them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tidegate.core.column_selection import ColumnSelection
from tidegate.core.ports.dialect import Dialect, Relation, Row, TableFacts
from tidegate.core.schema import Schema
from tidegate.dialects.oracle.types import NATIONAL, Native, column_of
from tidegate.dialects.shared.columns import RelationColumns, by_table, described
from tidegate.errors import SchemaRefused

UNKNOWN_ROW_BYTES = 100
UNICODE = frozenset({"AL32UTF8", "UTF8"})
CHARSET = "SELECT value FROM nls_database_parameters WHERE parameter = 'NLS_CHARACTERSET'"
# Whole keys: of constraints that hold for every row.
KEYS = """
SELECT c.constraint_type, c.constraint_name, k.column_name, t.nullable FROM all_constraints c
JOIN all_cons_columns k ON k.owner = c.owner AND k.constraint_name = c.constraint_name
JOIN all_tab_columns t ON t.owner = k.owner AND t.table_name = k.table_name AND t.column_name = k.column_name
WHERE c.constraint_type IN ('P', 'U') AND c.status = 'ENABLED' AND c.validated = 'VALIDATED' AND {where}
ORDER BY c.constraint_type, c.constraint_name, k.position
"""
INDEXES = """
SELECT i.index_name, k.column_name FROM all_indexes i
JOIN all_ind_columns k ON k.index_owner = i.owner AND k.index_name = i.index_name
WHERE i.table_owner = {owner} AND i.table_name = {table} AND i.index_type = 'NORMAL' AND i.status <> 'UNUSABLE'
ORDER BY i.index_name, k.column_position
"""
TABLES = """
SELECT t.owner, t.table_name FROM all_tables t JOIN all_users u ON u.username = t.owner
WHERE u.oracle_maintained = 'N' AND t.temporary = 'N' AND t.nested = 'NO' AND t.secondary = 'N' AND t.dropped = 'NO'
  AND (t.iot_type IS NULL OR t.iot_type = 'IOT') ORDER BY 1, 2
"""
VIEWS = """
SELECT v.owner, v.view_name FROM all_views v JOIN all_users u ON u.username = v.owner
WHERE u.oracle_maintained = 'N' ORDER BY 1, 2
"""
PRIMARY_KEYS = """
SELECT c.owner, c.table_name, k.column_name FROM all_constraints c
JOIN all_cons_columns k ON k.owner = c.owner AND k.constraint_name = c.constraint_name
JOIN all_users u ON u.username = c.owner AND u.oracle_maintained = 'N'
WHERE c.constraint_type = 'P' AND c.status = 'ENABLED' AND c.validated = 'VALIDATED' ORDER BY 1, 2, k.position
"""
DATABASE = "sys_context('USERENV', 'DB_NAME') || '/' || sys_context('USERENV', 'CON_NAME')"


class CatalogSession(Protocol):
    """What the questions here need of a session: statements outside of its snapshot."""

    name: str

    @property
    def dialect(self) -> Dialect:
        """The SQL that the session speaks."""

    def ask(self, sql: str) -> list[Row]:
        """The rows of a statement that sees what is committed now."""

    def describe(self, sql: str) -> list[tuple[str, Native]]:
        """The columns of a statement."""


def columns(session: CatalogSession, relation: Relation, selection: ColumnSelection) -> Schema:
    """The columns that are read, exactly.

    Raises:
        ColumnMissing: there is no such table.
        SchemaRefused: types that cannot be kept, or names that Spark cannot tell apart.
        ConfigError: a column is named that is not there.
    """
    found = _mapped(session, relation, selection).schema()
    _refuse_national(session, relation, found)
    return found


def _mapped(session: CatalogSession, relation: Relation, selection: ColumnSelection) -> RelationColumns:
    natives = session.describe(f"SELECT * FROM {relation.sql} WHERE 1 = 0")
    return described(relation.label, natives, selection, column_of, as_text=())


def _refuse_national(session: CatalogSession, relation: Relation, schema: Schema) -> None:
    """Raises SchemaRefused where characters of NVARCHAR2 would become question marks in the text of a row."""
    national = [column.name for column in schema if column.native in NATIONAL]
    if not national:
        return
    ((charset,),) = session.ask(CHARSET)
    if charset not in UNICODE:
        raise SchemaRefused(
            f"{relation.label}: the database's character set {charset} does not have every character that "
            f"{', '.join(map(repr, national))} may hold",
            hint="Leave them out with `source: {exclude: […]}`.",
            column=national[0],
        )


def place(session: CatalogSession, relation: Relation) -> tuple[str, str]:
    """The expressions of a table's owner and name."""
    string = session.dialect.string
    owner = string(relation.parts[0]) if len(relation.parts) > 1 else "sys_context('USERENV', 'CURRENT_SCHEMA')"
    return owner, string(relation.parts[-1])


def schema_of(session: CatalogSession, relation: Relation) -> str | None:
    """The user's own schema, where it has the table."""
    owner, table = place(session, relation)
    rows = session.ask(f"SELECT owner FROM all_tables WHERE owner = {owner} AND table_name = {table}")
    return str(rows[0][0]) if rows else None


def identity(session: CatalogSession, relation: Relation) -> str:
    """The names of the database and its container, and the table's number, which another table has not."""
    ((database,),) = session.ask(f"SELECT {DATABASE} FROM dual")
    rows: list[Row] = []
    if relation.parts:
        owner, table = place(session, relation)
        rows = session.ask(
            f"SELECT to_char(object_id) FROM all_objects WHERE owner = {owner} AND object_name = {table} "
            "AND object_type IN ('TABLE', 'VIEW', 'MATERIALIZED VIEW') ORDER BY object_type"
        )
    return ":".join(["oracle", str(database), *(str(number) for (number,) in rows[-1:])])


def unique_sets(session: CatalogSession, relation: Relation) -> tuple[frozenset[str], ...]:
    """The columns of each key that holds for every row and has no NULL."""
    found = _keys(session, relation)
    return tuple(frozenset(names) for _, without_null, names in found if without_null)


def _keys(session: CatalogSession, relation: Relation) -> list[tuple[bool, bool, tuple[str, ...]]]:
    """Of every key: whether it is the primary one, whether none of its columns is NULL, and these."""
    if not relation.parts:
        return []
    owner, table = place(session, relation)
    keys: dict[tuple[str, str], list[Row]] = {}
    for row in session.ask(KEYS.format(where=f"c.owner = {owner} AND c.table_name = {table}")):
        keys.setdefault((str(row[0]), str(row[1])), []).append(row)
    return [
        (kind == "P", all(row[3] == "N" for row in rows), tuple(str(row[2]) for row in rows))
        for (kind, _), rows in keys.items()
    ]


def size(session: CatalogSession, relation: Relation) -> tuple[int, int] | None:
    """Rows and bytes of one row, as the statistics have them; None where there are none."""
    if not relation.parts:
        return None
    owner, table = place(session, relation)
    rows = session.ask(f"SELECT num_rows, avg_row_len FROM all_tables WHERE owner = {owner} AND table_name = {table}")
    return (int(rows[0][0]), int(rows[0][1] or 0)) if rows and rows[0][0] is not None else None


def row_bytes(session: CatalogSession, relation: Relation) -> int:
    """The table's average; a guess for what has none."""
    found = size(session, relation)
    return (found[1] if found else 0) or UNKNOWN_ROW_BYTES


def list_tables(session: CatalogSession) -> list[tuple[str, str]]:
    """Tables that the user may see, outside the system's schemas."""
    return [(owner, table) for owner, table in session.ask(TABLES)]


def views(session: CatalogSession) -> Sequence[tuple[str, str]]:
    """Views that the user may see, outside the system's schemas."""
    return [(owner, view) for owner, view in session.ask(VIEWS)]


def primary_keys(session: CatalogSession) -> dict[tuple[str, str], tuple[str, ...]]:
    """The columns of every primary key in their order, by owner and table."""
    return by_table(session.ask(PRIMARY_KEYS))


def facts(session: CatalogSession, schema: str, table: str) -> TableFacts:
    """Keys, types, indexes and size of one table."""
    relation = session.dialect.relation(schema, table)
    found = _mapped(session, relation, ColumnSelection())
    owner, name = place(session, relation)
    indexes: dict[str, tuple[str, ...]] = {}
    for index, column in session.ask(INDEXES.format(owner=owner, table=name)):
        indexes[index] = (*indexes.get(index, ()), str(column))
    primary = next((names for is_primary, _, names in _keys(session, relation) if is_primary), ())
    known = size(session, relation)
    return TableFacts(
        schema=schema,
        table=table,
        columns=Schema(columns=found.columns),
        unsupported=found.unsupported,
        primary_key=primary,
        indexes=tuple(names for names in indexes.values() if names != primary),
        rows=known[0] if known else 0,
        as_text=found.as_text,
    )
