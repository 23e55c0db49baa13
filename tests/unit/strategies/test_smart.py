"""Strategy smart: which way it goes, from recorded costs, and what it never lets a cheap way hide."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pytest

from tidegate.core.changes import ChangeSet
from tidegate.core.compatibility import incompatibilities
from tidegate.core.cost_model import CHOICE, Cost, CostHistory, LoadMethod
from tidegate.core.effects import Mirror, Upsert, WriteHint
from tidegate.core.fingerprint import Fingerprint
from tidegate.core.grouping import Period
from tidegate.core.ledger import Entry, Ledger
from tidegate.core.position_state import begin_of, unclaimed
from tidegate.core.significance import Significance
from tidegate.core.slices import Everything, Range
from tidegate.engine.positions import measured_state
from tidegate.errors import ConfigError, HistoryGone
from tidegate.strategies.checksum import Checksum, Method
from tidegate.strategies.full import Full
from tidegate.strategies.smart import Smart
from tidegate.strategies.snapshot_diff import SnapshotDiff
from tidegate.strategies.watermark import Watermark
from tidegate.writers.merge import Merge
from tidegate.writers.replace import Replace
from unit.strategies.fakes import Stream, Table

NOON = datetime(2025, 1, 20, 12, tzinfo=UTC)


@dataclass(kw_only=True)
class Source(Table):
    """A table that also tells the time, and answers for its partitions by day."""

    at: datetime = NOON
    groups: list = field(default_factory=list)

    def now(self) -> datetime:
        return self.at

    def version(self) -> None:
        return None

    def partitions(self, grouping, **_: object):
        self.groups.append(grouping)
        found: dict = {}
        for row, values in self.rows.items():
            part = grouping.part((values[grouping.column] or "")[:10], self.schema().find(grouping.column))
            found[part] = found.get(part, Fingerprint()) + Fingerprint.of_texts([f"{row} {values['updated_at']}"])
        return found


def source(rows: int = 10) -> Source:
    found = Source()
    for number in range(rows):
        found.put(f"r{number}", f"2025-01-{number % 20 + 1:02} 00:00:00.000000", "2025-01-01 00:00:00.000000")
    return found


def costs(**seconds: float) -> CostHistory:
    """One load of ten rows by each way, that took so long."""
    return CostHistory(costs=tuple(Cost(way=LoadMethod(way), rows=10, seconds=took) for way, took in seconds.items()))


def way(changes: ChangeSet | None) -> str | None:
    return changes.state[CHOICE]["way"] if changes else None


def loaded(**options) -> Stream:
    """A stream of ten rows, loaded once."""
    stream = Stream(table=source(), strategy=Smart(**options))
    stream.run()
    return stream


def asked(stream: Stream, experience: CostHistory | None = None) -> ChangeSet | None:
    """What the strategy says of the table as it is, which nobody has looked at yet."""
    stream.table.asked.clear()
    return stream.strategy.learned(experience or CostHistory()).detect(stream.table, stream.position)


def test_the_first_load_reads_everything_and_remembers_where_the_column_stands() -> None:
    stream = Stream(table=source(), strategy=Smart(column="updated_at"))
    changes = stream.run()
    rewritten = Mirror(hint=WriteHint.REWRITE)
    assert (changes.slices, changes.effect, way(changes)) == ((Everything(),), rewritten, "full")
    assert stream.run() is None, "the column says that nothing changed"
    empty = Stream(table=source(0), strategy=Smart(column="updated_at"))
    empty.run()
    empty.table.put("new", "2025-01-20 00:00:00.000000")
    empty.strategy = empty.strategy.learned(costs(incremental=0.1, full=50, snapshot_diff=50))
    assert empty.run() is not None
    assert set(empty.loaded) == {"new"}


def test_little_that_changed_is_loaded_by_the_column_and_the_plan_says_what_each_way_costs() -> None:
    stream = loaded(column="updated_at")
    stream.table.put("r1", "2025-01-25 00:00:00.000000")
    stream.strategy = stream.strategy.learned(costs(incremental=2, full=9))
    changes = stream.run()
    assert isinstance(changes.slices[0], Range)
    assert (way(changes), changes.state[CHOICE]["rows"]) == ("incremental", 1)
    assert [note.split(":")[0] for note in changes.notes] == ["incremental", "snapshot_diff", "full"]
    assert "the last one took 2.0 s for 10 rows" in changes.notes[0]
    assert "a guess" in changes.notes[1]
    assert "1 of 10 rows changed" in changes.reason


@pytest.mark.parametrize(
    ("took", "chosen"),
    [
        ({"incremental": 1.6, "full": 90, "snapshot_diff": 90, "partitions": 90}, "incremental"),
        ({"incremental": 90, "full": 3, "snapshot_diff": 90, "partitions": 90}, "full"),
        ({"incremental": 90, "full": 90, "snapshot_diff": 3, "partitions": 90}, "snapshot_diff"),
        ({"incremental": 90, "full": 90, "snapshot_diff": 90, "partitions": 3}, "partitions"),
    ],
)
def test_every_way_is_reached_from_recorded_costs(took: dict, chosen: str) -> None:
    stream = loaded(column="updated_at", partition_by="created_at", period=Period.DAY)
    stream.table.put("r1", "2025-01-25 00:00:00.000000", "2025-01-01 00:00:00.000000")
    found = asked(stream, costs(**took))
    assert way(found) == chosen
    assert (found.effect == Mirror(hint=WriteHint.REWRITE)) == (chosen == "full")
    assert found.whole == (chosen in ("full", "snapshot_diff"))
    assert (found.grouping is not None) == (chosen == "partitions")


@pytest.mark.parametrize("column", [None, "updated_at"])
def test_differences_that_may_be_insignificant_are_compared_row_by_row(column: str | None) -> None:
    rule = Significance(min_rows=2)
    stream = loaded(column=column, significant_change=rule)
    assert asked(stream) is None
    stream.table.put("r1", "2025-01-25 00:00:00.000000")
    found = asked(stream, costs(incremental=0.1, full=0.1, snapshot_diff=60))
    assert way(found) == "snapshot_diff"
    assert found.effect == Mirror(hint=WriteHint.COMPARE, ignore=rule)


def test_more_than_the_stated_share_is_never_loaded_by_the_column() -> None:
    stream = loaded(column="updated_at", max_changed_fraction=0.2)
    for number in range(3):
        stream.table.put(f"r{number}", "2025-01-25 00:00:00.000000")
    found = asked(stream, costs(incremental=0.1, full=60, snapshot_diff=30))
    assert way(found) == "snapshot_diff"
    assert "more than 20%" in found.reason


def test_what_the_column_hides_is_found_once_the_whole_table_is_due() -> None:
    stream = loaded(column="updated_at", full_every=timedelta(hours=24))
    del stream.table.rows["r3"]
    stream.table.at += timedelta(hours=23)
    assert stream.run() is None
    stream.table.at += timedelta(hours=1)
    stream.strategy = stream.strategy.learned(costs(full=50, snapshot_diff=5))
    changes = stream.run()
    assert (way(changes), changes.whole, changes.slices) == ("snapshot_diff", True, (Everything(),))
    assert stream.run() is None, "it was looked at just now"
    stream.table.at += timedelta(hours=30)
    assert asked(stream) is not None
    assert asked(stream, CostHistory(proven_at=stream.table.at - timedelta(hours=5))) is None, "a verification looked"


@pytest.mark.parametrize("ahead", ["whole_at", "proven_at"])
def test_a_time_that_has_not_come_puts_no_comparison_off(ahead: str) -> None:
    stream = loaded(column="updated_at", full_every=timedelta(hours=1))
    late = NOON + timedelta(days=10)
    if ahead == "whole_at":
        stream.position = replace(stream.position, state={**stream.position.state, "whole_at": late.isoformat()})
    stream.table.at = NOON + timedelta(hours=1)
    del stream.table.rows["r3"]
    known = CostHistory(proven_at=late if ahead == "proven_at" else None)
    assert way(asked(stream, known)) in {"full", "snapshot_diff"}


@pytest.mark.parametrize("options", [{}, {"column": "updated_at"}])
def test_a_load_that_was_never_verified_is_settled_by_the_whole_table(options) -> None:
    """Whatever the column, and a comparison before that load, say."""
    stream = loaded(**options)
    assert stream.run() is None
    assert stream.strategy.settles_unverified
    doubted = replace(stream.position, state=unclaimed(stream.position.state))
    proven = stream.strategy.learned(CostHistory(proven_at=stream.table.at))
    changes = proven.detect(stream.table, doubted)
    assert (changes.whole, changes.slices, type(changes.effect)) == (True, (Everything(),), Mirror)


def test_partitions_that_were_measured_are_compared_without_asking_for_an_edge_again() -> None:
    stream = loaded(column="updated_at", partition_by="created_at", period=Period.DAY)
    stream.table.at += timedelta(hours=30)
    cheap = stream.strategy.learned(costs(partitions=1.9, full=90, snapshot_diff=90))
    stream.table.asked.clear()
    first = cheap.detect(stream.table, stream.position)
    assert first.grouping is not None
    known = first.grouping
    found = stream.table.partitions(known)
    kept = Ledger(entries={part.label: Entry(fingerprint=total) for part, total in found.items()})
    measured = replace(stream.position, state={**stream.position.state, "method": known.to_dict()})
    second = cheap.detect(stream.table, measured, kept)
    assert (second.slices, second.rows, way(second)) == ((), 0, "partitions")


def test_while_partitions_land_the_column_stays_where_it_was() -> None:
    stream = loaded(column="updated_at", partition_by="created_at", period=Period.DAY)
    before = stream.position.state["value"]
    stream.table.put("r1", "2025-01-25 00:00:00.000000", "2025-01-01 00:00:00.000000")
    found = asked(stream, costs(partitions=1.9, full=90, snapshot_diff=90, incremental=90))
    assert (way(found), found.state["value"]) == ("partitions", before)


def test_what_vouched_for_the_whole_table_does_not_after_a_load_by_the_column() -> None:
    stream = loaded(column="updated_at")
    vouched = {**stream.position.state, "total": "x", "ledger": "y", "fingerprint": "z", "method": {"kind": "whole"}}
    stream.position = replace(stream.position, state=vouched)
    stream.table.put("r1", "2025-01-25 00:00:00.000000")
    stream.strategy = stream.strategy.learned(costs(incremental=1, full=90, snapshot_diff=90))
    changes = stream.run()
    assert not {"total", "ledger", "fingerprint"} & changes.state.keys()
    assert "whole_at" in changes.state


def test_without_a_column_only_the_rows_themselves_say_that_nothing_changed() -> None:
    stream = loaded()
    assert stream.run() is None
    stream.table.at += timedelta(days=9)
    assert stream.run() is None, "the fingerprint of every row was compared"
    del stream.table.rows["r2"]
    stream.strategy = stream.strategy.learned(costs(full=3, snapshot_diff=90))
    assert way(stream.run()) == "full"
    assert stream.run() is None


@pytest.mark.parametrize(
    "strategy",
    [
        Smart(column="updated_at", partition_by="created_at", period=Period.DAY),
        Checksum(method=Method.BY_DATE, column="created_at", period=Period.DAY, lookback="LAST_3_DAYS"),
    ],
)
def test_a_position_that_was_measured_again_says_all_that_the_next_load_needs(strategy) -> None:
    stream = Stream(table=source(), strategy=strategy)
    stream.table.at = datetime(2025, 1, 3, tzinfo=UTC)
    stream.run()
    before = stream.position.state
    ledger = Ledger(entries={"x": Entry(fingerprint=Fingerprint(rows=1))})
    method = {"kind": "by_date", "column": "created_at", "period": "day"}
    state = measured_state(strategy, before, method, ledger)
    assert ledger.vouched(state)
    assert "whole_at" not in state, "rows were changed behind it"
    assert {"cursor", "value"} <= state.keys() if strategy.cursor else begin_of(state) == begin_of(before) is not None
    stream.position = replace(stream.position, state=state)
    stream.strategy.check_position(stream.position, stream.table)
    assert stream.strategy.resume_at(state) == stream.strategy.resume_at(before)


@pytest.mark.parametrize(
    "strategy", [Smart(), SnapshotDiff(), Checksum(method=Method.BY_DATE, column="updated_at"), Full()]
)
def test_a_table_that_is_swapped_for_another_is_followed_by_its_name_where_every_row_is_compared(strategy) -> None:
    stream = Stream(table=source(), strategy=strategy)
    stream.table.source = "db:1:shop:16401"
    stream.run()
    stream.table.source = "db:1:shop:16999"
    stream.table.rows = source(4).rows
    changes = stream.run()
    assert changes is not None
    assert not isinstance(changes.effect, Upsert)
    assert changes.slices
    stream.position = replace(stream.position, source="db:1:shop:16999")
    if not isinstance(strategy, Full | Checksum):  # as before: these take whatever has the name
        for elsewhere in ("db:2:shop:17000", "db:1:other:16999", "db:1:shop"):
            stream.table.source = elsewhere
            with pytest.raises(HistoryGone):
                stream.run()


def test_a_table_that_is_swapped_for_another_stops_where_only_changes_are_read() -> None:
    for strategy in (Smart(column="updated_at"), Watermark(column="updated_at")):
        stream = Stream(table=source(), strategy=strategy)
        stream.table.source = "db:1:shop:16401"
        stream.run()
        stream.table.source = "db:1:shop:16999"
        with pytest.raises(HistoryGone) as stopped:
            stream.run()
        assert "`strategy: checksum`" in (stopped.value.hint or "")


def test_another_source_or_another_column_stops() -> None:
    stream = loaded(column="updated_at")
    stream.table.source = "elsewhere"
    with pytest.raises(HistoryGone):
        stream.run()
    stream.table.source = "memory"
    stream.strategy = Smart(column="created_at")
    with pytest.raises((ConfigError, HistoryGone)):
        stream.run()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"period": Period.DAY}, "needs partition_by"),
        ({"partition_by": "d"}, "needs one of period"),
        ({"partition_by": "d", "period": Period.DAY, "length": 3}, "needs one of period"),
        ({"max_changed_fraction": 0.0}, "share above 0"),
        ({"full_every": timedelta(0)}, "longer than 0"),
        ({"significant_change": Significance(min_rows=-1)}, "min_rows cannot be negative"),
        ({"significant_change": Significance(), "partition_by": "d", "modulus": 9}, "remove one of them"),
        ({"partition_by": "d", "modulus": 0}, "modulus must be 1 or more"),
        ({"column": "c", "safety_lag": timedelta(-1)}, "cannot be negative"),
    ],
)
def test_options_that_contradict_each_other_are_named(options: dict, told: str) -> None:
    assert any(told in problem for problem in Smart(**options).problems())


def test_it_needs_a_writer_that_takes_every_way() -> None:
    assert incompatibilities(strategy=Smart(column="c"), writer=Merge(), key=("id",)) == ()
    (reason,) = incompatibilities(strategy=Smart(column="c"), writer=Replace(), key=("id",))
    assert "changed rows" in reason
