"""Fields of rows whose table keeps some columns in another type than the database, see `core/casts`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tidegate.core.casts import Cast
from tidegate.core.ports.dialect import Dialect
from tidegate.core.schema import Column, Schema
from tidegate.dialects.shared.buckets import field
from tidegate.errors import SchemaRefused


def own(schema: Schema, casts: Mapping[str, Cast]) -> Schema:
    """The columns with the types that they have in the database."""
    return replace(schema, columns=tuple(_own(column, casts) for column in schema))


def fields(dialect: Dialect, columns: Sequence[Column], casts: Mapping[str, Cast]) -> list[str]:
    """The fields of a row as its table has them, from the values that the database has."""
    return [
        field(dialect, _own(column, casts), casts[column.name].suffix if column.name in casts else "")
        for column in columns
    ]


def refuse(name: str, casts: Mapping[str, Cast]) -> None:
    """Refuses a column by which rows are found: values of the database and of the table are not compared.

    Raises:
        SchemaRefused: its values are cast.
    """
    if (cast := casts.get(name)) is not None:
        raise SchemaRefused(
            f"column {name!r} is {cast.source} at the source and {cast.table} in the table, and the stream finds rows "
            f"by it, so `type_change: cast` cannot convert it",
            hint="Convert it at the source, or run a full refresh once with `contract: {type_change: replace}`.",
            column=name,
        )


def _own(column: Column, casts: Mapping[str, Cast]) -> Column:
    return replace(column, type=casts[column.name].source) if column.name in casts else column
