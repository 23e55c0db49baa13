"""A column that is coarser than its clock: a value that more rows may get is left to a later load."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest

from tidegate.dialects.shared.time_bounds import canonical
from tidegate.strategies.watermark import Watermark
from unit.strategies.fakes import Stream, Table


def at(text: str) -> str:
    """A canonical timestamp of January 2025 from its day and time."""
    return f"2025-01-{text}"


def test_a_row_version_has_no_step() -> None:
    one = Stream(table=Table(safe="2000"), strategy=Watermark(column="updated_at"))
    one.table.put("a", "2000")
    one.run()
    assert set(one.loaded) == {"a"}


@pytest.mark.parametrize(
    ("values", "safe", "taken"),
    [
        (("02 00:01:00.000000", "02 00:02:00.000000"), "02 00:02:30.000000", 1),  # more rows of that minute may come
        (("02 00:01:00.000000", "02 00:02:00.000000"), "02 00:02:59.999999", 2),
        (("02 00:01:59.000000", "02 00:02:00.000000"), "02 00:02:00.500000", 1),  # of that second
        (("02 00:01:59.000000", "02 00:02:00.000000"), "02 00:02:00.999999", 2),
        (("02 00:01:59.123456", "02 00:02:00.000000"), "02 00:02:00.000000", 2),  # whole by chance
        (("01 00:00:00.000000", "02 00:00:00.000000"), "02 12:00:00.000000", 1),  # of that day
        (("02 00:02:00.000000",), "02 00:02:30.000000", 0),
        (("02 00:02:00.123000",), "02 00:02:00.123500", 0),
        (("02 00:02:00.123456",), "02 00:02:00.123456", 1),
    ],
)
def test_a_value_that_more_rows_may_get_is_left_until_its_step_has_passed(values, safe, taken) -> None:
    one = Stream(table=Table(safe=at(safe)), strategy=Watermark(column="updated_at"))
    for number, value in enumerate(values):
        one.table.put(str(number), at(value))
    changes = one.run()
    assert len(one.loaded) == taken
    held = changes.edge.held_by if changes else ()
    assert held == (
        () if taken in (len(values), 0) else (f"updated_at = {at(values[-1])}, which more rows may still get,",)
    )


WEEK = timedelta(days=7)


@pytest.mark.parametrize(
    "lookback", [timedelta(0), timedelta(hours=1), (timedelta(0), WEEK), (timedelta(days=2), WEEK)]
)
@pytest.mark.parametrize(
    ("length", "zone"),
    [
        *((length, 0) for length in (1_000, 1_000_000, 60_000_000, 86_400_000_000)),
        (3_600_000_000, 1_800_000_000),  # hours of India
        (3_600_000_000, 2_700_000_000),  # and of Nepal
    ],
)
def test_no_row_of_a_coarse_clock_is_missed(length: int, zone: int, lookback) -> None:
    """Transactions that begin one after another and commit in any order; the clock of the column is cut down."""
    chosen, began = random.Random(length), datetime(2025, 1, 1, tzinfo=UTC)
    one = Stream(table=Table(safe=None), strategy=Watermark(column="updated_at", lookback=lookback))
    now, open_ones, loads = 0, {}, 0
    for number in range(1, 100):
        now += chosen.randrange(1, max(2, length // 5))
        open_ones[chosen.choice((str(number), str(chosen.randrange(1, number + 1))))] = now  # a new row, or an update
        for key in [key for key in open_ones if chosen.random() < 0.4]:
            written = began + timedelta(microseconds=((open_ones.pop(key) - zone) // length * length + zone))
            one.table.put(key, canonical(written))
        bound = began + timedelta(microseconds=min([now, *open_ones.values()]) - 1)
        one.table.safe = canonical(bound)
        loads += one.run() is not None
    assert loads > 4
    one.table.safe = canonical(began + timedelta(microseconds=now, days=2))
    one.run()
    assert one.loaded == one.table.rows
