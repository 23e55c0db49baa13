"""DDL statements for Delta tables.

All names are quoted. A table's reader protocol is raised only when a table needs it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from tidegate.core.ids import Target
from tidegate.core.ports.format import Layout
from tidegate.core.schema import Kind, Schema, SchemaChange
from tidegate.errors import ConfigError
from tidegate.formats.delta.table import VECTORS
from tidegate.formats.shared import statements
from tidegate.formats.shared.statements import column_text, evolved, folder, known, pairs, problem_of
from tidegate.spark import sql

MAPPING = "delta.columnMapping.mode"
WIDENING = "delta.enableTypeWidening"
LOCAL_TIMES = "delta.feature.timestampNtz"
# Two writers never both win.
PROPERTIES = {"delta.isolationLevel": "Serializable"}
_TRANSFORM = re.compile(r"(years?|months?|days?|hours?|bucket|truncate)\(.+\)", re.DOTALL)
UNSUITABLE = frozenset({Kind.ARRAY, Kind.BINARY})
# What no column of a Parquet file may be called: such names are kept in the log alone.
_UNUSUAL = re.compile(r"[ ,;{}()\n\t=]")


def location(target: Target, warehouse: str) -> str:
    """Where the table lies: a folder for each part of its name, none of which becomes a path."""
    return "/".join([warehouse, *map(folder, filter(None, target.parts[1:]))])


def by_path(location: str) -> str:
    """The table in a statement."""
    return f"delta.{sql.quote(location)}"


def create(location: str, schema: Schema, layout: Layout, *, vectors: bool = False) -> str:
    """The statement that makes an empty table, with what the columns promise and say.

    Args:
        vectors: the readers of the lake understand deletion vectors, so that small changes may leave files as they are.

    Raises:
        ConfigError: the layout asks for what Delta does not have, or names a column that there is not.
    """
    for problem in layout_problems(layout, schema):
        raise ConfigError(f"layout: {problem}")
    columns = ", ".join(map(column_text, schema))
    parts = [f"CREATE TABLE IF NOT EXISTS {by_path(location)} ({columns}) USING delta"]
    if layout.partition_by:
        parts.append(f"PARTITIONED BY ({', '.join(_partition(each, schema) for each in layout.partition_by)})")
    wanted = vectors if layout.deletion_vectors is None else layout.deletion_vectors
    properties = {**PROPERTIES, VECTORS: str(wanted).lower()}
    if any(map(unusual, schema.names)):
        properties[MAPPING] = "name"
    if schema.comment:
        parts.append(f"COMMENT {sql.string(schema.comment)}")
    parts.append(f"TBLPROPERTIES ({pairs(properties)})")
    return " ".join(parts)


def layout_problems(layout: Layout, columns: Schema | None = None) -> Iterator[str]:
    """Why Delta has no such layout of these columns; of any columns if none are given.

    Example:
        >>> list(layout_problems(Layout(format_version=3)))
        ['format_version is a setting of Iceberg tables; remove it']
    """
    if layout.sort_by:
        yield "sort_by is not supported on Delta; remove it and use OPTIMIZE … ZORDER BY"
    if layout.format_version != Layout().format_version:
        yield "format_version is a setting of Iceberg tables; remove it"
    names = [expression.strip() for expression in layout.partition_by]
    for name in names:
        if _TRANSFORM.fullmatch(name):
            yield (
                f"partition_by {name!r} is a transform, which Delta does not have; use a column, which a "
                f"`query:` can compute from another"
            )
        elif columns is not None:
            yield from problem_of(lambda each=name: _partition(each, columns))  # type: ignore[misc]
    if twice := next((name for name in names if names.count(name) > 1), None):
        yield f"partition_by has {twice} twice"
    if columns is not None and names and set(columns.names) <= set(names):
        yield "partition_by names every column of the table, and Delta needs one that is stored in files"


def register(target: Target, location: str) -> tuple[str, ...]:
    """The statements by which Spark's own catalog knows the table; its columns are those of the log."""
    names = [sql.quote(part) for part in ("spark_catalog", *target.parts[1:])]
    return (
        f"CREATE SCHEMA IF NOT EXISTS {'.'.join(names[:-1])}",
        f"CREATE TABLE IF NOT EXISTS {'.'.join(names)} USING delta LOCATION {sql.string(location)}",
    )


def evolve(
    location: str, changes: Sequence[SchemaChange], schema: Schema, properties: Mapping[str, str]
) -> Iterator[str]:
    """The statements that rename columns, add others, all in one, and widen others.

    Args:
        properties: of the table, as it is.

    Raises:
        InternalError: a change that is none of these.
    """
    table = by_path(location)
    altered = evolved(changes, schema)
    wanted: dict[str, str] = {}
    named = altered.renamed or any(unusual(column.name) for column in altered.added)
    if named and properties.get(MAPPING, "none") == "none":
        wanted[MAPPING] = "name"
    if any(column.type.stored.kind is Kind.TIMESTAMP for column in altered.added):
        wanted[LOCAL_TIMES] = "supported"
    if altered.widened:
        wanted[WIDENING] = "true"
    if wanted:
        yield f"ALTER TABLE {table} SET TBLPROPERTIES ({pairs(wanted)})"
    yield from statements.evolve(table, altered)


def unusual(name: str) -> bool:
    """Whether a column of that name needs a name of its own within the files."""
    return _UNUSUAL.search(name) is not None


def _partition(expression: str, schema: Schema) -> str:
    name = expression.strip()
    if schema.find(name) is None and "(" in name:
        raise ConfigError(
            f"layout: partition_by {expression!r} is a transform, which Delta does not have",
            hint="Use a column; a `query:` can compute one from another.",
        )
    column = schema.find(known(name, schema, "partition_by"))
    if column is not None and column.type.kind in UNSUITABLE:
        raise ConfigError(
            f"layout: partition_by {name!r} is of type {column.type}, whose values Delta cannot write into the name of "
            f"a folder",
            column=name,
        )
    return sql.quote(name)
