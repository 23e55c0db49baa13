"""How a range is cut into chunks: nothing is left out, nothing comes twice."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.backfill import Backfill, Chunk, Progress, Scale, cut_by_rows, cut_evenly
from tidegate.core.schema import Kind


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Kind.INTEGER, "-7"),
        (Kind.DATE, "2024-02-29"),
        (Kind.TIMESTAMP, "2025-01-31 23:59:59.999999"),
        (Kind.TIMESTAMPTZ, "0001-01-01 00:00:00.000001"),
    ],
)
def test_a_cursor_is_a_whole_number_and_back(kind, text):
    scale = Scale(kind=kind)
    assert scale.text(scale.number(text)) == text
    assert scale.number(scale.text(scale.number(text) + 1)) == scale.number(text) + 1


@pytest.mark.parametrize(
    ("kind", "least"),
    [(Kind.INTEGER, str(-(2**63))), (Kind.DATE, "0001-01-01"), (Kind.TIMESTAMP, "0001-01-01 00:00:00.000000")],
)
def test_nothing_is_below_the_least_value(kind, least):
    scale = Scale(kind=kind)
    assert scale.below(scale.number(least)) is None
    assert scale.below(scale.number(least) + 1) == least


def test_a_day_of_a_time_is_its_beginning():
    assert Scale(kind=Kind.TIMESTAMP).text(Scale(kind=Kind.TIMESTAMP).number("2025-01-31")) == (
        "2025-01-31 00:00:00.000000"
    )
    assert Scale(kind=Kind.DATE).width(timedelta(hours=25)) == 2
    assert Scale(kind=Kind.TIMESTAMP).width(timedelta(seconds=1)) == 1_000_000


@given(
    low=st.integers(-50, 50),
    length=st.integers(0, 100),
    most=st.integers(1, 20),
    values=st.lists(st.integers(-60, 160), max_size=80),
)
def test_every_row_of_the_range_lies_in_exactly_one_chunk(low, length, most, values):
    high = low + length

    def rows_of(start: int, end: int) -> int:
        return sum(start <= value <= end for value in values)

    parts = list(cut_by_rows(low, high, most, rows_of))
    wanted = sorted(value for value in values if low <= value <= high)
    assert sorted(value for start, end, _ in parts for value in values if start <= value <= end) == wanted
    assert all(end < start for (_, end, _), (start, _, _) in itertools.pairwise(parts))
    assert all(0 < rows <= most or start == end for start, end, rows in parts)
    even = list(cut_evenly(low, high, most))
    assert [number for start, end in even for number in range(start, end + 1)] == list(range(low, high + 1))


def chunk(number: int, **values) -> Chunk:
    return Chunk(**{"number": number, "after": str(number), "upto": str(number + 1), "rows": 100, **values})


def test_the_time_left_is_that_of_the_rows_left():
    chunks = (chunk(1, status=Progress.DONE, seconds=2.0), chunk(2), chunk(3, status=Progress.FAILED))
    found = Backfill(
        backfill_id=1,
        stream="s",
        begin="1",
        end="4",
        parallel=1,
        rate=None,
        status=Progress.RUNNING,
        chunks=chunks,
        created_at=datetime.now(UTC),
    )
    assert found.seconds_left == 2.0
    assert [each.number for each in found.waiting] == [2]
    told = found.to_dict()
    assert (told["chunks_done"], told["chunks_failed"], told["rows_done"], told["rows_total"]) == (1, 1, 100, 300)
