"""What a watermark decides, over a table in memory."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from tidegate.core.bounds import Clock
from tidegate.core.effects import Upsert
from tidegate.core.position import Position
from tidegate.core.schema import Schema
from tidegate.core.slices import Range
from tidegate.errors import ConfigError, HistoryGone, PlanError
from tidegate.strategies.watermark import OnNull, Watermark
from unit.strategies.fakes import SCHEMA, Stream, Table

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def at(text: str) -> str:
    """A canonical timestamp of January 2025 from its day and time."""
    return f"2025-01-{text}"


def stream(**options) -> Stream:
    """A table of three rows, two of which carry the same time, and a stream that has not run."""
    table = Table()
    table.put("a", at("01 00:00:00.000001"))
    table.put("b", at("02 00:00:00.000000"))
    table.put("c", at("02 00:00:00.000000"))
    return Stream(table=table, strategy=Watermark(column="updated_at", **options))


def test_first_load_takes_everything_up_to_the_edge() -> None:
    one = stream()
    one.table.put("later", at("31 00:00:00.000001"))
    changes = one.run()
    assert changes.slices == (Range(cursor=("updated_at",), after=None, upto=at("02 00:00:00.000000")),)
    assert isinstance(changes.effect, Upsert)
    assert changes.rows == 3
    assert changes.loaded_through == at("02 00:00:00.000000")
    assert set(one.loaded) == {"a", "b", "c"}
    assert one.run() is None
    # The position is a row seen and not the edge: what comes in below the edge but above every row seen is new.
    one.table.put("d", at("02 00:00:00.000001"))
    changes = one.run()
    assert changes.slices[0].after == at("02 00:00:00.000000")
    assert one.loaded["d"] == one.table.rows["d"]
    one.table.safe = None
    assert one.run() is None, "no edge moves nothing"


def test_a_clock_that_went_back_to_before_the_position_stops() -> None:
    """What is written by it comes below the position, and would never be read."""
    one = stream()
    one.run()
    one.table.safe = at("01 12:00:00.000000")
    one.table.put("d", at("01 11:00:00.000000"))
    with pytest.raises(HistoryGone, match="clock of the source is behind that") as gone:
        one.run()
    assert gone.value.context["restored"], "later runs, by a clock that is past the position again, cannot see it"
    assert gone.value.context["options"] == {"time_zone": None}, "what was seen holds for this zone alone"


@pytest.mark.parametrize(
    ("value", "options", "refused"),
    [
        ("2025-01-31", {}, False),
        ("2025-01-31 00:00:00.000000", {}, False),
        ("2025-01-31 00:00:00.000001", {}, True),
        ("2205-01-02", {}, True),
        ("2025-01-31 12:00:00+12:00", {}, False),
        ("2025-01-31 06:00:00", {"safety_lag": 6 * HOUR}, False),
        ("2025-01-31 06:00:00", {"lookback": 5 * HOUR}, True),
    ],
)
def test_a_position_beyond_the_bound_is_not_set_and_what_may_be_set_stops_no_run(value, options, refused) -> None:
    one = stream(**options)
    one.run()
    state = one.strategy.resume(value)
    if refused:
        with pytest.raises(ConfigError, match="up to which the source can be read now") as error:
            one.strategy.check_value(state, one.table)
        assert "tidegate state set STREAM VALUE" in error.value.hint
    else:
        one.strategy.check_value(state, one.table)
        one.position = replace(one.position, state=state)
        one.run()


def test_a_position_is_not_set_while_nothing_tells_the_bound_nor_beyond_the_time_of_files() -> None:
    one = stream()
    one.table.safe, one.table.held_by = None, ("pid 1",)
    with pytest.raises(ConfigError, match="held back by pid 1"):
        one.strategy.check_value(one.strategy.resume("2025-01-02"), one.table)
    files = Table(safe=None, final=False, latest="2025-01-31 14:00:00.000000")
    one.strategy.check_value(one.strategy.resume("2025-01-31"), files)
    with pytest.raises(ConfigError, match="beyond 2025-01-31 14"):
        one.strategy.check_value(one.strategy.resume("2090-01-01"), files)


def test_files_that_were_loaded_up_to_a_time_to_come_stop_and_clocks_that_differ_a_little_do_not() -> None:
    """An earlier version of Tidegate left such positions: all that comes below them would be lost."""
    files = Stream(table=Table(final=False, latest=at("31 00:00:00.000000")), strategy=Watermark(column="updated_at"))
    files.table.put("a", at("30 12:00:00.000000"))
    files.run()
    files.table.latest = at("30 11:30:00.000000")
    assert files.run() is None
    files.table.latest = at("30 10:30:00.000000")
    with pytest.raises(HistoryGone, match="come with the times between") as gone:
        files.run()
    assert not gone.value.context["restored"], "with the right clock it goes on"


@pytest.mark.parametrize("options", [{"lookback": 12 * HOUR}, {"safety_lag": 12 * HOUR}])
def test_a_clock_that_went_back_within_the_lookback_or_a_longer_lag_stops_nothing(options) -> None:
    one = stream(**options)
    one.run()
    one.table.safe = at("01 12:00:00.000000")
    assert one.run() is None
    one.table.safe = at("01 11:59:59.999999")
    with pytest.raises(HistoryGone):
        one.run()


EAST, WEST = timedelta(hours=9), timedelta(hours=-5)


def zoned(hour: str, ahead: timedelta, **options) -> Stream:
    """A table without zone whose database is that far ahead of UTC, at this time of UTC."""
    one = Stream(table=Table(), strategy=Watermark(column="updated_at", **options))
    set_clock(one, hour, ahead)
    return one


def set_clock(one: Stream, hour: str, ahead: timedelta) -> None:
    utc = datetime.fromisoformat(at(f"10 {hour}:00.000000"))
    one.table.utc = utc.isoformat(" ", "microseconds")
    one.table.safe = (utc + ahead).isoformat(" ", "microseconds")


@pytest.mark.parametrize("ahead", [EAST, WEST])
def test_rows_in_utc_stop_where_the_database_is_in_another_zone(ahead: timedelta) -> None:
    one = zoned("12:00", ahead)
    one.table.put("a", at("10 11:40:00.000000"))
    one.run()
    set_clock(one, "12:30", ahead)
    one.table.put("b", at("10 12:28:00.000000"))
    with pytest.raises(ConfigError, match="newest rows have the time of UTC") as stopped:
        one.run()
    assert "time_zone: UTC" in stopped.value.hint


def test_rows_in_the_zone_of_the_database_never_stop() -> None:
    """Not when nothing has changed for as long as that zone is ahead, nor when rows are found by a later load."""
    east = zoned("03:00", EAST)
    east.table.put("a", at("10 11:59:00.000000"))
    east.run()
    for hour in ("11:57", "11:59", "12:03"):
        set_clock(east, hour, EAST)
        assert east.run() is None
    east.table.put("b", at("10 12:01:00.000000"))
    east.run()
    assert set(east.loaded) == {"a", "b"}
    west = zoned("12:00", WEST)
    west.table.put("a", at("10 06:59:00.000000"))
    for row, value in (("b", "10 12:01:00.000000"), ("c", "11 12:00:00.000000")):  # of a time to come
        west.table.put(row, at(value))
    west.run()
    assert set(west.loaded) == {"a"}


def test_equal_values_across_the_boundary() -> None:
    """Two rows of one microsecond, one each side of the edge in time: the edge is strict, so both are above it."""
    one = stream()
    one.table.safe = at("01 23:59:59.999999")
    one.run()
    assert set(one.loaded) == {"a"}
    one.table.safe = at("02 00:00:00.000000")
    one.run()
    assert set(one.loaded) == {"a", "b", "c"}


@pytest.mark.parametrize("options", [{}, {"lookback": HOUR}, {"lookback": (timedelta(days=2), timedelta(days=7))}])
def test_rows_that_come_with_the_value_of_the_position(options) -> None:
    """A file or a commit may bring them later: nobody can rule that out, so they are looked for."""
    one = stream(**options)
    one.table.final = False
    one.run()
    assert one.run() is None
    one.table.put("d", at("02 00:00:00.000000"))
    changes = one.run()
    assert changes is not None
    assert set(one.loaded) == {"a", "b", "c", "d"}
    assert one.run() is None
    one.table.put("e", at("02 00:00:00.000000"))
    one.table.put("f", at("03 00:00:00.000000"))
    changes = one.run()
    assert len(changes.slices) == 1
    assert one.loaded == one.table.rows
    assert one.run() is None


def test_rows_of_the_position_that_went_are_not_looked_for() -> None:
    """Files that were loaded may be cleared away."""
    one = stream()
    one.table.final = False
    one.run()
    one.table.put("b", at("03 00:00:00.000000"))
    changes = one.run()
    assert changes.repeats is None
    del one.table.rows["b"], one.table.rows["c"]
    assert one.run() is None


def test_who_reads_rows_again_says_so() -> None:
    one = stream()
    one.table.final = False
    first = one.run()
    one.table.put("d", at("02 00:00:00.000000"))
    second = one.run()
    assert first.repeats is None
    assert "2025-01-02 00:00:00.000000" in second.repeats


@pytest.mark.parametrize("lookback", [HOUR, 400 * DAY, (timedelta(0), DAY, 7 * DAY)])
def test_an_empty_table_then_rows_of_the_first_days_of_the_calendar(lookback) -> None:
    one = Stream(table=Table(), strategy=Watermark(column="updated_at", lookback=lookback))
    assert one.run() is None
    one.table.put("a", "0001-01-02 00:00:00.000000")
    one.run()
    one.table.put("b", "0001-01-01 23:30:00.000000")
    one.run()
    assert set(one.loaded) == {"a", "b"}
    assert one.run() is None


def test_nothing_new_asks_for_no_fingerprint_without_lookback() -> None:
    one = stream()
    one.run()
    assert one.run() is None
    assert set(one.table.asked) == {"stats"}


def test_backdated_row_within_the_lookback_is_found() -> None:
    one = stream(lookback=timedelta(days=2))
    one.run()
    assert one.run() is None
    one.table.put("late", at("01 12:00:00.000000"))
    changes = one.run()
    assert changes.slices[0].after == "2024-12-31 00:00:00.000000"
    assert "lookback" in changes.reason
    assert "late" in one.loaded
    assert one.run() is None
    one.table.put("d", at("03 00:00:00.000000"))
    assert one.run().slices[0].after == at("02 00:00:00.000000"), "an equal window is not read again"
    plain = stream()
    plain.run()
    plain.table.put("late", at("01 12:00:00.000000"))
    assert plain.run() is None, "which is what a lookback is for"


def test_a_row_within_the_lookback_that_changes_without_a_new_time_is_found() -> None:
    one = stream(lookback=timedelta(days=2))
    one.run()
    one.table.rows["a"]["created_at"] = at("01 00:00:00.000002")
    assert one.run() is not None
    assert one.loaded == one.table.rows
    assert one.run() is None


def test_change_of_lookback_reads_the_window_once() -> None:
    one = stream(lookback=HOUR)
    one.run()
    one.strategy = replace(one.strategy, lookback=2 * HOUR)
    assert one.run() is not None
    assert one.run() is None


def test_a_lookback_that_goes_leaves_the_count_of_rows_at_the_position() -> None:
    one = Stream(table=Table(final=False), strategy=Watermark(column="updated_at", lookback=HOUR))
    one.table.put("a", at("01 10:00:00.000000"))
    one.run()
    one.strategy = replace(one.strategy, lookback=timedelta(0))
    assert one.run() is None
    one.table.put("b", at("01 10:00:00.000000"))
    one.run()
    assert set(one.loaded) == {"a", "b"}


def test_lookback_of_a_date_counts_whole_days() -> None:
    one = Stream(table=Table(safe="2025-01-31"), strategy=Watermark(column="updated_at", lookback=HOUR))
    one.table.put("a", "2025-01-10")
    one.run()
    one.table.put("b", "2025-01-10")
    changes = one.run()
    assert changes.slices[0].after == "2025-01-09"


def test_nulls_stop_unless_said_otherwise() -> None:
    one = stream()
    one.table.put("n", None)
    with pytest.raises(PlanError, match="1 row has NULL in updated_at") as stopped:
        one.run()
    assert stopped.value.exit_code == 4
    assert "on_null" in stopped.value.hint


def test_column_that_is_never_null_is_not_asked_for_nulls() -> None:
    one = stream()
    columns = tuple(replace(column, nullable=False) for column in SCHEMA)
    one.table.schema_ = Schema(columns=columns)
    one.run()
    assert one.table.asked.count("stats") == 2


def test_included_nulls_are_read_when_they_changed_and_only_then() -> None:
    one = stream(on_null=OnNull.INCLUDE)
    one.table.put("n", None)
    one.run()
    assert "n" in one.loaded
    assert one.run() is None
    one.table.put("m", None)
    changes = one.run()
    assert changes.slices[0].nulls
    assert changes.rows == 2
    assert set(one.loaded) == set(one.table.rows)
    assert one.run() is None


def test_null_that_gets_a_time_is_new() -> None:
    one = stream(on_null=OnNull.INCLUDE)
    one.table.put("n", None)
    one.run()
    one.table.put("n", at("05 00:00:00.000000"))
    one.run()
    assert one.loaded == one.table.rows
    assert one.run() is None


def test_fallback_column_stands_in() -> None:
    one = stream(on_null=OnNull.FALLBACK, fallback="created_at")
    one.table.put("n", None, at("07 00:00:00.000000"))
    changes = one.run()
    assert changes.loaded_through == at("07 00:00:00.000000")
    assert "n" in one.loaded
    one.table.put("m", None, None)
    with pytest.raises(PlanError, match="updated_at and created_at"):
        one.run()


def test_another_source_or_an_older_one_stops() -> None:
    one = stream()
    one.run()
    one.table.source = "restored"
    with pytest.raises(HistoryGone, match="restored"):
        one.run()
    one.table.source = "memory"
    one.table.ticks = 0
    with pytest.raises(HistoryGone, match="went back in time"):
        one.run()


def test_position_of_another_strategy_or_column_stops() -> None:
    one = stream()
    one.run()
    one.strategy = Watermark(column="created_at")
    with pytest.raises(ConfigError, match="with cursor updated_at"):
        one.run()
    one.position = Position(sequence=1, load_id="x", kind="full")
    with pytest.raises(ConfigError, match="with strategy full"):
        one.run()


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"clock": Clock.APPLICATION}, "safety_lag"),
        ({"clock": Clock.APPLICATION, "safety_lag": HOUR}, "lookback"),
        ({"on_null": OnNull.FALLBACK}, "fallback"),
        ({"fallback": "created_at"}, "fallback"),
        ({"on_null": OnNull.FALLBACK, "fallback": "updated_at"}, "itself"),
        ({"lookback": -HOUR}, "negative"),
        ({"lookback": (DAY, -DAY)}, "negative"),
        ({"lookback": (DAY, 101 * DAY)}, "at most 100"),
        ({"lookback": (HOUR, 7 * DAY)}, "whole days"),
        ({"lookback": (DAY, 2 * DAY), "on_null": OnNull.FALLBACK, "fallback": "created_at"}, "there is a fallback"),
    ],
)
def test_options_that_contradict_each_other(options: dict, word: str) -> None:
    assert any(word in problem for problem in Watermark(column="updated_at", **options).problems())


def test_options_that_are_right() -> None:
    good = Watermark(column="updated_at", clock=Clock.APPLICATION, safety_lag=HOUR, lookback=HOUR)
    assert good.problems() == ()
    assert good.rereads
    assert not Watermark(column="updated_at").rereads
    assert Watermark(column="updated_at", on_null=OnNull.INCLUDE).rereads


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2025-01-31", "2025-01-31"),
        ("2025-01-31T12:00:00+02:00", "2025-01-31 10:00:00.000000"),
        ("2025-01-31 12:00:00.5", "2025-01-31 12:00:00.500000"),
    ],
)
def test_resume_from_a_value(text: str, value: str) -> None:
    assert Watermark(column="updated_at").resume(text)["value"] == value


@pytest.mark.parametrize("text", [None, "yesterday", "2025-02-30"])
def test_resume_from_no_value(text: str | None) -> None:
    with pytest.raises(ConfigError):
        Watermark(column="updated_at").resume(text)


def test_resumed_window_is_read_once() -> None:
    one = stream(lookback=timedelta(days=5))
    state = one.strategy.resume(at("02 00:00:00.000000"))
    one.position = Position(sequence=1, load_id="x", kind="watermark", state=state)
    one.run()
    assert set(one.loaded) == {"a", "b", "c"}
    assert one.run() is None
