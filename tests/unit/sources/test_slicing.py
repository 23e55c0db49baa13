"""A partition cut into parts of equal width: together they are the partition, and no two share a value."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.schema import BIGINT, DATE, TEXT, TIMESTAMP, Column, Type
from tidegate.core.slices import Partition
from tidegate.sources.database.slicing import widths


def cut(kind: Type, low: str | None, high: str | None, count: int, *, nulls: bool = False) -> list[Partition]:
    part = Partition(column="c", label="l", low=low, high=high, nulls=nulls)
    return list(widths(part, Column(name="c", type=kind), count))


@given(low=st.integers(-(10**18), 10**18), width=st.integers(2, 10**6), count=st.integers(2, 9))
def test_integers(low, width, count):
    pieces = cut(BIGINT, str(low), str(low + width), count, nulls=True)
    if width < count:
        assert pieces == []
        return
    assert (pieces[0].low, pieces[-1].high, len(pieces)) == (str(low), str(low + width), count)
    assert all(int(piece.low) < int(piece.high) for piece in pieces)
    assert [one.high for one in pieces[:-1]] == [one.low for one in pieces[1:]]
    assert [piece.nulls for piece in pieces] == [True] + [False] * (count - 1)


@pytest.mark.parametrize(
    ("kind", "low", "high", "borders"),
    [
        (DATE, "2025-01-01", "2025-01-08", ["2025-01-04"]),
        (DATE, "2025-01-01", "2025-01-02", None),
        (TIMESTAMP, "0001-01-01 00:00:00.000000", "0001-01-01 01:00:00.000000", ["0001-01-01 00:30:00.000000"]),
        (TIMESTAMP, "9999-12-31 00:00:00.000000", None, None),
        (TEXT, "a", "b", None),
    ],
)
def test_times_and_what_cannot_be_cut(kind, low, high, borders):
    assert [piece.high for piece in cut(kind, low, high, 2)[:-1]] == (borders or [])
