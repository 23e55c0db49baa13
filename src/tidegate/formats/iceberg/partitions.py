"""Partition specs whose partitions consist of whole files, and a check whether an existing table has such a layout.

Pure. A table whose files may span partitions is never reported as aligned.

Source: Iceberg specification, "Partition Transforms": truncate of an integer is `v - (v mod W)` with a remainder that
is never negative, of a text its first L characters; hour, day, month and year count in UTC.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from tidegate.core.grouping import Grouping, Period, Periods, Prefixes, Ranges, Steps, Whole
from tidegate.spark import sql

WIDEST = 2**31 - 1
FINEST = 10  # partitions of files in one range
WORDS = {
    Period.HOUR: "hours",
    Period.DAY: "days",
    Period.WEEK: "days",
    Period.MONTH: "months",
    Period.QUARTER: "months",
    Period.YEAR: "years",
}
# The transforms of which each period is made, whole.
WITHIN = {
    Period.HOUR: {"hour"},
    Period.DAY: {"hour", "day", "identity"},
    Period.WEEK: {"hour", "day", "identity"},
    Period.MONTH: {"hour", "day", "month", "identity"},
    Period.QUARTER: {"hour", "day", "month", "identity"},
    Period.YEAR: {"hour", "day", "month", "year", "identity"},
}
LOWEST = {"int": 2**31, "long": 2**63}
DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")
TRUNCATE = re.compile(r"truncate\[(\d+)\]")


def partition_by(grouping: Grouping) -> tuple[str, ...]:
    """The `layout: {partition_by: …}` of a new table.

    Example:
        >>> partition_by(Steps(column="id", width=1000))
        ('truncate(1000, id)',)
    """
    match grouping:
        case Steps(column=column, width=width) if width <= WIDEST:
            return (f"truncate({width}, {column})",)
        case Periods(column=column, period=period):
            return (f"{WORDS[period]}({column})",)
        case Ranges(column=column, period=Period() as period):
            return (f"{WORDS[period]}({column})",)
        case Ranges(column=column, step=int() as width, cuts=cuts) if _few(width, cuts):
            return (f"truncate({width}, {column})",)
        case Prefixes(column=column, length=length):
            return (f"truncate({length}, {column})",)
        case _:
            return ()


def aligned(raw: Mapping[str, Any], grouping: Grouping) -> bool:
    """Whether every data file, of whichever of the table's specs, lies within one partition of the grouping."""
    if isinstance(grouping, Whole):
        return True
    names = {field["id"]: field["name"] for schema in raw.get("schemas", ()) for field in schema["fields"]}
    specs = raw.get("partition-specs") or ()
    return bool(specs) and all(
        any(
            names.get(field["source-id"]) == grouping.column and _within(field["transform"], grouping)
            for field in spec["fields"]
        )
        for spec in specs
    )


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


def _digits(kind: Any) -> tuple[int, int]:
    """How far numbers of the type go below zero, without their point, and digits behind it; 0 for other types."""
    if not isinstance(kind, str):
        return 0, 0
    if found := DECIMAL.fullmatch(kind):
        return 10 ** int(found[1]) - 1, int(found[2])
    return LOWEST.get(kind, 0), 0


def _few(width: int, cuts: Sequence[str]) -> bool:
    """Whether steps of that width do not cut ranges into very many files."""
    return 1 < width <= WIDEST and int(cuts[-1]) - int(cuts[0]) <= FINEST * width * len(cuts)


def _within(transform: str, grouping: Grouping) -> bool:
    found = TRUNCATE.fullmatch(transform)
    width = int(found[1]) if found else None
    match grouping:
        case Steps(width=step):
            return transform == "identity" or (width is not None and step % width == 0)
        case Ranges(step=int() as step):
            return transform == "identity" or (width is not None and step % width == 0)
        case Periods(period=period) | Ranges(period=Period() as period):
            return transform in WITHIN[period]
        case Prefixes(length=length):
            return transform == "identity" or (width is not None and width >= length)
        case _:
            return False
