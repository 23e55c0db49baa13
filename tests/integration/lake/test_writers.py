"""Writers on a real table: which rows of a batch arrive, which stop it, and what they cost."""

from __future__ import annotations

from typing import Any

import pytest

from support.lake import Lake
from tidegate.core.batch import Batch, Checked, Latest
from tidegate.core.plan import Mode
from tidegate.errors import CheckFailed, DuplicateKeys, WriteError
from tidegate.testing.contracts.lake import UID
from tidegate.writers.append import Append
from tidegate.writers.merge import Merge

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

LATEST = Latest(key=("id",), order=("changed_at",))
PLAIN = Batch(latest=LATEST, keys_unique=False, skip_equal=False)


def run(lake: Lake, target: Any, writer: Any, mode: Mode, rows: Any, batch: Batch = PLAIN) -> Checked:
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
    return checked


def seen(lake: Lake, target: Any) -> list[tuple[Any, ...]]:
    return sorted(
        (row["id"], row["name"], row["changed_at"].isoformat() if row["changed_at"] else None)
        for row in lake.oracle(target)
    )


def test_superseded_rows_never_arrive_and_a_stated_rule_breaks_ties(lake: Lake) -> None:
    rows = [
        (1, "old", "2024-01-01T00:00:00"),
        (1, "new", "2024-01-01T00:00:00.000001"),
        (1, "none", None),
        (2, "b", None),
        (2, "b", None),
    ]
    for mode in (Mode.APPEND, Mode.OVERWRITE, Mode.MERGE_ON_READ):
        target = lake.table()
        checked = run(lake, target, Merge(), mode, rows)
        assert (checked.rows, checked.compared.latest) == (2, LATEST), "so the source can be asked for the same rows"
        assert seen(lake, target) == [(1, "new", "2024-01-01T00:00:00.000001"), (2, "b", None)]
    tied = [(3, "a", "2024-01-01T00:00:00"), (3, "b", "2024-01-01T00:00:00"), (3, "z", "2023-01-01T00:00:00")]
    checked = run(lake, target, Merge(order_by=("name",)), Mode.MERGE_ON_READ, tied)
    assert seen(lake, target)[2:] == [(3, "b", "2024-01-01T00:00:00")]
    assert checked.compared.latest == Latest(key=("id",), order=("changed_at", "name"))


def test_rows_that_cannot_be_told_apart_or_have_no_key_stop_and_leave_the_table(lake: Lake) -> None:
    target = lake.table()
    lake.load(target, Mode.APPEND, (9, "kept", None))
    before = lake.format.state(target, UID)
    tied = [(1, "a", "2024-01-01T00:00:00"), (1, "b", "2024-01-01T00:00:00"), (2, "c", None)]
    for mode in (Mode.APPEND, Mode.OVERWRITE, Mode.MERGE_ON_READ, Mode.COPY_ON_WRITE):
        with pytest.raises(DuplicateKeys, match=r"^1 key \(id\)"):
            run(lake, target, Merge(), mode, tied)
        with pytest.raises(CheckFailed, match=r"^1 row has no value in a key column \(id\)"):
            run(lake, target, Merge(), mode, [(None, "a", None), (2, "b", None)])
        after = lake.format.state(target, UID)
        assert (after.snapshot, after.position, after.branches) == (before.snapshot, before.position, ()), mode
    # Without any order equal rows collapse, and others stop.
    bare = Batch(latest=None, keys_unique=False, skip_equal=False)
    run(lake, target, Merge(), Mode.MERGE_ON_READ, [(1, "a", None), (1, "a", None)], bare)
    with pytest.raises(DuplicateKeys):
        run(lake, target, Merge(), Mode.MERGE_ON_READ, [(1, "a", None), (1, "b", None)], bare)
    assert lake.ids(target) == [1, 9]


def test_pruning_comes_from_the_batch(lake: Lake) -> None:
    target = lake.table()
    few = run(lake, target, Merge(), Mode.MERGE_ON_READ, [(7, "a", None), (-2, "b", None)])
    assert [(each.column, each.low, each.high, each.values) for each in few.prune] == [("id", "-2", "7", ("-2", "7"))]
    many = run(lake, target, Merge(), Mode.MERGE_ON_READ, [(n, "a", None) for n in range(100)])
    assert [(each.column, each.low, each.high, each.values) for each in many.prune] == [("id", "0", "99", ())]
    none = run(lake, target, Merge(), Mode.MERGE_ON_READ, [])
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
    assert lake.format.state(target, UID).branches == ()
