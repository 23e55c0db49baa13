"""The registry in PostgreSQL cannot be reached, is killed, or answers nothing for a while, in every stage of a run."""

import contextlib
import os
import signal
import threading
import time
from pathlib import Path

import psycopg
import pytest
import yaml

from integration.network.conftest import at, exact_again, run, through
from support.postgres import PostgresServer
from tidegate.api import Project
from tidegate.core.outcome import Result
from tidegate.engine.events import Moment, Stage
from tidegate.registry import stalls

pytestmark = [pytest.mark.postgres, pytest.mark.spark]

STAGES = [*((stage, Moment.START) for stage in Stage), (Stage.ADVANCE, Moment.PUBLISHED), (Stage.ADVANCE, Moment.DONE)]


@pytest.fixture
def server():
    """A server of its own, which a test may kill."""
    made = PostgresServer.new()
    yield made
    made.drop()


@pytest.mark.parametrize(("stage", "moment"), STAGES)
def test_the_registry_cannot_be_reached(project, postgres, shop, network, spark, stage, moment):
    url = postgres.create_database()
    workspace = project(spark, shop, connection=shop.url, registry=through(url, network))
    with workspace.project(spark) as opened:
        try:
            (outcome,) = opened.run(on_event=at(stage, moment, network.cut)).streams
        finally:
            network.restore()
    if outcome.error:
        assert outcome.error.code == "registry_unavailable"
        assert outcome.error.message.startswith("registry postgresql")
    exact_again(workspace, spark)


@pytest.mark.slow
@pytest.mark.parametrize("stage", [Stage.DETECT, Stage.WRITE, Stage.ADVANCE])
def test_the_registry_is_killed_and_started_again(project, server, shop, spark, stage):
    workspace = project(spark, shop, connection=shop.url, registry=server.url())
    outcome = run(workspace, spark, on_event=at(stage, Moment.START, server.stop))
    assert outcome.error.code == "registry_unavailable"
    assert "registry postgresql" in outcome.error.message
    server.start()
    exact_again(workspace, spark)


@pytest.mark.slow
def test_the_registry_answers_nothing_for_a_while_in_each_stage(project, server, shop, spark):
    """It is waited for: no lease is lost by it, and nothing else is either."""
    workspace = project(spark, shop, connection=shop.url, registry=server.url())
    stalled = []

    def stall(event):
        if event.moment is not Moment.START:
            return
        stalled.append(event.stage)
        pids = send(signal.SIGSTOP, processes(server))
        threading.Timer(1.5, send, [signal.SIGCONT, pids]).start()

    outcome = run(workspace, spark, on_event=stall)
    time.sleep(2)
    assert set(stalled) == set(Stage)
    assert outcome.outcome is Result.LOADED, outcome.error
    exact_again(workspace, spark)


@pytest.fixture
def stopped(server):
    """Lets the server stand still until the test ends."""
    pids = []
    yield lambda: pids.extend(send(signal.SIGSTOP, processes(server)))
    send(signal.SIGCONT, pids)


@pytest.mark.slow
def test_a_connection_gives_up_a_server_that_stands_still_and_no_other(server, stopped):
    connection = stalls.connect(None, None, [server.url()], {"connect_timeout": 2, "autocommit": True})
    connection.patience = 0.5
    connection.execute("SELECT pg_sleep(2)")
    stopped()
    with pytest.raises(psycopg.OperationalError, match=stalls.STALLED):
        connection.execute("SELECT 1")
    assert connection.closed


@pytest.mark.exhaustive
@pytest.mark.parametrize("stage", [Stage.READ, Stage.ADVANCE])
def test_a_registry_that_answers_nothing_for_long_ends_the_run(project, server, stopped, shop, spark, stage):
    workspace = project(spark, shop, connection=shop.url, registry=server.url())
    began = time.monotonic()
    outcome = run(workspace, spark, on_event=at(stage, Moment.START, stopped))
    assert outcome.error.code == "registry_unavailable"
    assert outcome.error.message.startswith("registry postgresql")
    assert outcome.error.message.endswith("does not answer")
    assert time.monotonic() - began < 240
    send(signal.SIGCONT, processes(server))
    exact_again(workspace, spark)


def test_a_runner_without_its_registry_keeps_the_stream_while_its_lease_lasts(project, postgres, shop, network, spark):
    """Another runner, whose network is well, does not take it over; nor does a row come twice."""
    url = postgres.create_database()
    workspace = project(spark, shop, connection=shop.url, registry=through(url, network))
    others = []

    def meanwhile():
        network.cut()
        others.append(other_run(workspace, url, spark))
        network.restore()

    outcome = run(workspace, spark, on_event=at(Stage.WRITE, Moment.START, meanwhile))
    assert [each.error.code for each in others] == ["lease_held"]
    assert outcome.outcome is Result.LOADED, outcome.error
    exact_again(workspace, spark)


def other_run(workspace, url, spark):
    """The same project, by another way to the same registry."""
    values = {**yaml.safe_load(workspace.file.read_text()), "registry": url}
    with Project.from_dict(values, folder=workspace.folder, spark=spark) as project:
        return project.run().streams[0]


def processes(server):
    """The server's own, those included that answer."""
    pid = int((server.data / "postmaster.pid").read_text().split()[0])
    return [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]


def send(number, pids):
    """A signal to processes, of which some may have ended."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):  # its connection was closed
            os.kill(pid, number)
    return pids
