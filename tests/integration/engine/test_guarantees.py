"""What holds when something goes wrong in the middle of a load."""

import pytest
from pyspark.sql.functions import expr

from support.misread import misread, without_120
from support.shops import STREAMS, change, texts
from support.workspace import Workspace
from tidegate.core.outcome import Result
from tidegate.engine.events import Event, Moment, Stage
from tidegate.errors import CommitUnknown
from tidegate.formats.iceberg.staging import IcebergStaging

pytestmark = pytest.mark.spark


@pytest.fixture(params=["sqlite"])
def engine(request) -> str:
    return request.param


def rows(workspace, table: str = "orders") -> list[tuple]:
    return texts(list(row.values())[:2] for row in workspace.rows(f"shop.{table}"))


def source(shop, table: str = "orders") -> list[tuple]:
    return texts(row[:2] for row in shop.rows(f"select * from {table}"))


def at(stage: Stage, moment: Moment, action):
    """A listener that acts once at a boundary."""
    done = []

    def listen(event: Event) -> None:
        if (event.stage, event.moment) == (stage, moment) and not done:
            done.append(event)
            action()

    return listen


def test_a_row_lost_on_the_way_is_found_and_nothing_is_published(workspace, shop, engine, spark, monkeypatch):
    workspace.run("orders", spark=spark)
    change(shop, engine)
    misread(monkeypatch, without_120)
    before = rows(workspace)
    outcome = workspace.run("orders", spark=spark).streams[0]
    assert (outcome.outcome, outcome.error.code, outcome.error.exit_code) == (Result.FAILED, "verify_failed", 3)
    assert rows(workspace) == before
    assert set(workspace.table("shop.orders").metadata.refs) == {"main"}
    monkeypatch.undo()
    assert workspace.run("orders", spark=spark).streams[0].outcome is Result.LOADED
    assert rows(workspace) == source(shop)


@pytest.mark.parametrize("stream", ["orders", "events", "regions"])
def test_a_value_changed_on_the_way_is_found(workspace, shop, engine, spark, monkeypatch, stream):
    def twisted(rows):
        text = rows.columns[1]
        return rows.withColumn(text, expr(f"concat({text}, ' ')"))

    misread(monkeypatch, twisted)
    outcome = workspace.run(stream, spark=spark).streams[0]
    assert (outcome.error.code, outcome.error.exit_code) == ("verify_failed", 3)
    assert workspace.rows(f"shop.{stream}") == []


def test_two_runners_with_registries_of_their_own_publish_once(workspace, shop, engine, spark, tmp_path):
    workspace.run("orders", spark=spark)
    change(shop, engine)
    values = {"connections": {"shop": {"url": shop.url}}, "streams": STREAMS}

    def other() -> None:
        from tidegate.api import Project

        elsewhere = {**values, "registry": f"sqlite:///{tmp_path / 'other.db'}"}
        with Project.from_dict(elsewhere, folder=workspace.folder, spark=spark) as project:
            assert project.run("orders").streams[0].outcome is Result.LOADED

    outcome = workspace.run("orders", spark=spark, on_event=at(Stage.VERIFY, Moment.DONE, other)).streams[0]
    assert (outcome.outcome, outcome.error.code) == (Result.STOPPED, "position_moved")
    assert rows(workspace) == source(shop)
    assert len(rows(workspace)) == 501
    again = workspace.run("orders", spark=spark).streams[0]
    assert again.outcome is Result.UNCHANGED
    assert set(workspace.table("shop.orders").metadata.refs) == {"main"}


def test_a_second_runner_with_the_same_registry_is_held(workspace, shop, engine, spark):
    outcomes = []

    def other() -> None:
        outcomes.append(workspace.run("orders", spark=spark))

    first = workspace.run("orders", spark=spark, on_event=at(Stage.WRITE, Moment.START, other))
    assert first.streams[0].outcome is Result.LOADED
    assert outcomes[0].exit_code == 5
    assert outcomes[0].streams[0].outcome is Result.HELD


def test_a_foreign_commit_in_between_is_overtaken(workspace, shop, engine, spark):
    workspace.run("orders", spark=spark)
    change(shop, engine)

    def compact() -> None:
        workspace.table("shop.orders").append(workspace.table("shop.orders").scan().to_arrow().slice(0, 0))

    outcome = workspace.run("orders", spark=spark, on_event=at(Stage.VERIFY, Moment.DONE, compact)).streams[0]
    assert outcome.outcome is Result.LOADED, outcome.error
    assert rows(workspace) == source(shop)


@pytest.mark.parametrize("landed", [True, False])
def test_a_lost_reply_is_settled_by_the_table(workspace, shop, engine, spark, monkeypatch, landed):
    workspace.run("orders", spark=spark)
    change(shop, engine)
    publish = IcebergStaging.publish
    lost = []

    def lose(self):
        if lost:
            return publish(self)
        lost.append(1)
        if landed:
            publish(self)
        raise CommitUnknown("the reply was lost")

    monkeypatch.setattr(IcebergStaging, "publish", lose)
    outcome = workspace.run("orders", spark=spark).streams[0]
    assert outcome.outcome is Result.LOADED, outcome.error
    assert outcome.position["sequence"] == 2
    assert rows(workspace) == source(shop)
    monkeypatch.undo()
    assert workspace.run("orders", spark=spark).streams[0].outcome is Result.UNCHANGED


def test_one_failure_does_not_hide_the_others(workspace: Workspace, shop, spark):
    shop.sql("drop table events")
    report = workspace.run(spark=spark)
    outcomes = {stream.stream: stream.outcome for stream in report.streams}
    assert outcomes == {"orders": Result.LOADED, "events": Result.FAILED, "regions": Result.LOADED}
    stopped = workspace.run("events", "regions", spark=spark, fail_fast=True)
    assert [stream.stream for stream in stopped.streams] == ["events"]


def test_a_column_that_comes_evolves_the_table(workspace, shop, spark):
    workspace.run("orders", spark=spark)
    shop.sql(
        "alter table orders add column note text",
        "insert into orders values (900, 'x', '2025-03-01 00:00:00.000001', 'n')",
    )
    assert workspace.run("orders", spark=spark).streams[0].outcome is Result.LOADED
    table = {row["id"]: row for row in workspace.rows("shop.orders")}
    assert (table[900]["note"], table[1]["note"]) == ("n", None)


def test_a_column_that_goes_stays_in_the_table(workspace, shop, spark):
    workspace.run("orders", "events", spark=spark)
    shop.sql(
        "alter table orders drop column amount",
        "update orders set updated_at = '2025-03-01 00:00:00.000001' where id = 7",
        "insert into orders values (900, '2025-03-01 00:00:00.000001')",
        "alter table events drop column body",
        "insert into events default values",
    )
    report = workspace.run("orders", "events", spark=spark)
    assert [stream.error for stream in report.streams] == [None, None]
    table = {row["id"]: row for row in workspace.rows("shop.orders")}
    assert (table[900]["amount"], table[1]["amount"], table[7]["amount"]) == (None, "a1", "a7")
    assert str(table[7]["updated_at"]) == "2025-03-01 00:00:00.000001"
    assert {row["id"]: row["body"] for row in workspace.rows("shop.events")}[501] is None


def test_a_renamed_column_stops_until_it_is_allowed(workspace, shop, spark):
    workspace.run("orders", spark=spark)
    shop.sql(
        "alter table orders rename column amount to total",
        "insert into orders values (900, 'x', '2025-03-01 00:00:00.000001')",
    )
    stopped = workspace.run("orders", spark=spark).streams[0]
    assert (stopped.outcome, stopped.error.code, stopped.error.exit_code) == (Result.STOPPED, "schema_refused", 4)
    allowed = {"orders": {**STREAMS["orders"], "contract": {"rename": "evolve"}}}
    workspace.write(allowed, connections={"shop": {"url": shop.url}})
    assert workspace.run("orders", spark=spark).streams[0].outcome is Result.LOADED
    table = {row["id"]: row for row in workspace.rows("shop.orders")}
    assert (table[900]["total"], table[900]["amount"]) == ("x", None)
    assert (table[1]["total"], table[1]["amount"]) == (None, "a1")


def test_a_changed_type_stops_and_commits_nothing(workspace, shop, engine, spark):
    workspace.run("orders", spark=spark)
    snapshots = workspace.snapshots("shop.orders")
    shop.sql(
        "create table newer (id integer primary key, amount integer, updated_at timestamp)",
        "insert into newer values (1, 5, '2025-03-01 00:00:00')",
        "drop table orders",
        "alter table newer rename to orders",
    )
    outcome = workspace.run("orders", spark=spark).streams[0]
    assert outcome.outcome is Result.STOPPED
    assert outcome.error.exit_code == 4
    assert workspace.snapshots("shop.orders") == snapshots
