"""What the kit calls equal, and how it names what is not."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from tidegate_scenarios.comparison import different_columns, different_rows, equal

LOCAL = datetime(2025, 1, 1, 0, 0, 0, 1)  # noqa: DTZ001 - a type without a zone


@pytest.mark.parametrize(
    ("expected", "found", "same"),
    [
        (1, 1, True),
        (1, Decimal(1), True),
        (1, Decimal("1.5"), False),
        (1, True, False),
        (1, 1.0, False),
        (Decimal("1.50"), Decimal("1.5"), True),
        (Decimal("1E-10"), Decimal("0E-10"), False),
        (math.nan, math.nan, True),
        (math.nan, 0.0, False),
        (math.nan, None, False),
        (math.inf, -math.inf, False),
        (0.0, -0.0, True),
        (LOCAL, LOCAL, True),
        (LOCAL, LOCAL.replace(microsecond=0), False),
        (LOCAL, LOCAL.replace(tzinfo=UTC), False),
        ("é", "e\u0301", False),
        ("", None, False),
        (b"\x00", b"", False),
        (b"a", "a", False),
        ([1, None], [1, None], True),
        ([1, None], [1], False),
        ([math.nan], [math.nan], True),
        ([1], [True], False),
    ],
)
def test_equal(expected: Any, found: Any, same: bool) -> None:
    assert equal(expected, found) is same


def test_the_first_value_that_differs_is_named_by_its_column() -> None:
    expected = {1: {"a": 1, "b": "x"}, 2: {"a": 2, "b": "y"}}
    found = [{"id": 1, "a": 1, "b": "x"}, {"id": 2, "a": 3, "b": "y"}]
    assert different_columns(expected, found, "id") == {"a": "a of row 2 is 3, not 2"}
    assert different_columns(expected, found[:1], "id") == {}


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ([1, 2], ""),
        ([1], "missing: 2"),
        ([], "missing: 1, 2"),
        ([1, 2, 3], "too many: 3"),
        ([1, 2, 2], "twice: 2"),
        ([2, 2, 3], "missing: 1; too many: 3; twice: 2"),
    ],
)
def test_rows_that_are_missing_too_many_or_there_twice(keys: list[int], problem: str) -> None:
    assert different_rows({1: {}, 2: {}}, [{"id": key} for key in keys], "id") == problem


def test_long_values_are_cut() -> None:
    (text,) = different_columns({1: {"a": "x" * 1000}}, [{"id": 1, "a": "y" * 1000}], "id").values()
    assert len(text) < 250
