"""A run that is interrupted ends with 130, says what holds, and the next run completes it."""

import os
import signal

import pytest

from integration.cli.conftest import ORDERS

pytestmark = [pytest.mark.spark, pytest.mark.slow]

# A shell says 130 of both. Python ends by the signal itself if it arrived while a module was being imported.
INTERRUPTED = (130, -signal.SIGINT)
STREAMS = {"orders": ORDERS, "again": {**ORDERS, "target": "lake.shop.again"}}
ROWS = 20_000


@pytest.fixture
def project(workspace, shop):
    """Two streams of so many rows that a write takes a while."""
    shop.sql(
        f"with recursive n(i) as (select 4 union all select i + 1 from n where i < {ROWS}) "
        "insert into orders select i, 'amount ' || i from n"
    )
    spark = {"master": "local[2]", "conf": {"spark.driver.memory": "1g", "spark.ui.enabled": False}}
    workspace.write(STREAMS, connections={"shop": {"url": shop.url}}, spark=spark)
    return workspace


def last_runs(tidegate) -> dict[str, str]:
    """What `status` says of the last run of each stream; `history` says the same."""
    found = {}
    for stream in tidegate("status", "--json").document["streams"]:
        run = tidegate("history", stream["stream"], "--json").document["runs"][0]
        assert (run["error"], run["outcome"]) == (stream["last_error"], stream["last_outcome"])
        assert stream["held_by"] is None
        found[stream["stream"]] = run["outcome"]
    return found


PLANNED = [": plan ", ": plan "]


@pytest.mark.parametrize(("number", "stages"), [(signal.SIGTERM, PLANNED), (signal.SIGINT, [*PLANNED, ": check "])])
def test_loads_side_by_side_end_at_once_and_leave_nothing_half_done(number, stages, project, tidegate):
    """While Spark starts, or in the middle of a write."""
    process = tidegate.start("run", "--parallel", "2")
    for stage in stages:
        process.reach(stage)
    if number == signal.SIGINT:
        os.killpg(process.pid, number)  # as a terminal does it: to everybody
    else:
        process.terminate()
    said = process.end()
    assert said.exit_code in INTERRUPTED, said.everything
    assert "interrupted" in said.err
    assert "Traceback" not in said.everything
    assert ": write " not in said.err, "the interruption came too late to test anything"
    assert last_runs(tidegate) == dict.fromkeys(STREAMS, "interrupted")
    tasks = tidegate("tasks", "--json").document["tasks"]
    ended = {(task["status_cd"], task["result_payload"]["error"]["code"]) for task in tasks}
    assert ended == {("ERROR", "interrupted")}
    for name in STREAMS:
        assert not project.has_table(f"shop.{name}") or project.rows(f"shop.{name}") == []
    said = tidegate.process("run", "--json")
    assert said.exit_code == 0, said.everything
    done = [(each["outcome"], each["rows_inserted"], each["verified"]) for each in said.document["streams"]]
    assert done == [("loaded", ROWS, True)] * 2
    assert set(project.table("shop.orders").metadata.refs) == {"main"}


def test_a_run_that_was_killed_has_failed_for_everybody_who_asks(project, tidegate):
    process = tidegate.start("run", "orders")
    process.reach(": plan ")
    running, _ = tidegate("status", "--json").document["streams"]
    assert (running["last_outcome"], running["held_by"] is None) == ("running", False)
    os.killpg(process.pid, signal.SIGKILL)
    process.end()
    killed, _ = tidegate("status", "--json").document["streams"]
    assert (killed["last_outcome"], killed["last_error"]["code"], killed["held_by"]) == ("failed", "crashed", None)
