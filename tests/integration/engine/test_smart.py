"""Strategy smart on a database: ways chosen by what the registry recorded, and the same rows after each."""

from __future__ import annotations

from datetime import datetime

import pytest

from support.costs import record_costs
from support.shops import PostgresShop, texts
from tidegate.core.cost_model import LoadMethod
from tidegate.core.outcome import Result
from tidegate.engine import load_history

pytestmark = [pytest.mark.spark, pytest.mark.slow]

TABLE = "create table sales (id integer primary key, day date not null, amount integer, changed_at timestamp not null)"
WHOLE = (LoadMethod.FULL, LoadMethod.SNAPSHOT_DIFF)


@pytest.fixture
def engine() -> str:
    return "sqlite"


def stream(**options) -> dict:
    return {
        "source": {"connection": "shop", "table": "sales"},
        "target": "lake.shop.sales",
        "key": ["id"],
        "strategy": {"kind": "smart", "column": "changed_at", **options},
        "write": "merge",
    }


def test_a_stream_goes_every_way_and_ends_equal(workspace, shop, spark) -> None:
    rows = ", ".join(f"({n}, '2025-01-0{1 + n // 100}', {n}, '2025-01-10 00:00:0{n // 100}')" for n in range(400))
    shop.sql(TABLE, f"insert into sales values {rows}")

    def run(**options):
        workspace.write({"sales": stream(**options)}, connections={"shop": {"url": shop.url}})
        outcome = workspace.run("sales", spark=spark).streams[0]
        assert outcome.error is None, outcome.error
        return outcome

    def way(outcome) -> str:
        return outcome.position["state"]["choice"]["way"]

    def check() -> None:
        there = texts(shop.rows("select id, day, amount, changed_at from sales"))
        assert texts(tuple(row.values()) for row in workspace.rows("shop.sales")) == there

    first = run()
    assert (way(first), first.write, first.rows_read) == ("full", "append", 400)
    assert run().outcome is Result.UNCHANGED

    # Little changed, and every other way is dear by what was recorded.
    with workspace.project(spark) as project:
        record_costs(project, "sales", WHOLE, rows=400, seconds=90)
    shop.sql("update sales set amount = -1, changed_at = '2025-01-11 00:00:00' where id = 7")
    shop.sql("delete from sales where id = 8")
    second = run()
    assert (way(second), second.rows_read, second.rows_updated) == ("incremental", 1, 1)
    assert len(workspace.rows("shop.sales")) == 400, "the column does not tell that a row went"
    with workspace.project(spark) as project:
        record_costs(project, "sales", WHOLE, rows=400, seconds=1)

    # Due: whatever the column says, the whole table is looked at.
    third = run(full_every="1ms")
    assert way(third) in {"full", "snapshot_diff"}
    assert third.verified
    check()

    # What neither the column nor the calendar asks for is left; then partitions are compared, too.
    shop.sql("update sales set amount = -2 where id = 9", "delete from sales where id = 399")
    assert run().outcome is Result.UNCHANGED
    run(full_every="1ms", partition_by="day", period="month")
    check()
    last = run(full_every="1ms", max_changed_fraction=0.001)
    check()

    workspace.write({"sales": stream()}, connections={"shop": {"url": shop.url}})
    with workspace.project(spark) as project:
        assert project.verify("sales", level="rows").streams[0].equal
        registry, uid = project.registry, project.streams("sales")[0].uid
        known = load_history.of(registry, uid)
        assert known.proven_at > datetime.fromisoformat(last.position["state"]["whole_at"])
        assert {cost.way for cost in known.costs} >= {LoadMethod.FULL, LoadMethod.INCREMENTAL}
        assert project.plan("sales").streams[0].outcome == "unchanged"


def test_a_repair_measures_the_partitions_that_were_compared(workspace, shop, spark) -> None:
    rows = ", ".join(f"({n}, '2025-01-0{1 + n // 10}', {n}, '2025-01-10 00:00:00')" for n in range(30))
    shop.sql(TABLE, f"insert into sales values {rows}")
    options = {"partition_by": "day", "period": "day", "full_every": "1ms"}
    workspace.write({"sales": stream(**options)}, connections={"shop": {"url": shop.url}})
    workspace.run("sales", spark=spark)
    with workspace.project(spark) as project:
        record_costs(project, "sales", WHOLE, rows=30, seconds=90)
    shop.sql("update sales set amount = -1 where id = 15")
    outcome = workspace.run("sales", spark=spark).streams[0]
    assert outcome.position["state"]["choice"]["way"] == "partitions", outcome

    workspace.forget_registry()
    with workspace.project(spark) as project:
        (view,) = project.state.repair("sales")
        assert view.agree
        ledger = project.registry.ledger(project.streams("sales")[0].uid)
    assert {label: entry.fingerprint.rows for label, entry in ledger.entries.items()} == {
        "20250101": 10,
        "20250102": 10,
        "20250103": 10,
    }


def test_the_plan_prints_estimates_beside_what_was_measured(workspace, shop, spark) -> None:
    shop.sql(TABLE, "insert into sales values (1, '2025-01-01', 1, '2025-01-10 00:00:00')")
    shop.sql(*(f"insert into sales values ({n}, '2025-01-01', 1, '2025-01-10 00:00:00')" for n in range(2, 9)))
    workspace.write({"sales": stream()}, connections={"shop": {"url": shop.url}})
    workspace.run("sales", spark=spark)
    shop.sql("update sales set amount = 2, changed_at = '2025-01-11 00:00:00' where id = 1")
    with workspace.project() as project:
        plan = project.plan("sales").streams[0]
    assert plan.outcome == "changed"
    told = {note.split(":")[0]: note for note in plan.notes}
    assert "the last one took" in told["full"]
    assert "a guess: not measured yet" in told["incremental"]


@pytest.mark.postgres
def test_values_that_no_fingerprint_covers_are_compared_and_equal_ones_are_not_written(
    workspace, pg_url, spark
) -> None:
    shop = PostgresShop(url=pg_url)
    shop.sql("create table sales (id int primary key, sizes int[])", "insert into sales values (1, '{1}'), (2, '{2}')")
    entry = {"source": {"connection": "shop", "table": "sales"}, "target": "lake.shop.sales", "key": ["id"]}
    workspace.write(
        {"sales": {**entry, "strategy": "smart", "write": "merge"}}, connections={"shop": {"url": shop.url}}
    )

    def run():
        outcome = workspace.run("sales", spark=spark).streams[0]
        assert outcome.error is None, outcome.error
        return outcome

    first = run()
    again = run()
    assert (again.outcome, again.snapshot) == (Result.UNCHANGED, first.snapshot)
    assert "none differs from the table" in again.notes[-1]
    shop.sql("update sales set sizes = '{2,5}' where id = 2")
    assert run().rows_updated == 1
    assert sorted(row["sizes"] for row in workspace.rows("shop.sales")) == [[1], [2, 5]]
    shop.sql("insert into sales values (3, '{}')")
    assert run().rows_inserted > 0
    assert run().outcome is Result.UNCHANGED
