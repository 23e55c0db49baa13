"""Partition specs whose partitions consist of whole files, and a check whether an existing table has such a layout.

Pure. A table whose files may span partitions is never reported as aligned.

Source: Iceberg specification, "Partition Transforms": truncate of an integer is `v - (v mod W)` with a remainder that
is never negative, of a text its first L characters; hour, day, month and year count in UTC.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tidegate.core.grouping import Grouping, Period, Periods, Prefixes, Ranges, Steps, Whole

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
