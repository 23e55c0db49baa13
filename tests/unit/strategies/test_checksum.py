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
from tidegate.errors import ColumnMissing, ConfigError, PlanError, TidegateError
from tidegate.strategies._partition_size import advice
from tidegate.strategies.checksum import Checksum, Method
from unit.strategies.partitions import SCHEMA, Lake, Table

BY_DAY = Checksum(method=Method.BY_DATE, column="day", period=Period.DAY)


def lake(strategy: Checksum = BY_DAY, *, days: int = 4, hashes: bool = False) -> Lake:
    """Two rows a day from the 9th of March on, one without a day."""
    table = Table(hashes=hashes)
    for number in range(2 * days):
        table.put(number, day=f"2025-03-{9 + number // 2:02}", code=f"c{number}")
    table.put(99, day=None, code="null")
    return Lake(table=table, strategy=strategy)


def test_what_is_new_changed_gone_and_equal() -> None:
    one = lake()
    assert one.run() == dict.fromkeys(("20250309", "20250310", "20250311", "20250312", "~N"), "LOAD")
    assert one.run() == {}
    one.table.put(2, day="2025-03-10", code="changed in place")
    one.table.put(50, day="2025-03-13", code="new")
    del one.table.rows["0"], one.table.rows["1"]
    changes = one.detect()
    assert changes is not None
    assert [(part.slice.label, part.action, part.rows) for part in changes.parts] == [
        ("20250310", Action.RELOAD, 2),
        ("20250311", Action.SKIP, 2),
        ("20250312", Action.SKIP, 2),
        ("20250313", Action.LOAD, 1),
        ("~N", Action.SKIP, 1),
        ("20250309", Action.DELETE, 0),
    ]
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


def test_a_row_that_moves_changes_both_partitions() -> None:
    one = lake()
    one.run()
    one.table.put(2, day=None, code="c2")
    assert one.run() == {"20250310": "RELOAD", "~N": "RELOAD"}


def test_a_partition_that_comes_back_as_it_was_is_loaded_again() -> None:
    one = lake()
    one.run()
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
    assert changes is not None
    assert changes.grouping == grouping
    assert sorted(part.slice.label for part in changes.parts) == labels
    one.run()
    assert one.run() == {}


def test_parts_stand_in_the_order_of_their_bounds() -> None:
    one = lake(Checksum(method=Method.BY_INTEGER, column="id", modulus=10))
    for number in (-11, -1, 100, 1000, 25):
        one.table.put(number)
    changes = one.detect()
    assert changes is not None
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
    assert fence is not None
    assert (fence.low, fence.high, fence.column) == (low, None, "day")


DAY = SCHEMA.columns[1]


def test_months_back_from_the_last_day_of_a_month() -> None:
    table = Table(today=datetime(2025, 3, 31, tzinfo=UTC))
    fence = replace(BY_DAY, lookback="LAST_1_MONTH")._fence(table, Periods(column="day", period=Period.DAY), DAY)
    assert fence is not None
    assert fence.low == "2025-02-28"


def test_a_lookback_counts_in_utc() -> None:
    east = datetime.fromisoformat("2025-03-13T01:00:00+10:00")  # the 12th, 15 o'clock
    strategy = Checksum(method=Method.BY_DATE, column="at", period=Period.HOUR, lookback="LAST_1_DAY")
    fence = strategy._fence(Table(today=east), Periods(column="at", period=Period.HOUR), SCHEMA.columns[2])
    assert fence is not None
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
    assert changes is not None
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


def test_an_equal_quick_hash_asks_for_no_fingerprint() -> None:
    one = lake(replace(BY_DAY, prefilter=True), hashes=True)
    one.run()
    assert one.table.asked == [("quick_hashes",), ("partitions",)]
    assert one.run() == {}
    assert one.table.asked == [("quick_hashes",)]
    one.table.put(2, day="2025-03-10", code="changed")
    one.table.put(50, day="2025-03-13", code="new")
    del one.table.rows["0"], one.table.rows["1"]
    changes = one.detect()
    assert one.table.asked == [("quick_hashes",), ("partitions", "20250310", "20250313")]
    assert changes is not None
    assert changes.observed.skipped == 3
    assert one.run() == {"20250310": "RELOAD", "20250313": "LOAD", "20250309": "DELETE"}
    assert one.run() == {}
    assert one.table.asked == [("quick_hashes",)]


@pytest.mark.parametrize("prefilter", [False, True])
def test_partitions_that_are_equal_are_named_beside_those_that_are_not(prefilter: bool) -> None:
    one = lake(replace(BY_DAY, prefilter=prefilter), hashes=True)
    one.run()
    one.table.put(2, day="2025-03-10", code="changed")
    changes = one.detect()
    assert changes is not None
    assert {part.slice.label: str(part.action) for part in changes.parts} == {
        "20250309": "SKIP",
        "20250310": "RELOAD",
        "20250311": "SKIP",
        "20250312": "SKIP",
        "~N": "SKIP",
    }
    assert [part.rows for part in changes.parts] == [
        one.ledger.entries[part.slice.label].fingerprint.rows for part in changes.parts
    ]


def test_a_quick_hash_that_is_not_known_decides_nothing() -> None:
    one = lake(hashes=True)
    one.run()
    one.replace(prefilter=True)
    changes = one.detect()
    assert one.table.asked == [("quick_hashes",), ("partitions",)]
    assert changes is not None
    assert changes.slices == ()
    assert {part.action for part in changes.parts} == {Action.SKIP}
    assert all(part.quick for part in changes.parts)
    assert changes.observed.skipped == 5
    one.run()
    assert one.run() == {}
    assert one.table.asked == [("quick_hashes",)]


def test_a_quick_hash_that_differs_where_the_rows_do_not_moves_nothing() -> None:
    one = lake(replace(BY_DAY, prefilter=True), hashes=True)
    one.run()
    assert one.ledger is not None
    entries = dict(one.ledger.entries)
    one.ledger = Ledger(entries=entries | {"20250310": replace(entries["20250310"], quick="of another version")})
    assert one.run() == {"20250310": "SKIP"}
    assert one.table.asked == [("quick_hashes",), ("partitions", "20250310")]


def test_a_source_without_a_hash_of_its_own_is_asked_for_fingerprints() -> None:
    one = lake(replace(BY_DAY, prefilter=True))
    one.run()
    assert one.run() == {}
    assert one.table.asked == [("quick_hashes",), ("partitions",)]


def test_a_lost_ledger_with_the_same_total_moves_nothing() -> None:
    one = lake()
    one.run()
    one.ledger = None
    assert one.detect() is None


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


def test_a_lost_ledger_with_another_total_looks_at_everything() -> None:
    one = lake()
    one.run()
    one.ledger = None
    one.table.put(0, day="2025-03-09", code="changed")
    changes = one.detect()
    assert changes is not None
    assert {part.action for part in changes.parts} == {Action.LOAD}
    assert len(changes.parts) == 5


def test_a_total_says_nothing_of_a_part_of_the_table() -> None:
    one = lake(replace(BY_DAY, lookback="LAST_1_DAY"))
    one.run()
    one.ledger = None
    assert one.detect() is not None


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
    assert changes is not None
    assert [(part.slice.label, part.action) for part in changes.parts] == [
        ("202503", Action.LOAD),
        ("~N", Action.LOAD),
    ]


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
    assert changes is not None
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
    assert changes is not None
    assert changes.slices == (Partition(column="day", label="from 2025-06-19", low="2025-06-19"),)
    assert changes.rows == 0
    one.run()
    assert one.run() == {}


def test_partitions_that_are_too_large_or_too_small() -> None:
    days = Periods(column="day", period=Period.DAY)
    assert advice(days, [2_000_000, 0]) == ()
    assert "set period: hour" in advice(days, [11_000_000, 5])[0]
    assert "set period: week" in advice(days, [100] * 101)[0]
    assert advice(days, [100] * 100) == (), "few and small is a small table"
    assert "set modulus: 2000000" in advice(Steps(column="id", width=1000), [1000] * 101)[0]
    assert "set modulus: 454545" in advice(Steps(column="id", width=1_000_000), [11_000_000])[0]
    assert "set length: 3" in advice(Prefixes(column="code", length=2), [11_000_000])[0]
    assert "set length: 1" in advice(Prefixes(column="code", length=2), [9] * 101)[0]
    assert "spreads the rows less" in advice(Prefixes(column="code", length=1), [9] * 101)[0]
    assert "method: by_integer or by_date" in advice(Whole(), [11_000_000])[0]
    assert "method: by_integer" in advice(Periods(column="at", period=Period.HOUR), [11_000_000])[0]
    assert "spreads the rows less" in advice(Periods(column="at", period=Period.YEAR), [9] * 101)[0]


@pytest.mark.parametrize(
    ("strategy", "remedy"),
    [
        (Checksum(max_rows=8), "Set method: by_integer or by_date"),
        (Checksum(method=Method.BY_INTEGER, column="id", modulus=100, max_rows=8), "Set modulus: 44"),
        (Checksum(method=Method.BY_DATE, column="day", period=Period.MONTH, max_rows=7), "Set period: week"),
        (Checksum(method=Method.BY_SUBSTR, column="code", length=1, max_rows=7), "Set length: 2"),
    ],
)
def test_a_partition_above_the_limit_is_refused(strategy: Checksum, remedy: str) -> None:
    with pytest.raises(PlanError, match="more than max_rows") as refused:
        lake(strategy).detect()
    assert refused.value.hint.startswith(remedy)
    assert "raise `max_rows:`" in refused.value.hint
    assert lake(replace(strategy, max_rows=9)).detect() is not None


@pytest.mark.parametrize(
    ("strategy", "error", "told"),
    [
        (replace(BY_DAY, column="dya"), ColumnMissing, "no column 'dya'; it has id, day"),
        (replace(BY_DAY, column="code"), PlanError, "code is string, not a date"),
        (replace(BY_DAY, column="weight"), PlanError, "weight is float8, which no fingerprint covers"),
        (replace(BY_DAY, period=Period.HOUR), PlanError, "no hours"),
        (replace(BY_DAY, lookback="20250313"), PlanError, "is in the future"),
        (Checksum(method=Method.BY_INTEGER, column="code", modulus=1), PlanError, "not an integer"),
        (Checksum(method=Method.BY_SUBSTR, column="day", length=1), PlanError, "not a string"),
    ],
)
def test_columns_and_days_that_cannot_be(strategy: Checksum, error: type[TidegateError], told: str) -> None:
    one = lake(strategy)
    with pytest.raises(error, match=told) as refused:
        one.detect()
    assert refused.value.hint
    assert one.table.asked == [], "nothing was asked of a source that nothing can be asked of"


@pytest.mark.parametrize(
    ("strategy", "told"),
    [
        (Checksum(), None),
        (BY_DAY, None),
        (replace(BY_DAY, lookback="LAST_1_DAY"), None),
        (replace(BY_DAY, lookback="LAST_12_MONTHS"), None),
        (Checksum(method=Method.BY_INTEGER, column="id"), "needs modulus:"),
        (Checksum(method=Method.BY_INTEGER, modulus=1), "needs column:"),
        (Checksum(method=Method.BY_INTEGER, column="id", modulus=0), "modulus must be 1 or more, got 0"),
        (Checksum(method=Method.BY_INTEGER, column="id", modulus=-1), "modulus must be 1 or more, got -1"),
        (Checksum(method=Method.BY_INTEGER, column="id", modulus=2**63), "modulus must be 9223372036854775807 or less"),
        (Checksum(method=Method.BY_SUBSTR, column="code", length=0), "length must be 1 or more"),
        (Checksum(max_rows=0), "max_rows must be 1 or more"),
        (Checksum(column="id"), "whole_table has no column:"),
        (replace(BY_DAY, modulus=3), "by_date has no modulus:"),
        (replace(BY_DAY, length=3), "by_date has no length:"),
        (Checksum(method=Method.BY_INTEGER, column="id", modulus=1, period=Period.DAY), "by_integer has no period:"),
        (Checksum(lookback="LAST_7_DAYS"), "needs method: by_date"),
        (replace(BY_DAY, lookback="LAST_0_DAYS"), "neither a day YYYYMMDD nor LAST_n_DAYS"),
        (replace(BY_DAY, lookback="last_7_days"), "neither a day"),
        (replace(BY_DAY, lookback="LAST_7_YEARS"), "neither a day"),
        (replace(BY_DAY, lookback="LAST_7_DAYS\n"), "neither a day"),
        (replace(BY_DAY, lookback="20250230"), "neither a day"),
        (replace(BY_DAY, lookback="2025-03-01"), "neither a day"),
        (replace(BY_DAY, lookback="00000101"), "neither a day"),
        (replace(BY_DAY, lookback="٢٠٢٥٠٣٠١"), "neither a day"),
        (replace(BY_DAY, lookback=""), "neither a day"),
    ],
)
def test_options(strategy: Checksum, told: str | None) -> None:
    found = strategy.problems()
    assert found == () if told is None else any(told in problem for problem in found)


def test_what_the_strategy_says_of_itself() -> None:
    assert BY_DAY.rereads
    assert BY_DAY.cursor == ()
    assert BY_DAY.max_rows == 100_000_000
    assert BY_DAY.resume(None) == {"method": {"type": "by_date", "column_name": "day", "period": "day"}}
    with pytest.raises(ConfigError, match="no cursor"):
        BY_DAY.resume("2025-03-01")


def test_a_table_that_was_adopted_is_measured() -> None:
    one = lake()
    one.run()
    assert one.position is not None
    one.position, one.ledger = replace(one.position, state=BY_DAY.resume(None)), None
    one.table.rows.clear()
    assert one.detect() is not None


def test_entries_of_a_ledger_without_rows_are_no_partitions() -> None:
    one = lake()
    one.run()
    assert one.ledger is not None
    one.ledger = Ledger(entries={**one.ledger.entries, "20200101": Entry(fingerprint=Fingerprint())})
    assert one.detect() is None


def test_slices_can_be_told_apart_by_what_they_are() -> None:
    changes = lake().detect()
    assert changes is not None
    assert changes.slices[0] == Partition(column="day", label="20250309", low="2025-03-09", high="2025-03-10")
    assert changes.slices[-1] == Partition(column="day", label="~N")
