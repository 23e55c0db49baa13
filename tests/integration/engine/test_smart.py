"""Strategy smart on a database: ways chosen by what the registry recorded, and the same rows after each."""

from __future__ import annotations

from datetime import datetime

import pytest

from support.costs import record_costs
from support.shops import texts
from tidegate.core.cost_model import LoadMethod
from tidegate.core.outcome import Result
from tidegate.engine import load_history

pytestmark = [pytest.mark.spark]

WHOLE = (LoadMethod.FULL, LoadMethod.SNAPSHOT_DIFF)
DAYS = {"partition_by": "day", "period": "day"}


def test_a_stream_goes_every_way_and_ends_equal(bench):
    rows = ", ".join(f"({n}, '2025-01-0{1 + n // 10}', {n}, '2025-01-10 00:00:0{n // 10}')" for n in range(40))
    bench.sql(
        "create table t (id integer primary key, day date not null, amount integer, changed_at timestamp not null)",
        f"insert into t values {rows}",
    )

    def run(**options):
        bench.write({"kind": "smart", "column": "changed_at", **options})
        outcome = bench.run()
        assert outcome.error is None, outcome.error
        return outcome

    def recorded(seconds):
        with bench.workspace.project() as project:
            record_costs(project, "t", WHOLE, rows=40, seconds=seconds)

    def way(outcome):
        return outcome.position["state"]["choice"]["way"]

    def is_equal():
        assert texts(tuple(row.values()) for row in bench.rows()) == texts(bench.source())

    first = run()
    assert (way(first), first.write, first.rows_read) == ("full", "append", 40)
    assert run().outcome is Result.UNCHANGED
    # Little changed, and every other way is dear by what was recorded.
    recorded(90)
    bench.sql("update t set amount = -1, changed_at = '2025-01-11 00:00:00' where id = 7", "delete from t where id = 8")
    with bench.workspace.project() as project:
        plan = project.plan("t").streams[0]
    told = {note.split(":")[0]: note for note in plan.notes}
    assert ("the last one took" in told["full"], plan.outcome) == (True, "changed")
    assert "a guess: not measured yet" in told["incremental"]
    second = run()
    assert (way(second), second.rows_read, second.rows_updated) == ("incremental", 1, 1)
    assert len(bench.rows()) == 40, "the column does not tell that a row went"
    # Due: whatever the column says, the whole table is looked at, by partitions where that is cheapest.
    bench.sql("update t set amount = -2 where id = 9")
    assert run().outcome is Result.UNCHANGED
    third = run(full_every="1ms", **DAYS)
    assert (way(third), third.verified) == ("partitions", True)
    is_equal()
    bench.workspace.forget_registry()
    with bench.project() as project:
        (view,) = project.state.repair("t")
        ledger = project.registry.ledger(project.streams("t")[0].uid)
    assert view.agree
    days = {f"2025010{day}": 9 if day == 1 else 10 for day in range(1, 5)}
    assert {label: entry.fingerprint.rows for label, entry in ledger.entries.items()} == days
    recorded(1)
    bench.sql("delete from t where id = 39")
    last = run(full_every="1ms", max_changed_fraction=0.001)
    assert way(last) in {"full", "snapshot_diff"}
    is_equal()
    bench.write({"kind": "smart", "column": "changed_at"})
    assert bench.verify(level="rows").equal
    with bench.workspace.project() as project:
        known = load_history.of(project.registry, project.streams("t")[0].uid)
        assert project.plan("t").streams[0].outcome == "unchanged"
    assert known.proven_at > datetime.fromisoformat(last.position["state"]["whole_at"])


@pytest.mark.postgres
def test_values_that_no_fingerprint_covers_are_compared_and_equal_ones_are_not_written(pg_bench):
    pg_bench.sql("create table t (id int primary key, sizes int[])", "insert into t values (1, '{1}'), (2, '{2}')")
    pg_bench.write("smart")
    first, again = pg_bench.run(), pg_bench.run()
    assert (again.error, again.outcome, again.snapshot) == (None, Result.UNCHANGED, first.snapshot)
    assert "none differs from the table" in again.notes[-1]
    pg_bench.sql("update t set sizes = '{2,5}' where id = 2", "insert into t values (3, '{}')")
    assert pg_bench.run().error is None
    assert pg_bench.rows("id", "sizes") == [(1, [1]), (2, [2, 5]), (3, [])]
    assert pg_bench.run().outcome is Result.UNCHANGED
