"""Reads Snowflake's INFORMATION_SCHEMA and keys: columns, tables, sizes, and which tables have a history.

Never reads rows of a user's table, except to count them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from tidegate.core.column_selection import ColumnSelection
from tidegate.core.ports.dialect import Dialect, Relation, Row, TableFacts
from tidegate.core.schema import Schema
from tidegate.dialects.shared.columns import RelationColumns, described
from tidegate.dialects.snowflake.address import Address
from tidegate.dialects.snowflake.types import DOCUMENTS, Native, column_of
from tidegate.errors import ConfigError

ROW_BYTES = 100  # a guess for what has no size of its own
TABLE = "BASE TABLE"
COLUMN_OF_KEY = 4  # where SHOW PRIMARY KEYS has the column's name, and behind it its place in the key


class CatalogSession(Protocol):
    """What the questions here need of a session."""

    name: str
    schema: str | None

    @property
    def dialect(self) -> Dialect:
        """The SQL that the session speaks."""

    @property
    def address(self) -> Address:
        """Where the account is."""

    @property
    def database(self) -> str:
        """The database, as Snowflake keeps its name."""

    def ask(self, sql: str) -> list[Row]:
        """The rows of a statement."""

    def describe(self, sql: str) -> list[tuple[str, Native]]:
        """Name and type of each column of a statement, which is not run."""

    def estimate(self, relation: Relation, condition: str) -> int:
        """See `Session.estimate`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What INFORMATION_SCHEMA says of a table or a view.

    Args:
        created: when it was created; a replaced table has another time.
        days: for which Time Travel keeps its rows.
        travels: whether it is a table whose state of a statement can be read.
        size: compressed bytes; 0 where none are known.
    """

    created: str
    days: int
    travels: bool
    rows: int
    size: int


def columns(session: CatalogSession, relation: Relation, selection: ColumnSelection) -> Schema:
    """The columns that are read, exactly.

    Raises:
        ColumnMissing: there is no such table.
        SchemaRefused: types that cannot be kept, or two names that Spark cannot tell apart.
        ConfigError: a column is named that is not there.
    """
    return _mapped(session, relation, selection).schema()


def _mapped(session: CatalogSession, relation: Relation, selection: ColumnSelection) -> RelationColumns:
    natives = session.describe(f"SELECT * FROM {relation.sql}")
    return described(relation.label, natives, selection, column_of, as_text=DOCUMENTS)


def place(session: CatalogSession, relation: Relation) -> tuple[str, str] | None:
    """Schema and table; None for a query.

    Raises:
        ConfigError: neither the project nor the user's defaults name a schema.
    """
    if not relation.parts:
        return None
    schema = relation.parts[0] if len(relation.parts) > 1 else session.schema
    if schema is None:
        raise ConfigError(
            f"connection {session.name!r}: {relation.label} names no schema, and the URL has none",
            hint=f"Name it: `table: SCHEMA.{relation.label}`.",
        )
    return schema, relation.parts[-1]


def entry(session: CatalogSession, relation: Relation) -> Entry | None:
    """What is known of a table or view; None for a query, and for one that the role may not see."""
    found = place(session, relation)
    if found is None:
        return None
    string = session.dialect.string
    rows = session.ask(
        "SELECT to_char(convert_timezone('UTC', created), 'YYYY-MM-DD HH24:MI:SS.FF9'), retention_time, table_type, "
        "is_hybrid, is_iceberg, row_count, bytes "
        f"FROM {_tables(session)} WHERE table_schema = {string(found[0])} AND table_name = {string(found[1])}"
    )
    if not rows:
        return None
    created, days, kind, hybrid, iceberg, count, size = rows[0]
    return Entry(
        created=str(created),
        days=int(days or 0),
        travels=kind == TABLE and hybrid != "YES" and iceberg != "YES",
        rows=int(count or 0),
        size=int(size or 0),
    )


def identity(session: CatalogSession, relation: Relation) -> str:
    """Account, database and table, and when the table was created: a replaced or restored one is another."""
    found, known = place(session, relation), entry(session, relation)
    table = f"/{'.'.join(found)}" if found else ""
    created = f"@{known.created}" if known is not None and known.travels else ""
    return f"snowflake:{session.address.account}/{session.database}{table}{created}"


def row_bytes(session: CatalogSession, relation: Relation) -> int:
    """The table's average, which is compressed, or a guess where that is less."""
    known = entry(session, relation)
    return max(ROW_BYTES, known.size // known.rows) if known is not None and known.rows else ROW_BYTES


def list_tables(session: CatalogSession, *, views: bool = False) -> list[tuple[str, str]]:
    """The tables of the database, or its views."""
    rows = session.ask(
        f"SELECT table_schema, table_name FROM {_tables(session)} WHERE table_schema <> 'INFORMATION_SCHEMA' "
        f"AND table_type {'LIKE' if views else 'NOT LIKE'} '%VIEW' ORDER BY 1, 2"
    )
    return [(schema, table) for schema, table in rows]


def facts(session: CatalogSession, schema: str, table: str) -> TableFacts:
    """Types, size and the declared key of one table; Snowflake enforces none, so loads look for duplicates."""
    relation = session.dialect.relation(schema, table)
    found = _mapped(session, relation, ColumnSelection())
    keys = session.ask(f"SHOW PRIMARY KEYS IN TABLE {relation.sql}")
    ordered = sorted((int(row[COLUMN_OF_KEY + 1]), str(row[COLUMN_OF_KEY])) for row in keys)
    return TableFacts(
        schema=schema,
        table=table,
        columns=Schema(columns=found.columns),
        unsupported=found.unsupported,
        primary_key=tuple(name for _, name in ordered),
        indexes=(),
        rows=session.estimate(relation, "1 = 1"),
        as_text=found.as_text,
    )


def _tables(session: CatalogSession) -> str:
    return f"{session.dialect.quote(session.database)}.information_schema.tables"
