"""What holds when something goes wrong in the middle of a load."""

from __future__ import annotations

import pytest
from pyspark.sql.functions import expr

from integration.engine.conftest import at
from support.misread import misread
from tidegate.core.outcome import Result
from tidegate.engine.events import Moment, Stage
from tidegate.errors import CommitUnknown
from tidegate.formats.iceberg.staging import IcebergStaging

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


@pytest.fixture
def orders(bench):
    """Thirty rows are loaded, and six more are to be."""
    bench.sql("create table t (id integer primary key, name text, at timestamp)")
    bench.sql(*(f"insert into t values ({n}, 'n{n}', '2025-01-{n:02} 00:00:00')" for n in range(1, 31)))
    bench.write({"kind": "watermark", "column": "at"})
    bench.loaded()
    change(bench)
    return bench


def change(bench):
    bench.sql("update t set name = name || '!', at = datetime(at, '+40 days') where id between 10 and 15")


def is_equal(bench):
    assert bench.rows("id", "name") == bench.source("id, name")
    assert set(bench.workspace.table("out.t").metadata.refs) == {"main"}


@pytest.mark.parametrize("wrong", ["a row is lost", "a value changes"])
def test_rows_that_change_on_the_way_are_found_and_nothing_is_published(orders, monkeypatch, wrong):
    def twisted(rows):
        key, name, *_ = rows.columns
        changed = rows.withColumn(name, expr(f"concat({name}, ' ')"))
        return rows.where(f"{key} <> 12") if wrong == "a row is lost" else changed

    before = orders.rows()
    misread(monkeypatch, twisted)
    outcome = orders.run()
    assert (outcome.outcome, outcome.error.code, outcome.error.exit_code) == (Result.FAILED, "verify_failed", 3)
    assert orders.rows() == before
    monkeypatch.undo()
    orders.loaded()
    is_equal(orders)


def test_two_runners_with_registries_of_their_own_publish_once(orders):
    theirs = []

    def other():
        theirs.append(orders.run_of_somebody_else().outcome)

    outcome = orders.run(on_event=at(Stage.VERIFY, Moment.DONE, other))
    assert theirs == [Result.LOADED]
    assert (outcome.outcome, outcome.error.code) == (Result.STOPPED, "position_moved")
    assert orders.rows("id", "name") == orders.source("id, name")
    assert orders.run().outcome is Result.UNCHANGED
    is_equal(orders)


def test_a_second_runner_with_the_same_registry_is_held(orders):
    theirs = []

    def other():
        theirs.append(orders.workspace.run("t", spark=orders.spark))

    assert orders.run(on_event=at(Stage.WRITE, Moment.START, other)).outcome is Result.LOADED
    assert [(report.exit_code, report.streams[0].outcome) for report in theirs] == [(5, Result.HELD)]


def test_a_foreign_commit_in_between_is_overtaken(orders):
    def compact():
        orders.workspace.table("out.t").append(orders.workspace.table("out.t").scan().to_arrow().slice(0, 0))

    assert orders.run(on_event=at(Stage.VERIFY, Moment.DONE, compact)).outcome is Result.LOADED
    is_equal(orders)


def test_a_lost_reply_is_settled_by_the_table(orders, monkeypatch):
    publish = IcebergStaging.publish
    for sequence, landed in ((2, True), (3, False)):
        lost = []

        def lose(self, landed=landed, lost=lost):
            if lost:
                return publish(self)
            lost.append(1)
            if landed:
                publish(self)
            raise CommitUnknown("the reply was lost")

        monkeypatch.setattr(IcebergStaging, "publish", lose)
        assert (orders.loaded().position["sequence"], lost) == (sequence, [1])
        is_equal(orders)
        monkeypatch.undo()
        orders.unchanged()
        change(orders)
