"""Reads DuckDB's catalog: columns, keys, sequences and tables.

Never reads rows of a user's table, except to count them.
"""

from __future__ import annotations

import re

from tidegate.core.column_selection import ColumnSelection
from tidegate.core.ports.dialect import CatalogSession, Relation, TableFacts
from tidegate.core.schema import Schema
from tidegate.dialects.duckdb.types import column_of
from tidegate.dialects.shared.columns import RelationColumns, described
from tidegate.errors import EdgeUnknown

HERE = "database_name = current_database()"
NEXTVAL = re.compile(r"nextval\('((?:[^']|'')+)'\)", re.IGNORECASE)


def columns(session: CatalogSession, relation: Relation, selection: ColumnSelection) -> Schema:
    """The columns that are read, exactly.

    Raises:
        SchemaRefused: types that cannot be kept, or two names that Spark cannot tell apart.
        ConfigError: another type than text is stated.
    """
    found = _mapped(session, relation, selection).schema()
    if not relation.parts:
        return found
    named = _named(session, relation)
    comments = session.rows(f"SELECT column_name, comment FROM duckdb_columns() WHERE {named} AND comment IS NOT NULL")
    comment = session.rows(f"SELECT comment FROM duckdb_tables() WHERE {named} AND comment IS NOT NULL")
    return found.commented(comment[0][0] if comment else "", dict(comments))


def _mapped(session: CatalogSession, relation: Relation, selection: ColumnSelection) -> RelationColumns:
    rows = session.rows(f"DESCRIBE SELECT * FROM {relation.sql}")
    required = _not_null(session, relation)
    natives = [(name, (native, name not in required)) for name, native, *_ in rows]
    return described(relation.label, natives, selection, column_of)


def _named(session: CatalogSession, relation: Relation) -> str:
    """The condition by which the catalog finds the table; names differ by more than case."""
    string = session.dialect.string
    schema = string(relation.parts[0]) if len(relation.parts) > 1 else "current_schema()"
    return (
        f"{HERE} AND lower(schema_name) = lower({schema}) AND lower(table_name) = lower({string(relation.parts[-1])})"
    )


def _not_null(session: CatalogSession, relation: Relation) -> frozenset[str]:
    if not relation.parts:
        return frozenset()
    rows = session.rows(
        f"SELECT column_name FROM duckdb_columns() WHERE {_named(session, relation)} AND NOT is_nullable"
    )
    return frozenset(name for (name,) in rows)


def is_table(session: CatalogSession, relation: Relation) -> bool:
    """Whether it is a table rather than a view or a query."""
    if not relation.parts:
        return False
    return bool(session.rows(f"SELECT 1 FROM duckdb_tables() WHERE {_named(session, relation)}"))


def has_rowid(session: CatalogSession, relation: Relation) -> bool:
    """Whether rows have a number that no column hides."""
    if not is_table(session, relation):
        return False
    hidden = f"{_named(session, relation)} AND lower(column_name) = 'rowid'"
    return not session.rows(f"SELECT 1 FROM duckdb_columns() WHERE {hidden}")


def unique_sets(session: CatalogSession, relation: Relation) -> tuple[frozenset[str], ...]:
    """The columns of the primary key and of each unique constraint or index over columns that are not NULL."""
    if not relation.parts:
        return ()
    required = _not_null(session, relation)
    found = [frozenset(names) for _, names in _keys(session, relation)]
    return tuple(names for names in found if names and names <= required)


def _keys(session: CatalogSession, relation: Relation) -> list[tuple[bool, tuple[str, ...]]]:
    """Of every key: whether it is the primary one, and its columns in order."""
    rows = session.rows(
        "SELECT constraint_type = 'PRIMARY KEY', constraint_column_names FROM duckdb_constraints() "
        f"WHERE {_named(session, relation)} AND constraint_type IN ('PRIMARY KEY', 'UNIQUE') ORDER BY constraint_index"
    )
    return [(bool(primary), tuple(names)) for primary, names in rows]


def default(session: CatalogSession, relation: Relation, column: str) -> list[str]:
    """The expression that fills a column of a table, if there is one."""
    if not relation.parts:
        return []
    named = f"{_named(session, relation)} AND column_name = {session.dialect.string(column)}"
    rows = session.rows(f"SELECT column_default FROM duckdb_columns() WHERE {named} AND column_default IS NOT NULL")
    return [text for (text,) in rows]


def must_be_counted(session: CatalogSession, relation: Relation, column: str) -> None:
    """Raises EdgeUnknown unless a growing sequence of the file fills the column."""
    hint = "Give the column `DEFAULT nextval('…')`, or use `strategy: {kind: watermark}` or `{kind: full}`."
    if not is_table(session, relation):
        raise EdgeUnknown(f"{relation.label} is not a table: name the table, or use another strategy", hint=hint)
    found = NEXTVAL.search("".join(default(session, relation, column)))
    if found is None:
        raise EdgeUnknown(
            f"no sequence in the file fills column {column!r}, so its numbers may arrive in any order", hint=hint
        )
    name = found[1].replace("''", "'").replace('"', "").rsplit(".", 1)[-1]
    steps = session.rows(
        "SELECT increment_by, cycle FROM duckdb_sequences() "
        f"WHERE {HERE} AND lower(sequence_name) = lower({session.dialect.string(name)})"
    )
    if not steps or any(step < 0 or cycles for step, cycles in steps):
        raise EdgeUnknown(
            f"sequence {name} behind column {column!r} does not only increase", hint="Use another strategy."
        )


def list_tables(session: CatalogSession) -> list[tuple[str, str]]:
    """The tables of the file."""
    rows = session.rows(
        f"SELECT schema_name, table_name FROM duckdb_tables() WHERE {HERE} AND NOT internal AND NOT temporary "
        "ORDER BY 1, 2"
    )
    return [(schema, table) for schema, table in rows]


def views(session: CatalogSession) -> list[tuple[str, str]]:
    """The views of the file."""
    rows = session.rows(
        f"SELECT schema_name, view_name FROM duckdb_views() WHERE {HERE} AND NOT internal AND NOT temporary "
        "ORDER BY 1, 2"
    )
    return [(schema, name) for schema, name in rows]


def primary_keys(session: CatalogSession) -> dict[tuple[str, str], tuple[str, ...]]:
    """The columns of every primary key in their order, by schema and table."""
    rows = session.rows(
        "SELECT schema_name, table_name, constraint_column_names FROM duckdb_constraints() "
        f"WHERE {HERE} AND constraint_type = 'PRIMARY KEY'"
    )
    return {(schema, table): tuple(names) for schema, table, names in rows}


def facts(session: CatalogSession, schema: str, table: str) -> TableFacts:
    """Keys, types, indexes and size of one table."""
    relation = session.dialect.relation(schema, table)
    found = _mapped(session, relation, ColumnSelection())
    keys = _keys(session, relation)
    return TableFacts(
        schema=schema,
        table=table,
        columns=Schema(columns=found.columns),
        unsupported=found.unsupported,
        primary_key=next((names for primary, names in keys if primary), ()),
        indexes=tuple(names for primary, names in keys if not primary),
        rows=session.estimate(relation, "1 = 1"),
    )
