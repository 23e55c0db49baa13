"""Reads Trino's catalogs: columns, tables, and the current snapshot of tables that have snapshots.

Never reads rows of a user's table, except to count them.
"""

from __future__ import annotations

from typing import Protocol

from tidegate.core.column_selection import ColumnSelection
from tidegate.core.ports.dialect import Dialect, Relation, Row, TableFacts
from tidegate.core.schema import Schema
from tidegate.dialects.shared.columns import RelationColumns, described
from tidegate.dialects.trino.address import Address
from tidegate.dialects.trino.types import column_of
from tidegate.errors import ColumnMissing, ConfigError, SourceError, SourceUnavailable

BRANCH = "main"


class CatalogSession(Protocol):
    """What the questions here need of a session."""

    name: str

    @property
    def dialect(self) -> Dialect:
        """The SQL that the session speaks."""

    @property
    def address(self) -> Address:
        """Where the coordinator is."""

    def ask(self, sql: str) -> list[Row]:
        """The rows of a statement."""

    def describe(self, sql: str) -> list[tuple[str, str]]:
        """Name and type of each column of a statement."""

    def estimate(self, relation: Relation, condition: str) -> int:
        """See `Session.estimate`."""


def columns(session: CatalogSession, relation: Relation, selection: ColumnSelection) -> Schema:
    """The columns that are read, exactly.

    Raises:
        ColumnMissing: there is no such table.
        SchemaRefused: types that cannot be kept, or two names that Spark cannot tell apart.
        ConfigError: a column is named that is not there.
    """
    return _mapped(session, relation, selection).schema()


def _mapped(session: CatalogSession, relation: Relation, selection: ColumnSelection) -> RelationColumns:
    rows = session.describe(f"SELECT * FROM {relation.sql} LIMIT 0")
    required = _not_null(session, relation)
    natives = [(name, (native, name not in required)) for name, native in rows]
    return described(relation.label, natives, selection, column_of, as_text=())


def _not_null(session: CatalogSession, relation: Relation) -> frozenset[str]:
    found = place(session, relation)
    if found is None:
        return frozenset()
    string = session.dialect.string
    rows = session.ask(
        f"SELECT column_name FROM {_schema_of_columns(session)}.columns WHERE table_schema = {string(found[0])} "
        f"AND table_name = {string(found[1])} AND is_nullable = 'NO'"
    )
    return frozenset(str(name) for (name,) in rows)


def place(session: CatalogSession, relation: Relation) -> tuple[str, str] | None:
    """Schema and table as Trino keeps them; None for a query, or where no schema is named."""
    schema = relation.parts[0] if len(relation.parts) > 1 else session.address.schema
    if not relation.parts or schema is None:
        return None
    # Trino knows names in lower case only, quoted or not.
    return schema.lower(), relation.parts[-1].lower()


def snapshot(session: CatalogSession, relation: Relation) -> list[Row] | None:
    """The snapshot that an Iceberg table has now, none for an empty one; None for a table that keeps no snapshots."""
    found = place(session, relation)
    if found is None:
        return None
    quote = session.dialect.quote
    branches = f"{quote(found[0])}.{quote(f'{found[1]}$refs')}"
    try:
        return session.ask(f"SELECT snapshot_id FROM {branches} WHERE name = '{BRANCH}'")
    except SourceUnavailable:
        raise
    except (ColumnMissing, ConfigError, SourceError):
        return None


def identity(session: CatalogSession, relation: Relation) -> str:
    """Server, catalog and table, as the URL names them; Trino has no number of its own for any of them."""
    found = place(session, relation)
    table = f"/{'.'.join(found)}" if found else ""
    return f"trino:{session.address.where}/{session.address.catalog}{table}"


def list_tables(session: CatalogSession) -> list[tuple[str, str]]:
    """The tables of the catalog."""
    rows = session.ask(
        f"SELECT table_schema, table_name FROM {_schema_of_columns(session)}.tables "
        "WHERE table_schema <> 'information_schema' AND table_type = 'BASE TABLE' ORDER BY 1, 2"
    )
    return [(schema, table) for schema, table in rows]


def facts(session: CatalogSession, schema: str, table: str) -> TableFacts:
    """Types and size of one table; Trino tells of no keys and no indexes."""
    relation = session.dialect.relation(schema, table)
    found = _mapped(session, relation, ColumnSelection())
    return TableFacts(
        schema=schema,
        table=table,
        columns=Schema(columns=found.columns),
        unsupported=found.unsupported,
        primary_key=(),
        indexes=(),
        rows=session.estimate(relation, "1 = 1"),
        as_text=found.as_text,
    )


def _schema_of_columns(session: CatalogSession) -> str:
    return f"{session.dialect.quote(session.address.catalog)}.information_schema"
