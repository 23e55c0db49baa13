"""Partition fields that cannot hold the least numbers of their column's type, and rows that are kept out of them.

Source: Iceberg specification, "Partition Transforms": truncate of an integer is `v - (v mod W)` with a remainder that
is never negative.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from tidegate.core.refusals import marked
from tidegate.formats.iceberg.partitions import TRUNCATE
from tidegate.spark import sql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MISPLACED = "its partition would misplace"
LOWEST = {"int": 2**31, "long": 2**63}
DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class OverflowingField:
    """A partition field that cannot hold the least numbers of its column's type.

    Args:
        field: as a statement names it.
        column: of the table.
        width: of its steps.
        first: the least number that it holds, as a literal's text.
    """

    field: str
    column: str
    width: int
    first: str


def wrapping(raw: Mapping[str, Any]) -> tuple[OverflowingField, ...]:
    """The fields of the spec in force of which the lowest step begins below the column's type.

    The beginning of an integer's step wraps, see `core.type_limits`; that of a decimal has a digit too many to be
    written. A power of two divides the least integer, so it begins a step.

    Example:
        >>> spec = {"spec-id": 0, "fields": [{"source-id": 1, "transform": "truncate[1000]"}]}
        >>> schema = {"schema-id": 0, "fields": [{"id": 1, "name": "n", "type": "int"}]}
        >>> raw = {"schemas": [schema], "partition-specs": [spec], "default-spec-id": 0}
        >>> [(each.field, each.first) for each in wrapping(raw)]
        [('truncate(1000, `n`)', '-2147483000')]
    """
    current = raw.get("current-schema-id", 0)
    schema = next((each for each in raw.get("schemas") or () if each.get("schema-id", 0) == current), {"fields": ()})
    columns = {field["id"]: field for field in schema["fields"]}
    specs = {each["spec-id"]: each["fields"] for each in raw.get("partition-specs") or ()}
    found = []
    for field in specs.get(raw.get("default-spec-id"), ()):
        cut, column = TRUNCATE.fullmatch(field["transform"]), columns.get(field["source-id"])
        if cut is None or column is None:
            continue
        width, (most, scale) = int(cut[1]), _digits(column["type"])
        if most % width:
            first = Decimal((1, tuple(map(int, str(most // width * width))), -scale))
            name = column["name"]
            written = f"truncate({width}, {sql.quote(name)})"
            found.append(OverflowingField(field=written, column=name, width=width, first=f"{first:f}"))
    return tuple(found)


def fitting(rows: DataFrame, fields: Sequence[OverflowingField]) -> DataFrame:
    """The rows, whose reading ends where a value is one that the fields would misplace."""
    first = {each.column: each for each in fields if each.column in rows.columns}
    if not first:
        return rows
    columns = []
    for name in rows.columns:
        sure = quoted = sql.quote(name)
        if name in first:
            reason = marked(f"column {name!r} holds a value that {MISPLACED}")
            kind = rows.schema[name].dataType.simpleString()
            ended = f"CAST(raise_error({sql.string(reason)}) AS {kind})"
            least = f"CAST({sql.string(first[name].first)} AS {kind})"
            sure = f"CASE WHEN {quoted} < {least} THEN {ended} ELSE {quoted} END AS {quoted}"
        columns.append(sure)
    return rows.selectExpr(*columns)


def _digits(kind: Any) -> tuple[int, int]:
    """How far numbers of the type go below zero, without their point, and digits behind it; 0 for other types."""
    if not isinstance(kind, str):
        return 0, 0
    if found := DECIMAL.fullmatch(kind):
        return 10 ** int(found[1]) - 1, int(found[2])
    return LOWEST.get(kind, 0), 0
