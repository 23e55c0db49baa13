"""Compares what a table should hold, as Python's values, with what a reader of the lake found in it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from tidegate.core.cutting import cut

SHOWN = 80
KEYS_SHOWN = 5

Row = Mapping[str, Any]


def different_rows(expected: Mapping[Any, Row], found: Sequence[Row], key: str) -> str:
    """What is wrong with the rows as a whole, in words; empty where each is there once with all of its values."""
    keys = Counter(row[key] for row in found)
    problems = [
        _listed("missing", [each for each in expected if each not in keys]),
        _listed("too many", [each for each in keys if each not in expected]),
        _listed("twice", [each for each, count in keys.items() if count > 1]),
        *different_columns(expected, found, key).values(),
    ]
    return "; ".join(problem for problem in problems if problem)


def different_columns(expected: Mapping[Any, Row], found: Sequence[Row], key: str) -> dict[str, str]:
    """By column the first value that is not the expected one, of the rows that are on both sides."""
    first: dict[str, str] = {}
    for row in found:
        for column, value in expected.get(row[key], {}).items():
            if not equal(value, row[column]):
                wanted, there = cut(repr(value), SHOWN), cut(repr(row[column]), SHOWN)
                first.setdefault(column, f"{column} of row {row[key]!r} is {there}, not {wanted}")
    return first


def equal(expected: Any, found: Any) -> bool:
    """Whether two values are the same, of one type: 1 is not True, and every NaN is one value.

    A number of an integer type may be an int or a Decimal without places. A zero has no sign, as in SQL.
    """
    if isinstance(expected, list) and isinstance(found, list):
        return len(expected) == len(found) and all(map(equal, expected, found))
    if isinstance(expected, float) and isinstance(found, float) and math.isnan(expected):
        return math.isnan(found)
    whole = {type(expected), type(found)} == {int, Decimal}
    return (type(expected) is type(found) or whole) and bool(expected == found)


def _listed(what: str, keys: Sequence[Any]) -> str:
    more = f" and {len(keys) - KEYS_SHOWN} more" if len(keys) > KEYS_SHOWN else ""
    return f"{what}: {', '.join(map(repr, keys[:KEYS_SHOWN]))}{more}" if keys else ""
