"""What the checksum strategy decides, over a table in memory."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tidegate.core.changes import Action
from tidegate.core.effects import Mirror
from tidegate.core.fingerprint import Fingerprint
from tidegate.core.grouping import Period, Periods, Prefixes, Steps, Whole
from tidegate.core.ledger import Entry, Ledger
from tidegate.core.schema import TEXT, Column, Schema
from tidegate.core.slices import Everything, Partition
from tidegate.errors import ConfigError
from tidegate.strategies.checksum import Checksum, Method
from unit.strategies.partitions import BY_DAY, SCHEMA, Table, lake


def test_what_is_new_changed_gone_and_equal() -> None:
    one = lake()
    assert one.run() == dict.fromkeys(("20250309", "20250310", "20250311", "20250312", "~N"), "LOAD")
    assert one.run() == {}
    one.table.put(2, day="2025-03-10", code="changed in place")
    one.table.put(50, day="2025-03-13", code="new")
    del one.table.rows["0"], one.table.rows["1"]
    changes = one.detect()
    assert [(part.slice.label, part.action, part.rows) for part in changes.parts] == [
        ("20250310", Action.RELOAD, 2),
        ("20250311", Action.SKIP, 2),
        ("20250312", Action.SKIP, 2),
        ("20250313", Action.LOAD, 1),
        ("~N", Action.SKIP, 1),
        ("20250309", Action.DELETE, 0),
    ]
    slices = [part.slice for part in changes.parts]
    assert slices[0] == Partition(column="day", label="20250310", low="2025-03-10", high="2025-03-11")
    assert slices[4] == Partition(column="day", label="~N")
    assert isinstance(changes.effect, Mirror)
    assert (changes.rows, changes.observed.skipped, changes.effect.moves) == (3, 3, False)
    assert changes.reason == "partitions whose checksum differs: 1 to load, 1 to reload, 1 to delete"
    assert changes.grouping == Periods(column="day", period=Period.DAY)
    assert changes.state == {"method": {"type": "by_date", "column_name": "day", "period": "day"}}
    one.run()
    assert one.run() == {}


def test_an_update_that_changes_neither_count_nor_greatest_value_is_found() -> None:
    one = lake()
    one.run()
    one.table.put(3, day="2025-03-10", code="c2")
    one.table.put(2, day="2025-03-10", code="c3")
    assert one.run() == {"20250310": "RELOAD"}


def test_a_row_that_moves_changes_both_partitions_and_one_that_comes_back_is_loaded_again() -> None:
    one = lake()
    one.run()
    one.table.put(2, day=None, code="c2")
    assert one.run() == {"20250310": "RELOAD", "~N": "RELOAD"}
    rows = {key: one.table.rows.pop(key) for key in ("0", "1")}
    assert one.run() == {"20250309": "DELETE"}
    one.table.rows |= rows
    assert one.run() == {"20250309": "LOAD"}


@pytest.mark.parametrize(
    ("strategy", "grouping", "labels"),
    [
        (Checksum(), Whole(), ["everything"]),
        (
            Checksum(method=Method.BY_INTEGER, column="id", modulus=3),
            Steps(column="id", width=3),
            ["-1", "0", "1", "2", "33"],
        ),
        (
            Checksum(method=Method.BY_SUBSTR, column="code", length=1),
            Prefixes(column="code", length=1),
            ["", "c", "n", "~0", "~N"],
        ),
        (
            Checksum(method=Method.BY_DATE, column="day", period=Period.WEEK),
            Periods(column="day", period=Period.WEEK),
            ["20250303", "20250310", "~N"],
        ),
    ],
)
def test_every_method(strategy: Checksum, grouping: object, labels: list[str]) -> None:
    one = lake(strategy)
    if strategy.method is Method.BY_INTEGER:
        one.table.put(-1, code="below zero")
    if strategy.method is Method.BY_SUBSTR:
        one.table.put(100, code="")
        one.table.put(101, code="~N")
        one.table.put(102, code=None)
    changes = one.detect()
    assert changes.grouping == grouping
    assert sorted(part.slice.label for part in changes.parts) == labels
    one.run()
    assert one.run() == {}


def test_parts_stand_in_the_order_of_their_bounds() -> None:
    one = lake(Checksum(method=Method.BY_INTEGER, column="id", modulus=10))
    for number in (-11, -1, 100, 1000, 25):
        one.table.put(number)
    changes = one.detect()
    assert [part.slice.label for part in changes.parts] == ["-2", "-1", "0", "2", "9", "10", "100"]


@pytest.mark.parametrize(
    ("period", "lookback", "low"),
    [
        (Period.DAY, "20250311", "2025-03-11"),
        (Period.DAY, "20250312", "2025-03-12"),
        (Period.MONTH, "20250310", "2025-03-01"),
        (Period.WEEK, "20250312", "2025-03-10"),
        (Period.QUARTER, "20250312", "2025-01-01"),
        (Period.YEAR, "20250312", "2025-01-01"),
        (Period.DAY, "LAST_1_DAY", "2025-03-11"),
        (Period.DAY, "LAST_7_DAYS", "2025-03-05"),
        (Period.DAY, "LAST_2_WEEKS", "2025-02-26"),
        (Period.WEEK, "LAST_1_WEEK", "2025-03-03"),
        (Period.DAY, "LAST_3_MONTHS", "2024-12-12"),
        (Period.MONTH, "LAST_1_MONTH", "2025-02-01"),
        (Period.MONTH, "LAST_3_DAYS", "2025-03-01"),
        (Period.DAY, "LAST_99999_MONTHS", "0001-01-12"),
        (Period.DAY, "LAST_999999999_DAYS", "0001-01-01"),
    ],
)
def test_a_lookback_reaches_to_the_beginning_of_a_period(period: Period, lookback: str, low: str) -> None:
    fence = replace(BY_DAY, period=period, lookback=lookback)._fence(Table(), Periods(column="day", period=period), DAY)
    assert (fence.low, fence.high, fence.column) == (low, None, "day")


DAY = SCHEMA.columns[1]


def test_months_back_from_the_last_day_of_a_month() -> None:
    table = Table(today=datetime(2025, 3, 31, tzinfo=UTC))
    fence = replace(BY_DAY, lookback="LAST_1_MONTH")._fence(table, Periods(column="day", period=Period.DAY), DAY)
    assert fence.low == "2025-02-28"


def test_a_lookback_counts_in_utc() -> None:
    east = datetime.fromisoformat("2025-03-13T01:00:00+10:00")  # the 12th, 15 o'clock
    strategy = Checksum(method=Method.BY_DATE, column="at", period=Period.HOUR, lookback="LAST_1_DAY")
    fence = strategy._fence(Table(today=east), Periods(column="at", period=Period.HOUR), SCHEMA.columns[2])
    assert fence.low == "2025-03-11 15:00:00.000000"


def test_what_lies_before_the_lookback_is_not_looked_at() -> None:
    one = lake()
    one.run()
    one.replace(lookback="LAST_1_DAY")
    one.table.put(0, day="2025-03-09", code="changed, but long ago")
    del one.table.rows["2"], one.table.rows["3"]  # the 10th is gone, also before
    assert one.run() == {}
    one.table.put(4, day="2025-03-11", code="changed")
    del one.table.rows["6"], one.table.rows["7"]
    changes = one.detect()
    assert changes.effect.moves
    assert one.run() == {"20250311": "RELOAD", "20250312": "DELETE"}
    one.replace(lookback=None)
    assert one.run() == {"20250309": "RELOAD", "20250310": "DELETE"}


def test_the_window_slides() -> None:
    one = lake(replace(BY_DAY, lookback="LAST_1_DAY"))
    assert one.run() == {"20250311": "LOAD", "20250312": "LOAD", "~N": "LOAD"}
    one.table.today += timedelta(days=1)
    one.table.put(4, day="2025-03-11", code="late")
    one.table.put(20, day="2025-03-13", code="new")
    assert one.run() == {"20250313": "LOAD"}


def test_rows_without_a_day_are_compared_whatever_the_lookback() -> None:
    one = lake(replace(BY_DAY, lookback="LAST_1_DAY"))
    one.run()
    one.table.put(98, day=None)
    assert one.run() == {"~N": "RELOAD"}
    del one.table.rows["98"], one.table.rows["99"]
    assert one.run() == {"~N": "DELETE"}


def test_a_lost_ledger_with_another_total_looks_at_everything() -> None:
    one = lake()
    one.run()
    one.ledger = None
    assert one.detect() is None, "the same total moves nothing"
    one.table.put(0, day="2025-03-09", code="changed")
    changes = one.detect()
    assert [part.action for part in changes.parts] == [Action.LOAD] * 5
    recent = lake(replace(BY_DAY, lookback="LAST_1_DAY"))
    recent.run()
    recent.ledger = None
    assert recent.detect() is not None, "a total says nothing of a part of the table"


@pytest.mark.parametrize("now", [Checksum(method=Method.WHOLE_TABLE), replace(BY_DAY, period=Period.MONTH)])
def test_partitions_are_named_as_they_were_loaded_where_the_method_is_another_by_now(now: Checksum) -> None:
    one = lake()
    one.run()
    loaded = one.ledger
    assert loaded is not None
    one.strategy = now
    assert one.detect() is None, "the sum of all rows is the same"
    equal = one.strategy.equal(one.table, one.position, loaded)
    assert [part.slice.label for part in equal] == ["20250309", "20250310", "20250311", "20250312", "~N"]
    assert {part.slice.label: part.fingerprint for part in equal} == {
        label: entry.fingerprint for label, entry in loaded.entries.items()
    }


@pytest.mark.parametrize("lookback", [None, "LAST_1_DAY"])
def test_a_lost_ledger_and_a_source_without_rows_is_no_unchanged_table(lookback: str | None) -> None:
    one = lake(replace(BY_DAY, lookback=lookback))
    one.run()
    one.ledger = None
    one.table.rows.clear()
    changes = one.detect()
    assert changes is not None, "the table holds rows that the source does not"
    assert changes.slices == ()
    assert changes.reason == "the table's contents are unknown"


def test_another_method_makes_the_ledger_worthless() -> None:
    one = lake()
    one.run()
    one.replace(period=Period.MONTH)
    assert one.detect() is None, "the sum of all rows does not depend on how they are cut"
    one.table.put(0, day="2025-03-09", code="changed")
    changes = one.detect()
    assert [(part.slice.label, part.action) for part in changes.parts] == [("202503", Action.LOAD), ("~N", Action.LOAD)]


def test_other_columns_make_the_total_worthless() -> None:
    one = lake()
    one.run()
    one.ledger = None  # the engine hands none over when the columns are others
    one.table.columns = Schema(columns=(*SCHEMA.columns, Column(name="more", type=TEXT)))
    assert one.detect() is not None


def test_an_empty_source_makes_an_empty_table_once() -> None:
    one = lake(days=0)
    one.table.rows.clear()
    changes = one.detect()
    assert changes.slices == (Everything(),)
    assert (changes.rows, changes.observed.skipped, changes.notes) == (0, 0, ())
    assert one.run() == {"everything": "LOAD"}
    assert one.ledger == Ledger()
    assert one.run() == {}
    one.ledger = None
    assert one.run() == {}


def test_a_first_load_with_nothing_within_the_lookback_reads_nothing_before_it() -> None:
    one = lake(replace(BY_DAY, lookback="LAST_1_DAY"))
    del one.table.rows["99"]  # which has no day
    one.table.today += timedelta(days=100)
    changes = one.detect()
    assert changes.slices == (Partition(column="day", label="from 2025-06-19", low="2025-06-19"),)
    assert changes.rows == 0
    one.run()
    assert one.run() == {}


def test_what_the_strategy_says_of_itself() -> None:
    assert BY_DAY.rereads
    assert BY_DAY.cursor == ()
    assert BY_DAY.max_rows == 100_000_000
    assert BY_DAY.resume(None) == {"method": {"type": "by_date", "column_name": "day", "period": "day"}}
    with pytest.raises(ConfigError, match="no cursor"):
        BY_DAY.resume("2025-03-01")
    adopted = lake()
    adopted.run()
    adopted.position, adopted.ledger = replace(adopted.position, state=BY_DAY.resume(None)), None
    adopted.table.rows.clear()
    assert adopted.detect() is not None, "a table that was adopted is measured"


def test_entries_of_a_ledger_without_rows_are_no_partitions() -> None:
    one = lake()
    one.run()
    one.ledger = Ledger(entries={**one.ledger.entries, "20200101": Entry(fingerprint=Fingerprint())})
    assert one.detect() is None
