"""The calendar says of a day the worst that is known of it, and never more than is known."""

from __future__ import annotations

from datetime import date

import pytest

from tidegate.core.intervals import Interval, Intervals, IntervalState
from tidegate.service.web import charts, ledger_calendar
from tidegate.service.web.ledger_calendar import DAYS, Part, counted


def part(after, upto, known, rows=None):
    return Interval(after=after, upto=upto, known=known, rows=rows)


def days(found):
    return {str(cell.at.date()): str(cell.known) for cell in found.cells}


def test_an_interval_of_times_colours_the_days_that_it_covers():
    found = Intervals.of(
        [
            part("2025-03-01 00:00:00", "2025-03-03 00:00:00", IntervalState.DONE),
            part("2025-03-03 00:00:00", "2025-03-03 12:00:00", IntervalState.UNVERIFIED, 7),
        ]
    )
    calendar = ledger_calendar.of_intervals(found)
    assert days(calendar) == {"2025-03-01": "done", "2025-03-02": "done", "2025-03-03": "unverified"}
    assert calendar.cells[-1].label == "2025-03-03: unverified, 7 rows"


def test_an_interval_of_dates_leaves_out_its_first_bound_and_holds_its_last():
    found = Intervals.of([part("2025-03-01", "2025-03-03", IntervalState.STALE)])
    assert days(ledger_calendar.of_intervals(found)) == {"2025-03-02": "stale", "2025-03-03": "stale"}


def test_a_day_of_several_states_is_the_worst_of_them():
    ends = [f"2025-03-01 0{hour}:00:00" for hour in range(6)]
    states = [
        IntervalState.EMPTY,
        IntervalState.DONE,
        IntervalState.UNVERIFIED,
        IntervalState.STALE,
        IntervalState.FAILED,
    ]
    for number in range(1, 6):
        for order in (states[:number], states[:number][::-1]):
            spans = zip(ends, ends[1:], order, strict=False)
            calendar = ledger_calendar.of_intervals(Intervals.of([part(*span) for span in spans]))
            assert days(calendar) == {"2025-03-01": str(states[number - 1])}


def test_a_hole_between_intervals_is_missing():
    found = Intervals.of(
        [
            part(None, "2025-03-01 00:00:00", IntervalState.DONE),
            part("2025-03-03 00:00:00", "2025-03-05 00:00:00", IntervalState.DONE),
        ]
    )
    calendar = ledger_calendar.of_intervals(found)
    assert [day for day, known in days(calendar).items() if known == "failed"] == ["2025-03-01", "2025-03-02"]


def test_without_a_lower_bound_a_year_is_shown_and_earlier_bounds_are_reached():
    open_ = ledger_calendar.of_intervals(Intervals.of([part(None, "2025-03-01 00:00:00", IntervalState.DONE)]))
    assert (len(open_.cells), open_.earlier, open_.later) == (DAYS, False, False)
    found = Intervals.of([part("2020-01-01 00:00:00", "2025-03-01 00:00:00", IntervalState.DONE)])
    newest = ledger_calendar.of_intervals(found)
    assert (newest.earlier, newest.later, newest.last) == (True, False, date(2025, 2, 28))
    oldest = ledger_calendar.of_intervals(found, date(2020, 3, 1))
    assert (oldest.earlier, oldest.later, oldest.first) == (False, True, date(2020, 1, 1))
    assert ledger_calendar.of_intervals(found, date(2999, 1, 1)).last == date(2025, 2, 28)


@pytest.mark.parametrize(
    "bounds", [("5", "9"), ("a", "b"), (None, "2025-13-01"), ("7", "2025-01-01"), ("2025-01-01", "9999-12-31")]
)
def test_what_is_no_time_has_no_calendar(bounds):
    assert ledger_calendar.of_intervals(Intervals.of([part(*bounds, IntervalState.DONE)])) is None
    assert ledger_calendar.of_intervals(Intervals()) is None


@pytest.mark.parametrize(
    ("period", "label", "first", "many"),
    [
        ("hour", "2025013114", "2025-01-31 14:00:00", 1),
        ("day", "20250131", "2025-01-31 00:00:00", 1),
        ("week", "20250127", "2025-01-27 00:00:00", 7),
        ("month", "202402", "2024-02-01 00:00:00", 29),
        ("quarter", "2025Q4", "2025-10-01 00:00:00", 92),
        ("year", "2024", "2024-01-01 00:00:00", 366),
        ("day", "99991231", "9999-12-31 00:00:00", 1),
        ("week", "99991227", "9999-12-27 00:00:00", 5),
        ("month", "999912", "9999-12-01 00:00:00", 31),
        ("quarter", "9999Q4", "9999-10-01 00:00:00", 92),
        ("year", "9999", "9999-01-01 00:00:00", 365),
        ("year", "0001", "0001-01-01 00:00:00", 365),
    ],
)
def test_a_partition_is_its_hour_or_its_days(period, label, first, many):
    calendar = ledger_calendar.of_parts(
        [Part(label=label, known=IntervalState.DONE), Part(label="~N", known=IntervalState.DONE)], period
    )
    assert (str(calendar.cells[0].at), len(calendar.cells), calendar.hourly) == (first, many, period == "hour")
    assert charts.calendar(calendar, "squares").count("<rect ") == many


def test_partitions_without_a_time_have_no_calendar():
    assert ledger_calendar.of_parts([Part(label="~N", known=IntervalState.DONE)], "day") is None


def test_each_state_is_told_apart_without_its_colour():
    """By its mark, and where it has none by being filled or hollow; and all of them in words."""
    pictures = [charts.strip([("a", known)], "t") for known in IntervalState]
    marks = {known: charts.MARKS.get(known) for known in IntervalState}
    assert len({mark for mark in marks.values() if mark}) == 3
    assert [known for known, mark in marks.items() if not mark] == [IntervalState.DONE, IntervalState.EMPTY]
    assert all(str(known) in picture for known, picture in zip(IntervalState, pictures, strict=True))
    assert counted(list(IntervalState)) == "1 proven, 1 unverified, 1 stale, 1 missing, 1 no rows at the source"


def test_a_calendar_has_weeks_as_columns_and_days_as_rows():
    found = Intervals.of(
        [part("2025-03-03 00:00:00", "2025-03-17 00:00:00", IntervalState.DONE)]
    )  # a Monday, two weeks
    picture = charts.calendar(ledger_calendar.of_intervals(found), "two weeks")
    places = [line.split('"')[0:4:2] for line in picture.split("<rect ")[1:]]
    assert len(places) == 14
    columns = {line.split('x="')[1].split('"')[0] for line in picture.split("<rect ")[1:]}
    rows = {line.split('y="')[1].split('"')[0] for line in picture.split("<rect ")[1:]}
    assert (len(columns), len(rows)) == (2, 7)
    assert "Mar 2025" in picture
