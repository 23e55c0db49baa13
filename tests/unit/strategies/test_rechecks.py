"""What a lookback of several durations compares and reads again, over a table in memory."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import date, datetime, timedelta

import pytest

from tidegate.core.position import Position
from tidegate.core.schema import DATE, TIMESTAMPTZ, Schema
from tidegate.strategies.watermark import Watermark
from unit.strategies.fakes import SCHEMA, Stream, Table

DAY, HOUR = timedelta(days=1), timedelta(hours=1)
OFFSETS = (timedelta(0), DAY, 7 * DAY, 30 * DAY)


def at(day: int, time: str = "12:00:00.000000") -> str:
    """A canonical timestamp, `day` days after the end of 2024."""
    return f"{date(2024, 12, 31) + timedelta(days=day)} {time}"


def stream(*, days: int = 40, lookback=OFFSETS) -> Stream:
    """A row at noon of every day, all loaded."""
    one = Stream(table=Table(safe=at(900)), strategy=Watermark(column="updated_at", lookback=lookback))
    for day in range(1, days + 1):
        one.table.put(f"r{day}", at(day))
    one.run()
    return one


def fail(one: Stream) -> None:
    """A run that gets no further than its plan."""
    one.table.asked.clear()
    one.strategy.detect(one.table, one.position)


def spans(changes) -> list[tuple[str | None, str | None]]:
    return [(part.after, part.upto) for part in changes.slices]


def whole(day: int) -> tuple[str, str]:
    """The bounds of a day."""
    return at(day - 1, "23:59:59.999999"), at(day, "23:59:59.999999")


def test_an_unchanged_table_is_not_read_and_hardly_asked():
    one = stream()
    assert one.run() is None
    assert one.table.asked.count("partitions") == 1
    assert one.table.asked.count("fingerprint") == 1, "today's rows up to the position"


@pytest.mark.parametrize(
    ("offsets", "last"),
    [
        ((timedelta(0), DAY), "9999-12-31 23:59:59.999999"),
        ((timedelta(0), HOUR), "9999-12-31 23:59:59.999999"),
        ((timedelta(0), DAY), "0001-01-01 00:00:00.000000"),
    ],
)
def test_the_first_and_the_last_day_that_there_are_can_be_compared_again(offsets, last):
    one = Stream(table=Table(safe=last), strategy=Watermark(column="updated_at", lookback=offsets))
    one.table.put("end", last)
    one.run()
    one.table.put("late", last)
    assert one.run().slices[0].upto == last
    assert one.loaded.keys() == {"end", "late"}


@pytest.mark.parametrize("back", [0, 1, 7, 30])
def test_a_late_row_is_read_with_its_day_alone(back):
    one = stream()
    one.table.put("late", at(40 - back, "03:00:00.000000"))
    changes = one.run()
    assert spans(changes) == [whole(40 - back) if back else (whole(40)[0], at(40))]
    assert "late" in one.loaded
    assert changes.observed.arrivals == ((0, 0), (back * 86400 + 43200, 1))
    assert one.run() is None


def test_a_late_row_between_two_offsets_waits_for_the_next_one():
    one = stream()
    one.table.put("late", at(37))
    assert one.run() is None
    one.table.put("r44", at(44))
    changes = one.run()
    assert spans(changes) == [whole(37), (at(40), at(44))]
    assert changes.rows == 3
    assert changes.observed.arrivals == ((0, 1), (3 * 86400 + 43200, 1))
    assert set(one.loaded) == set(one.table.rows)


def test_days_that_no_run_saw_pass_are_caught_up_with():
    """Nothing ran for ten days, and what came late meanwhile lies where no offset points to now."""
    one = stream()
    one.table.put("late", at(35))
    one.table.put("r50", at(50))
    changes = one.run()
    assert whole(35) in spans(changes)
    assert set(one.loaded) == set(one.table.rows)


def test_a_run_that_fails_leaves_no_hole():
    one = stream()
    one.table.put("late", at(37))
    one.table.put("r44", at(44))
    fail(one)
    one.table.put("r46", at(46))
    assert whole(37) in spans(one.run())
    assert set(one.loaded) == set(one.table.rows)


def test_neighbouring_days_are_one_range_and_the_last_goes_over_into_the_new():
    one = stream(lookback=(timedelta(0), DAY))
    one.table.put("late", at(39))
    one.table.put("later", at(40, "01:00:00.000000"))
    one.table.put("new", at(41))
    assert spans(one.run()) == [(whole(39)[0], at(41))]


def test_rows_of_one_day_that_come_in_several_loads_are_late_in_none_of_them():
    for lookback in (OFFSETS, OFFSETS[1:]):
        one = stream(lookback=lookback)
        for hour in (13, 15, 17):
            one.table.put(f"r40.{hour}", at(40, f"{hour}:00:00.000000"))
            assert one.run().observed.arrivals == ((0, 1),)
            assert one.run() is None
        one.table.put("r41", at(41))
        assert spans(one.run()) == [(at(40, "17:00:00.000000"), at(41))]


def test_a_row_that_is_gone_is_seen_once():
    one = stream()
    del one.table.rows["r33"]
    changes = one.run()
    assert spans(changes) == [whole(33)]
    assert changes.observed.arrivals == ((0, 0),)
    assert one.run() is None


def test_a_longer_lookback_reads_what_nobody_kept_once():
    one = stream(lookback=(timedelta(0), DAY))
    one.strategy = replace(one.strategy, lookback=OFFSETS)
    changes = one.run()
    assert spans(changes) == [(whole(10)[0], whole(38)[1])]
    assert changes.observed.arrivals == ((0, 0),), "nothing is known to be late of days that nobody kept"
    assert one.run() is None


def test_a_position_taken_over_reads_the_window_once():
    one = stream()
    one.position = Position(sequence=1, load_id="x", kind="watermark", state=one.strategy.resume(at(40)))
    assert spans(one.run()) == [(whole(10)[0], at(40))]
    assert one.run() is None


def test_hours_where_an_offset_is_none_of_whole_days():
    one = stream(lookback=(timedelta(0), 5 * HOUR))
    one.table.put("early", at(40, "06:59:59.000000"))
    one.table.put("late", at(40, "07:30:00.000000"))
    assert spans(one.run()) == [(at(40, "06:59:59.999999"), at(40, "07:59:59.999999"))]


def test_days_of_a_date():
    columns = tuple(replace(column, type=DATE) if column.type == TIMESTAMPTZ else column for column in SCHEMA)
    one = Stream(
        table=Table(safe="2025-12-31", schema_=Schema(columns=columns)),
        strategy=Watermark(column="updated_at", lookback=(DAY, 2 * DAY)),
    )
    for day in (8, 9, 10):
        one.table.put(f"r{day}", f"2025-01-{day:02}")
    one.run()
    assert one.run() is None
    one.table.put("late", "2025-01-08")
    assert spans(one.run()) == [("2025-01-07", "2025-01-08")]
    assert one.run() is None


@pytest.mark.parametrize("seed", range(3))
def test_whatever_comes_late_is_there_once_the_last_offset_has_passed(seed):
    """Rows come up to 29 days late, runs are left out and fail: once every offset has passed, nothing is missing."""
    chance = random.Random(seed)
    one = stream(days=1)
    for day in range(2, 120):
        one.table.put(f"r{day}", at(day))
        for _ in range(chance.randrange(3)):
            late = chance.randrange(max(day - 29, 1), day + 1)
            one.table.put(f"late{day}.{chance.random()}", at(late, f"{chance.randrange(24):02}:30:00.000000"))
        what = chance.random()
        if what < 0.2:
            fail(one)
        elif what < 0.7:
            one.run()
    one.table.put("end", at(160))
    one.run()
    assert one.loaded == one.table.rows
    kept = one.position.state["rechecks"]["periods"]
    assert all(datetime.fromisoformat(start) >= datetime.fromisoformat(at(130, "00:00:00")) for start in kept)
