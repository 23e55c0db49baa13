"""Writers on a real table against a dictionary: whatever comes, of each key the latest row is there."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.lake import Lake
from tidegate.core.batch import Batch, Checked, Latest
from tidegate.core.effects import Upsert
from tidegate.core.plan import KeyFacts, LoadPlan, Mode, Prune, WriteFacts
from tidegate.core.schema import BIGINT
from tidegate.errors import CheckFailed, DuplicateKeys, WriteError
from tidegate.writers.append import Append
from tidegate.writers.merge import Merge
from tidegate.writers.replace import Replace

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

LATEST = Latest(key=("id",), order=("changed_at",))
PLAIN = Batch(latest=LATEST, keys_unique=False, skip_equal=False)


def run(lake: Lake, target: Any, writer: Any, mode: Mode, rows: Any, batch: Batch = PLAIN) -> tuple[LoadPlan, Checked]:
    plan = lake.plan(target, mode)
    staging = lake.format.stage(lake.session, target, plan)
    try:
        checked = writer.check(lake.rows(*rows), plan, batch)
        writer.write(checked, plan, staging)
    except BaseException:
        staging.discard()
        raise
    if checked.keys is not None:
        again = staging.read_keys(checked.keys, prune=checked.prune).collect()
        assert len(again) == checked.rows
    if checked.held is not None:
        checked.held.unpersist()
    staging.publish()
    return plan, checked


def model(state: dict[int, Any], rows: Any) -> None:
    """The rule in Python: per key the greatest time, NULL last; what a later load reads replaces what was there."""
    best: dict[int, Any] = {}
    for row in rows:
        known = best.get(row[0])
        if known is None or (row[2] is not None, row[2] or "") > (known[2] is not None, known[2] or ""):
            best[row[0]] = row
    state.update(best)


def seen(lake: Lake, target: Any) -> list[tuple[Any, ...]]:
    return sorted(
        (row["id"], row["name"], row["changed_at"].isoformat() if row["changed_at"] else None)
        for row in lake.oracle(target)
    )


def told(row: Any) -> tuple[Any, ...]:
    return (row[0], row[1], datetime.fromisoformat(row[2]).isoformat() if row[2] else None)


IDS = st.integers(-3, 3)
TIMES = st.one_of(st.none(), st.integers(0, 9).map(lambda n: f"2024-01-0{n // 3 + 1}T00:00:00.00000{n}"))


@st.composite
def batches(draw: st.DrawFn) -> list[tuple[Any, ...]]:
    """Rows in which equal key and equal time mean equal rows."""
    keyed = draw(st.dictionaries(st.tuples(IDS, TIMES), st.sampled_from(["a", "b'", "🐘|~"]), max_size=8))
    rows = [(key, name, time) for (key, time), name in keyed.items()]
    return rows + draw(st.lists(st.sampled_from(rows), max_size=3)) if rows else rows


@pytest.mark.slow
@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(st.tuples(st.sampled_from([Mode.MERGE_ON_READ, Mode.COPY_ON_WRITE]), batches()), min_size=1, max_size=3)
)
def test_merge_is_the_dictionary(lake: Lake, loads: list[tuple[Mode, list[tuple[Any, ...]]]]) -> None:
    target = lake.table()
    state: dict[int, Any] = {}
    for mode, rows in loads:
        run(lake, target, Merge(), mode, rows)
        model(state, rows)
        assert seen(lake, target) == sorted((told(row) for row in state.values()), key=lambda row: row[0])


@pytest.mark.parametrize("mode", [Mode.APPEND, Mode.OVERWRITE, Mode.MERGE_ON_READ])
def test_superseded_rows_never_arrive(lake: Lake, mode: Mode) -> None:
    target = lake.table()
    rows = [
        (1, "old", "2024-01-01T00:00:00"),
        (1, "new", "2024-01-01T00:00:00.000001"),
        (1, "none", None),
        (2, "b", None),
        (2, "b", None),
    ]
    _, checked = run(lake, target, Merge(), mode, rows)
    assert checked.rows == 2
    assert checked.compared.latest == LATEST, "so the source can be asked for the same rows"
    assert seen(lake, target) == [(1, "new", "2024-01-01T00:00:00.000001"), (2, "b", None)]


@pytest.mark.parametrize("mode", [Mode.APPEND, Mode.OVERWRITE, Mode.MERGE_ON_READ, Mode.COPY_ON_WRITE])
def test_ties_that_differ_stop_and_leave_the_table(lake: Lake, mode: Mode) -> None:
    target = lake.table()
    lake.load(target, Mode.APPEND, (9, "kept", None))
    before = lake.format.state(target, "0123456789abcdef")
    tied = [(1, "a", "2024-01-01T00:00:00"), (1, "b", "2024-01-01T00:00:00"), (2, "c", None)]
    with pytest.raises(DuplicateKeys, match=r"^1 key \(id\)"):
        run(lake, target, Merge(), mode, tied)
    after = lake.format.state(target, "0123456789abcdef")
    assert (after.snapshot, after.position, after.branches) == (before.snapshot, before.position, ())
    assert lake.ids(target) == [9]


def test_a_stated_rule_breaks_ties(lake: Lake) -> None:
    target = lake.table()
    tied = [(1, "a", "2024-01-01T00:00:00"), (1, "b", "2024-01-01T00:00:00"), (1, "z", "2023-01-01T00:00:00")]
    _, checked = run(lake, target, Merge(order_by=("name",)), Mode.MERGE_ON_READ, tied)
    assert [row[1] for row in seen(lake, target)] == ["b"]
    assert checked.compared.latest == Latest(key=("id",), order=("changed_at", "name"))


def test_without_any_order_equal_rows_collapse_and_others_stop(lake: Lake) -> None:
    target = lake.table()
    bare = Batch(latest=None, keys_unique=False, skip_equal=False)
    run(lake, target, Merge(), Mode.MERGE_ON_READ, [(1, "a", None), (1, "a", None)], bare)
    assert lake.ids(target) == [1]
    with pytest.raises(DuplicateKeys):
        run(lake, target, Merge(), Mode.MERGE_ON_READ, [(1, "a", None), (1, "b", None)], bare)


@pytest.mark.parametrize("mode", [Mode.APPEND, Mode.OVERWRITE, Mode.MERGE_ON_READ])
def test_a_null_in_the_key_stops(lake: Lake, mode: Mode) -> None:
    target = lake.table()
    with pytest.raises(CheckFailed, match=r"^1 row has no value in a key column \(id\)"):
        run(lake, target, Merge(), mode, [(None, "a", None), (2, "b", None)])
    assert lake.oracle(target) == []


def test_pruning_comes_from_the_batch(lake: Lake) -> None:
    target = lake.table()
    _, few = run(lake, target, Merge(), Mode.MERGE_ON_READ, [(7, "a", None), (-2, "b", None)])
    assert [(each.column, each.low, each.high, each.values) for each in few.prune] == [("id", "-2", "7", ("-2", "7"))]
    _, many = run(lake, target, Merge(), Mode.MERGE_ON_READ, [(n, "a", None) for n in range(100)])
    assert [(each.column, each.low, each.high, each.values) for each in many.prune] == [("id", "0", "99", ())]
    _, none = run(lake, target, Merge(), Mode.MERGE_ON_READ, [])
    assert (none.rows, none.prune) == (0, ())


def test_a_bulk_load_of_unique_keys_reads_its_rows_once(lake: Lake) -> None:
    """Nothing is kept and nothing asked beforehand: the rows are computed exactly once."""
    target = lake.table()
    plan = lake.plan(target, Mode.APPEND)
    staging = lake.format.stage(lake.session, target, plan)
    counted = lake.session.sparkContext.accumulator(0)

    def count(rows: Any) -> Any:
        for row in rows:
            counted.add(1)
            yield row

    source = lake.rows(*((n, "a", None) for n in range(50)))
    rows = lake.session.createDataFrame(source.rdd.mapPartitions(count), source.schema)
    checked = Merge().check(rows, plan, Batch(latest=LATEST, keys_unique=True, skip_equal=False))
    Merge().write(checked, plan, staging)
    staging.publish()
    assert (checked.keys, checked.held, checked.compared.latest) == (None, None, None)
    assert counted.value == 50
    assert lake.ids(target) == list(range(50))


def test_append_keeps_every_version_and_replace_is_exact(lake: Lake) -> None:
    target = lake.table()
    rows = [(1, "a", None), (1, "b", None), (1, "b", None)]
    run(lake, target, Append(), Mode.APPEND, rows)
    run(lake, target, Append(), Mode.APPEND, rows[:1])
    assert lake.ids(target) == [1, 1, 1, 1]
    run(lake, target, Replace(), Mode.OVERWRITE, rows)
    assert seen(lake, target) == [(1, "a", None), (1, "b", None), (1, "b", None)]


def test_the_choice_from_file_bounds_is_right(lake: Lake) -> None:
    target = lake.table()
    lake.load(target, Mode.APPEND, *((n, "a", None) for n in range(10)))
    modes = []
    for low in ("10", "9"):
        bounds = Prune(column="id", type=BIGINT, low=low, high="14")
        keys = KeyFacts(unique=True, bounds=bounds, apart=not lake.format.may_hold(target, bounds))
        known = WriteFacts(effect=Upsert(), rows=5, table_rows=10, keys=keys)
        modes.append(Merge().choose(known).mode)
    assert modes == [Mode.APPEND, Mode.COPY_ON_WRITE]


@pytest.mark.slow
def test_a_warehouse_that_cannot_be_written_leaves_the_table(lake: Lake) -> None:
    target = lake.table()
    lake.load(target, Mode.APPEND, (1, "a", None))
    data = lake.folder / "warehouse" / "shop" / target.table / "data"
    data.rename(data.with_name("moved"))
    data.write_text("a file where the folder was: no user may write below it, not even root")
    with pytest.raises(WriteError, match=r"the warehouse file://.* cannot be written while writing to lake\.shop"):
        run(lake, target, Append(), Mode.APPEND, [(2, "b", None)])
    data.unlink()
    data.with_name("moved").rename(data)
    assert lake.ids(target) == [1]
    assert lake.format.state(target, "0123456789abcdef").branches == ()
