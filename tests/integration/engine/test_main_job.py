"""The main job on both databases: written by Spark, read back by PyIceberg, compared with the source's own driver."""

import pytest
import yaml

from support.shops import STREAMS, change, texts
from tidegate.core.outcome import Result
from tidegate.errors import PlanError

pytestmark = pytest.mark.spark


def orders(shop) -> list[tuple]:
    return texts((i, a, str(u)[:19]) for i, a, u in shop.rows("select id, amount, updated_at from orders"))


def loaded_orders(workspace) -> list[tuple]:
    return texts((row["id"], row["amount"], str(row["updated_at"])[:19]) for row in workspace.rows("shop.orders"))


def equal(workspace, shop) -> None:
    assert loaded_orders(workspace) == orders(shop)
    for stream in ("events", "regions"):
        table = texts(row.values() for row in workspace.rows(f"shop.{stream}"))
        assert table == texts(shop.rows(f"select * from {stream}"))


@pytest.mark.slow
def test_first_load_increment_and_nothing(workspace, shop, engine, spark):
    first = workspace.run(spark=spark)
    assert first.exit_code == 0, [stream.error for stream in first.streams]
    assert [stream.outcome for stream in first.streams] == [Result.LOADED] * 3
    assert [stream.rows_read for stream in first.streams] == [500, 500, 2]
    assert all(stream.verified for stream in first.streams)
    equal(workspace, shop)

    change(shop, engine)
    second = {stream.stream: stream for stream in workspace.run(spark=spark).streams}
    assert {name: stream.error for name, stream in second.items() if stream.error} == {}
    assert (second["orders"].rows_inserted, second["orders"].rows_updated) == (1, 50)
    assert (second["events"].rows_inserted, second["events"].write) == (70, "append")
    assert second["regions"].write == "overwrite"
    equal(workspace, shop)

    third = {stream.stream: stream for stream in workspace.run(spark=spark).streams}
    assert third["orders"].outcome is third["events"].outcome is Result.UNCHANGED
    equal(workspace, shop)


def test_the_position_is_in_the_commit_of_the_rows(workspace, spark):
    with workspace.project(spark) as project:
        uid = project.streams("orders")[0].uid
        outcome = project.run("orders").streams[0]
    table = workspace.table("shop.orders")
    summary = table.current_snapshot().summary
    assert str(table.current_snapshot().snapshot_id) == outcome.snapshot
    assert summary[f"tidegate.{uid}.position"]
    assert summary["added-records"] == "500"
    assert set(table.metadata.refs) == {"main"}


def test_without_registry_an_unchanged_source_stays_unchanged(workspace, spark):
    workspace.run("orders", "events", spark=spark)
    snapshots = workspace.snapshots("shop.orders")
    workspace.forget_registry()
    with workspace.project() as project:  # no session is handed in: a JVM would have to be started
        again = project.run("orders", "events")
        assert not project.sessions.started
        status = {entry.stream: entry for entry in project.status()}
        assert next(str(part.known) for part in project.intervals("orders").parts) == "unverified"
    assert [stream.outcome for stream in again.streams] == [Result.UNCHANGED] * 2
    assert not any(stream.spark_started for stream in again.streams)
    assert workspace.snapshots("shop.orders") == snapshots
    assert status["orders"].sequence == 1


def test_a_plan_moves_nothing_and_says_what_would(workspace, shop, engine, spark):
    workspace.run(spark=spark)
    snapshots = workspace.snapshots("shop.orders")
    change(shop, engine)
    with workspace.project() as project:
        plans = {plan.stream: plan for plan in project.plan().streams}
        assert not project.sessions.started
    assert plans["orders"].rows == 51
    assert plans["orders"].write["mode"] == "merge_on_read"
    assert {prune["column"]: (prune["low"], prune["high"]) for prune in plans["orders"].write["prune"]} == {
        "id": ("100", "501")
    }
    assert plans["events"].outcome == "changed"
    assert workspace.snapshots("shop.orders") == snapshots


def test_rows_of_somebody_else_stop_the_run(workspace, spark):
    workspace.run("orders", spark=spark)
    snapshots = workspace.snapshots("shop.orders")
    renamed = {"bestellungen": STREAMS["orders"]}
    workspace.write(renamed, connections=project_connections(workspace))
    outcome = workspace.run(spark=spark).streams[0]
    assert outcome.outcome is Result.STOPPED
    assert (outcome.error.code, outcome.error.exit_code) == ("position_missing", 4)
    assert "uid: " in outcome.error.hint
    assert workspace.snapshots("shop.orders") == snapshots


def test_an_adopted_table_is_loaded_on(workspace, shop, engine, spark):
    workspace.run("orders", spark=spark)
    workspace.write({"bestellungen": STREAMS["orders"]}, connections=project_connections(workspace))
    with workspace.project(spark) as project:
        view = project.state.adopt("bestellungen")
        assert view.agree
        assert project.run().streams[0].outcome is Result.UNCHANGED
        change(shop, engine)
        assert project.run().streams[0].rows_read == 51
    assert loaded_orders(workspace) == orders(shop)


def test_rewinding_reads_again_and_changes_nothing(workspace, shop, engine, spark):
    workspace.run("orders", spark=spark)
    change(shop, engine)
    workspace.run("orders", spark=spark)
    with workspace.project(spark) as project:
        view = project.state.rewind("orders", 1)
        assert view.table["sequence"] == 3
        assert [str(part.known) for part in project.intervals("orders").parts] == ["done", "stale"]
        assert [str(gap.known) for stream in project.status() for gap in stream.gaps] == ["stale"]
        outcome = project.run("orders").streams[0]
        assert {stream.gaps for stream in project.status()} == {()}, "the next run closes them"
        assert next(str(part.known) for part in project.intervals("orders").parts) == "done"
    assert outcome.rows_read == 51
    assert outcome.position["sequence"] == 4
    assert loaded_orders(workspace) == orders(shop)


def test_rows_that_are_only_added_are_not_added_once_more(workspace, shop, engine, spark):
    """A position may move back over rows that somebody deleted from the table, and over no others."""
    workspace.run("events", spark=spark)
    change(shop, engine)
    workspace.run("events", spark=spark)
    with workspace.project(spark) as project:
        for move in (lambda: project.state.rewind("events", 1), lambda: project.state.set("events", "500")):
            with pytest.raises(PlanError, match=r"70 rows of lake\.shop\.events are after that position") as refused:
                move()
            assert "DELETE FROM lake.shop.events WHERE" in refused.value.hint
        session = project.sessions.load_session()
        session.sql("DELETE FROM lake.shop.events WHERE id > 500")
        project.sessions.release(session)
        assert project.state.rewind("events", 1).table["sequence"] == 3
        assert project.run("events").streams[0].rows_inserted == 70
    assert texts(tuple(row.values()) for row in workspace.rows("shop.events")) == texts(
        shop.rows("select * from events")
    )


def test_a_full_refresh_replaces_and_counts_on(workspace, shop, engine, spark):
    workspace.run("orders", spark=spark)
    shop.sql("delete from orders where id <= 10")
    outcome = workspace.run("orders", spark=spark, full_refresh=True).streams[0]
    assert outcome.error is None, outcome.error
    assert (outcome.write, outcome.rows_read, outcome.position["sequence"]) == ("overwrite", 490, 2)
    assert loaded_orders(workspace) == orders(shop)
    assert workspace.run("orders", spark=spark).streams[0].outcome is Result.UNCHANGED


def test_a_table_rolled_back_by_hand_stops_then_is_repaired(workspace, shop, engine, spark):
    workspace.run("orders", spark=spark)
    base = workspace.table("shop.orders").current_snapshot().snapshot_id
    change(shop, engine)
    workspace.run("orders", spark=spark)
    table = workspace.table("shop.orders")
    table.manage_snapshots().create_branch(snapshot_id=base, branch_name="keep").commit()
    table.manage_snapshots().rollback_to_snapshot(base).commit()
    stopped = workspace.run("orders", spark=spark).streams[0]
    assert (stopped.outcome, stopped.error.code) == (Result.STOPPED, "position_moved")
    with workspace.project(spark) as project:
        project.state.repair("orders")
        assert project.run("orders").streams[0].rows_read == 51
    assert loaded_orders(workspace) == orders(shop)


def test_streams_in_parallel(workspace, shop, engine, spark):
    report = workspace.run(spark=spark, parallel=3)
    assert report.exit_code == 0, [stream.error for stream in report.streams]
    change(shop, engine)
    assert workspace.run(spark=spark, parallel=3).exit_code == 0
    equal(workspace, shop)


def test_one_stream_for_each_table_that_matches(workspace, shop, engine, spark):
    table = "public.*" if engine == "postgresql" else "*"
    raw = {
        "source": {"connection": "shop", "table": table},
        "target": "lake.raw.{table}",
        "strategy": {"kind": "full"},
        "write": "replace",
    }
    workspace.write({"raw.*": raw}, connections=project_connections(workspace))
    report = workspace.run(spark=spark)
    assert sorted(stream.stream for stream in report.streams) == ["raw.events", "raw.orders", "raw.regions"]
    assert report.exit_code == 0, [stream.error for stream in report.streams]
    assert len(workspace.rows("raw.events")) == 500
    assert workspace.run("raw.regions", spark=spark).streams[0].outcome is Result.UNCHANGED


def project_connections(workspace) -> dict:
    return yaml.safe_load(workspace.file.read_text())["connections"]
