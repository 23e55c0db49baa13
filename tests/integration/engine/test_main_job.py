"""The main job: three streams of a shop, by people and by accidents; compared with the source's own driver."""

from __future__ import annotations

import pytest

from support.shops import STREAMS, PostgresShop, change, fill, sqlite_shop, texts
from support.workspace import Workspace
from tidegate.core.outcome import Result
from tidegate.errors import PlanError

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def engine(request):
    return request.param


@pytest.fixture
def shop(engine, tmp_path, request):
    if engine == "sqlite":
        return sqlite_shop(tmp_path)
    shop = PostgresShop(url=request.getfixturevalue("pg_url"))
    fill(shop, engine)
    return shop


@pytest.fixture
def workspace(tmp_path, shop):
    workspace = Workspace(folder=tmp_path)
    workspace.write(STREAMS, connections={"shop": {"url": shop.url}})
    return workspace


def is_equal(workspace, shop):
    for name in STREAMS:
        there = texts(row[:2] for row in shop.rows(f"select * from {name}"))
        assert texts(list(row.values())[:2] for row in workspace.rows(f"shop.{name}")) == there


def orders(workspace, spark):
    return workspace.run("orders", spark=spark).streams[0]


def test_first_load_increment_and_nothing(workspace, shop, engine, spark):
    first = workspace.run(spark=spark, parallel=3)
    assert [(stream.error, stream.outcome, stream.verified) for stream in first.streams] == [
        (None, Result.LOADED, True)
    ] * 3
    assert [stream.rows_read for stream in first.streams] == [500, 500, 2]
    is_equal(workspace, shop)
    with workspace.project() as project:
        uid = project.streams("orders")[0].uid
    table = workspace.table("shop.orders")
    assert str(table.current_snapshot().snapshot_id) == first["orders"].snapshot
    assert table.current_snapshot().summary[f"tidegate.{uid}.position"], "it is in the commit of the rows"
    assert (table.current_snapshot().summary["added-records"], set(table.metadata.refs)) == ("500", {"main"})

    change(shop, engine)
    with workspace.project() as project:  # no session is handed in: a JVM would have to be started
        plans = {plan.stream: plan for plan in project.plan().streams}
        assert not project.sessions.started
    write = plans["orders"].write
    assert (plans["orders"].rows, write["mode"], plans["events"].outcome) == (51, "merge_on_read", "changed")
    assert [(each["column"], each["low"], each["high"]) for each in write["prune"]] == [("id", "100", "501")]
    second = workspace.run(spark=spark, parallel=3)
    assert [stream.error for stream in second.streams] == [None] * 3
    assert (second["orders"].rows_inserted, second["orders"].rows_updated) == (1, 50)
    assert (second["events"].rows_inserted, second["events"].write) == (70, "append")
    assert second["regions"].write == "overwrite"
    is_equal(workspace, shop)

    snapshots = workspace.snapshots("shop.orders")
    workspace.forget_registry()
    with workspace.project() as project:
        again = project.run("orders", "events")
        assert not project.sessions.started
        status = {entry.stream: entry for entry in project.status()}
        assert next(str(part.known) for part in project.intervals("orders").parts) == "unverified"
    assert [stream.outcome for stream in again.streams] == [Result.UNCHANGED] * 2
    assert (workspace.snapshots("shop.orders"), status["orders"].sequence) == (snapshots, 2)


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_a_table_rolled_back_by_hand_stops_then_is_repaired(workspace, shop, engine, spark):
    orders(workspace, spark)
    base = workspace.table("shop.orders").current_snapshot().snapshot_id
    change(shop, engine)
    orders(workspace, spark)
    table = workspace.table("shop.orders")
    table.manage_snapshots().create_branch(snapshot_id=base, branch_name="keep").commit()
    table.manage_snapshots().rollback_to_snapshot(base).commit()
    stopped = orders(workspace, spark)
    assert (stopped.outcome, stopped.error.code) == (Result.STOPPED, "position_moved")
    with workspace.project(spark) as project:
        project.state.repair("orders")
        assert project.run("orders").streams[0].rows_read == 51
        # By its own command it goes back, too: what is read again changes nothing.
        assert project.state.rewind("orders", 1).table["sequence"] == 4
        assert [str(part.known) for part in project.intervals("orders").parts] == ["done", "stale"]
        assert [str(gap.known) for stream in project.status() for gap in stream.gaps] == ["stale"]
        outcome = project.run("orders").streams[0]
        assert (outcome.rows_read, outcome.position["sequence"]) == (51, 5)
        assert {stream.gaps for stream in project.status()} == {()}, "the next run closes them"
        shop.sql("delete from orders where id <= 10")
        outcome = project.run("orders", full_refresh=True).streams[0]
        assert (outcome.error, outcome.write, outcome.rows_read, outcome.position["sequence"]) == (
            None,
            "overwrite",
            491,
            6,
        )
        assert project.run("orders").streams[0].outcome is Result.UNCHANGED

    # Under another name it is the table of somebody else, until it is adopted.
    workspace.write({"bestellungen": STREAMS["orders"]}, connections={"shop": {"url": shop.url}})
    with workspace.project(spark) as project:
        (refused,) = project.run().streams
        assert (refused.error.code, "uid: " in refused.error.hint) == ("position_missing", True)
        assert project.state.adopt("bestellungen").agree
        assert project.run().streams[0].outcome is Result.UNCHANGED


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
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
    assert texts(row.values() for row in workspace.rows("shop.events")) == texts(shop.rows("select * from events"))
