"""Reads SQL Server's catalog: columns, keys, size and identity.

Never reads rows of a user's table, except to count them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tidegate.core.column_selection import ColumnSelection
from tidegate.core.ports.dialect import Dialect, Relation, Row, TableFacts
from tidegate.core.schema import Schema
from tidegate.dialects.shared.columns import RelationColumns, by_table, described
from tidegate.dialects.sqlserver.errors import translate
from tidegate.dialects.sqlserver.types import column_of
from tidegate.errors import ConfigError, SchemaRefused

UNKNOWN_ROW_BYTES = 100
PAGE_BYTES = 8192
# Which rows of a table are counted, and where they lie: without an index, in the heap.
SIZE = """
SELECT coalesce(sum(p.rows), 0), coalesce(sum(a.pages), 0) FROM sys.partitions AS p
JOIN (SELECT container_id, sum(used_pages) AS pages FROM sys.allocation_units GROUP BY container_id) AS a
  ON a.container_id = p.partition_id
WHERE p.index_id IN (0, 1) AND p.object_id = {object}
"""
INDEXES = """
SELECT i.name, i.is_primary_key,
       CASE WHEN i.is_unique = 1 AND i.has_filter = 0 AND i.is_disabled = 0 THEN 1 ELSE 0 END, c.name, c.is_nullable
FROM sys.indexes AS i
JOIN sys.index_columns AS x ON x.object_id = i.object_id AND x.index_id = i.index_id AND x.is_included_column = 0
JOIN sys.columns AS c ON c.object_id = x.object_id AND c.column_id = x.column_id
WHERE i.object_id = {object} AND i.index_id > 0 AND i.type IN (1, 2)
ORDER BY i.is_primary_key DESC, i.name, x.key_ordinal
"""
PRIMARY_KEYS = """
SELECT s.name, t.name, c.name FROM sys.indexes AS i
JOIN sys.tables AS t ON t.object_id = i.object_id
JOIN sys.schemas AS s ON s.schema_id = t.schema_id
JOIN sys.index_columns AS x ON x.object_id = i.object_id AND x.index_id = i.index_id AND x.is_included_column = 0
JOIN sys.columns AS c ON c.object_id = x.object_id AND c.column_id = x.column_id
WHERE i.is_primary_key = 1 ORDER BY 1, 2, x.key_ordinal
"""
MASKED = """
SELECT c.name FROM sys.columns AS c WHERE c.object_id = {object} AND c.is_masked = 1
  AND coalesce(has_perms_by_name(NULL, 'DATABASE', 'UNMASK'), 0) = 0
  AND coalesce(has_perms_by_name({table}, 'OBJECT', 'UNMASK'), 0) = 0
"""


class CatalogSession(Protocol):
    """What the questions here need of a session."""

    name: str

    @property
    def dialect(self) -> Dialect:
        """The SQL that the session speaks."""

    @property
    def user(self) -> str:
        """The user in the database, as a statement holds it."""

    def ask(self, sql: str) -> list[Row]:
        """The rows of a statement that tells nothing of the table's rows."""


def columns(session: CatalogSession, relation: Relation, selection: ColumnSelection) -> Schema:
    """The columns that are read, exactly.

    Raises:
        ColumnMissing: there is no such table.
        SchemaRefused: types that cannot be kept, names that Spark cannot tell apart, or masked values.
        ConfigError: a column is named that is not there.
    """
    found = _mapped(session, relation, selection).schema()
    _refuse_masked(session, relation, found)
    return found


def _mapped(session: CatalogSession, relation: Relation, selection: ColumnSelection) -> RelationColumns:
    return described(relation.label, natives(session, relation), selection, column_of, as_text=())


def natives(session: CatalogSession, relation: Relation) -> list[tuple[str, tuple[str, bool]]]:
    """The columns of a relation, each with the server's word for its type, and whether it may be NULL.

    Raises:
        ColumnMissing: there is no such relation.
        SourceError: the user may not read it.
        ConfigError: a column without a name.
    """
    statement = unicode(f"SELECT * FROM {relation.sql}")
    rows = session.ask(
        "SELECT name, system_type_name, is_nullable, error_number, error_message "
        f"FROM sys.dm_exec_describe_first_result_set({statement}, NULL, 0) ORDER BY column_ordinal"
    )
    for name, native, _, number, text in rows:
        if number is not None:
            raise translate(session.name, session.user, int(number), str(text))
        if name is None or native is None:
            raise ConfigError(f"{relation.label} has a column without a name or a type", hint="Name it with AS.")
    return [(name, (native, bool(nullable))) for name, native, nullable, *_ in rows]


def _refuse_masked(session: CatalogSession, relation: Relation, schema: Schema) -> None:
    """Raises SchemaRefused where the server would give this user other values than there are."""
    if not relation.parts:
        return
    table = unicode(relation.sql)
    masked = [name for (name,) in session.ask(MASKED.format(object=object_id(relation), table=table))]
    hidden = [name for name in masked if schema.find(name) is not None]
    if hidden:
        raise SchemaRefused(
            f"{relation.label}: the server masks {', '.join(map(repr, hidden))} for this user, so other values than "
            "there are would be loaded",
            hint=f"Let an administrator run `GRANT UNMASK TO {session.user}`, or leave them out with `exclude:`.",
            column=hidden[0],
        )


def unicode(text: str) -> str:
    """A text of any characters, as functions of the catalog take it."""
    escaped = text.replace("'", "''")
    return f"N'{escaped}'"


def object_id(relation: Relation) -> str:
    """The expression of a table's number; NULL where there is none that this user may see."""
    return f"object_id({unicode(relation.sql)})"


def schema_of(session: CatalogSession, relation: Relation) -> str | None:
    """The schema in which a table lies that is named alone."""
    ((found,),) = session.ask(f"SELECT object_schema_name({object_id(relation)})")
    return None if found is None else str(found)


def identity(session: CatalogSession, relation: Relation) -> str:
    """The database's number in all the world, and the table's in it: a table that is created again has another one."""
    table = object_id(relation) if relation.parts else "NULL"
    ((database, number),) = session.ask(
        "SELECT coalesce((SELECT CAST(r.database_guid AS varchar(36)) FROM sys.database_recovery_status AS r "
        f"WHERE r.database_id = db_id()), CAST(concat(@@SERVERNAME, '/', db_name()) AS varchar(400))), {table}"
    )
    return ":".join(["sqlserver", str(database).lower(), *([str(number)] if number is not None else [])])


def clock(session: CatalogSession) -> int:
    """The database's counter of row versions, which a copy from before has not reached."""
    ((version,),) = session.ask("SELECT CAST(@@DBTS AS bigint)")
    return int(version)


def unique_sets(session: CatalogSession, relation: Relation) -> tuple[frozenset[str], ...]:
    """The columns of each unique index that covers every row and no NULL."""
    found = _indexes(session, relation)
    return tuple(frozenset(names) for _, unique, names in found if unique)


def primary_key(session: CatalogSession, relation: Relation) -> tuple[str, ...]:
    """Its columns in their order; empty where the table has none."""
    return next((names for primary, _, names in _indexes(session, relation) if primary), ())


def _indexes(session: CatalogSession, relation: Relation) -> list[tuple[bool, bool, tuple[str, ...]]]:
    """Of every index: whether it is the primary key's, whether it holds each value once and no NULL, its columns."""
    if not relation.parts:
        return []
    indexes: dict[str, list[Row]] = {}
    for row in session.ask(INDEXES.format(object=object_id(relation))):
        indexes.setdefault(str(row[0]), []).append(row)
    return [
        (bool(rows[0][1]), bool(rows[0][2]) and not any(row[4] for row in rows), tuple(str(row[3]) for row in rows))
        for rows in indexes.values()
    ]


def size(session: CatalogSession, relation: Relation) -> tuple[int, int] | None:
    """Rows and bytes, as the server keeps count of them; None for what is no table."""
    if not relation.parts:
        return None
    ((rows, pages),) = session.ask(SIZE.format(object=object_id(relation)))
    return (int(rows), int(pages) * PAGE_BYTES) if pages else None


def row_bytes(session: CatalogSession, relation: Relation) -> int:
    """The table's average; a guess for what has none."""
    found = size(session, relation)
    return max(1, found[1] // found[0]) if found and found[0] else UNKNOWN_ROW_BYTES


def list_tables(session: CatalogSession) -> list[tuple[str, str]]:
    """Tables that the user may see."""
    return [
        (schema, table)
        for schema, table in session.ask(
            "SELECT s.name, t.name FROM sys.tables AS t JOIN sys.schemas AS s ON s.schema_id = t.schema_id "
            "WHERE t.is_ms_shipped = 0 ORDER BY 1, 2"
        )
    ]


def views(session: CatalogSession) -> Sequence[tuple[str, str]]:
    """Views that the user may see."""
    return [
        (schema, view)
        for schema, view in session.ask(
            "SELECT s.name, v.name FROM sys.views AS v JOIN sys.schemas AS s ON s.schema_id = v.schema_id "
            "WHERE v.is_ms_shipped = 0 ORDER BY 1, 2"
        )
    ]


def primary_keys(session: CatalogSession) -> dict[tuple[str, str], tuple[str, ...]]:
    """The columns of every primary key in their order, by schema and table."""
    return by_table(session.ask(PRIMARY_KEYS))


def facts(session: CatalogSession, schema: str, table: str) -> TableFacts:
    """Keys, types, indexes and size of one table."""
    relation = session.dialect.relation(schema, table)
    found = _mapped(session, relation, ColumnSelection())
    indexes = _indexes(session, relation)
    known = size(session, relation)
    return TableFacts(
        schema=schema,
        table=table,
        columns=Schema(columns=found.columns),
        unsupported=found.unsupported,
        primary_key=next((names for primary, _, names in indexes if primary), ()),
        indexes=tuple(names for primary, _, names in indexes if not primary),
        rows=known[0] if known else 0,
        as_text=found.as_text,
    )
