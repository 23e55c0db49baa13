"""Names the columns of a snapshot as the table, or whoever has looked at it, names them.

A snapshot is read with the schema that it was written with, and no change of columns makes a snapshot. What a column is
tells its field id alone. Source: Iceberg specification, "Schema Evolution" and "Column Projection".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tidegate.core.schema import Schema
from tidegate.errors import SchemaRefused
from tidegate.formats.iceberg.metadata import REPLACING, Metadata, spark_type
from tidegate.spark.sql import quote, string

Field = Mapping[str, Any]


def as_now(metadata: Metadata, snapshot: int) -> list[str] | None:
    """The select list by which rows of the snapshot have the table's present columns; None where they have them.

    A column that came later has its initial default, or is NULL. One that came later and is of a type that Tidegate
    does not load is left out.
    """
    then = metadata.fields_at(snapshot)
    now = [field for field in metadata.fields() if not field["name"].startswith(REPLACING)]
    if [_identity(field) for field in then] == [_identity(field) for field in now]:
        return None
    known = _by_id(then)
    return [text for field in now if (text := _present(field, known.get(field["id"]))) is not None]


def as_seen(metadata: Metadata, snapshot: int | None, columns: Schema) -> list[str]:
    """The select list by which rows of the snapshot have these columns, whatever they are called there or by now.

    Args:
        snapshot: None for rows that have the table's present columns.
        columns: of `Metadata.schema`, which may be an older one.
    """
    then = _by_id(metadata.fields() if snapshot is None else metadata.fields_at(snapshot))
    ever = _by_id(metadata.fields_ever())
    wanted = ((column, int(column.ident or 0)) for column in columns)
    return [
        _expression(column.name, column.type.stored.spark, then.get(number), ever.get(number))
        for column, number in wanted
    ]


def _present(field: Field, then: Field | None) -> str | None:
    if then is not None and then["type"] == field["type"]:
        return _renamed(then["name"], field["name"])
    try:
        return _expression(field["name"], spark_type(field), then, field)
    except SchemaRefused:
        return None if then is None else _renamed(then["name"], field["name"])


def _expression(name: str, spark: str, then: Field | None, now: Field | None) -> str:
    """The column of that name and type.

    Args:
        then: the field that the snapshot has of it; None where it has none.
        now: any field of it, which says what it is where the snapshot has none.
    """
    if then is None:
        return f"CAST({_default(now)} AS {spark}) AS {quote(name)}"
    if spark_type(then) == spark:
        return _renamed(then["name"], name)
    return f"CAST({quote(then['name'])} AS {spark}) AS {quote(name)}"


def _default(field: Field | None) -> str:
    """The literal of what rows have that are older than the column.

    Source: Iceberg specification, "JSON Single-Value Serialization".

    Example:
        >>> _default({"type": "decimal(9, 2)", "initial-default": "14.20"})
        "'14.20'"
    """
    value = (field or {}).get("initial-default")
    if field is None or value is None or not isinstance(field["type"], str):
        return "NULL"
    if field["type"] == "boolean":
        return "true" if value else "false"
    if field["type"] == "binary" or field["type"].startswith("fixed["):
        return f"X'{value}'"
    return string(str(value))


def _renamed(old: str, new: str) -> str:
    return quote(new) if old == new else f"{quote(old)} AS {quote(new)}"


def _identity(field: Field) -> tuple[Any, ...]:
    return field["id"], field["name"], field["type"]


def _by_id(fields: Sequence[Field]) -> dict[int, Field]:
    return {field["id"]: field for field in fields}
