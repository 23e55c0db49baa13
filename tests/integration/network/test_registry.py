"""The registry in PostgreSQL cannot be reached, is killed, or answers nothing for a while, in every stage of a run."""

import contextlib
import os
import signal
import threading
from pathlib import Path

import psycopg
import pytest
import yaml

from integration.network.conftest import at, run, settled, through
from support.postgres import PostgresServer
from tidegate.api import Project
from tidegate.core.outcome import Result
from tidegate.engine.events import Moment, Stage
from tidegate.registry import stalls

pytestmark = [pytest.mark.postgres, pytest.mark.spark]

DURABLE = {"synchronous_commit": "on"}
"""Else a server that is killed forgets which leases have ended."""
STAGES = [*((stage, Moment.START) for stage in Stage), (Stage.ADVANCE, Moment.PUBLISHED), (Stage.ADVANCE, Moment.DONE)]


@pytest.fixture
def server():
    """A server of its own, which a test may kill."""
    made = PostgresServer.new(**DURABLE)
    yield made
    made.drop()


def lost(outcome, *, end=""):
    assert outcome.error.code == "registry_unavailable"
    assert outcome.error.message.startswith("registry postgresql")
    assert outcome.error.message.endswith(end)


@pytest.mark.timeout(600)
def test_the_registry_cannot_be_reached(project, postgres, shop, network, spark):
    """Nor does another runner, whose network is well, take a stream over while its lease lasts."""
    url = postgres.create_database()
    workspace = project(spark, shop, connection=shop.url, registry=through(url, network))
    for stage, moment in STAGES:
        shop.add()
        outcome = run(workspace, spark, on_event=at(stage, moment, network.cut))
        network.restore()
        if outcome.error:
            lost(outcome)
        settled(workspace, spark, shop)
    others = []

    def meanwhile():
        network.cut()
        values = {**yaml.safe_load(workspace.file.read_text()), "registry": url}
        with Project.from_dict(values, folder=workspace.folder, spark=spark) as other:
            others.extend(other.run().streams)
        network.restore()

    shop.add()
    outcome = run(workspace, spark, on_event=at(Stage.WRITE, Moment.START, meanwhile))
    assert [each.error.code for each in others] == ["lease_held"]
    assert outcome.outcome is Result.LOADED, outcome.error
    settled(workspace, spark, shop)


@pytest.mark.timeout(600)
def test_the_registry_is_killed_or_stands_still(project, server, shop, spark, monkeypatch):
    workspace = project(spark, shop, connection=shop.url, registry=server.url())
    for stage in (Stage.DETECT, Stage.WRITE, Stage.ADVANCE):
        shop.add()
        lost(run(workspace, spark, on_event=at(stage, Moment.START, server.stop)))
        server.start(**DURABLE)
        settled(workspace, spark, shop)

    # For a while in each stage: it is waited for, and no lease is lost by it.
    timers = []

    def stall(event):
        if event.moment is Moment.START:
            timers.append(threading.Timer(1, send, [signal.SIGCONT, send(signal.SIGSTOP, processes(server))]))
            timers[-1].start()

    shop.add()
    outcome = run(workspace, spark, on_event=stall)
    for timer in timers:
        timer.join()
    assert (outcome.outcome, len(timers)) == (Result.LOADED, len(Stage)), outcome.error
    settled(workspace, spark, shop)

    # For longer than anybody waits.
    monkeypatch.setattr(stalls.WatchfulConnection, "patience", 2)
    shop.add()
    stopped = []
    stop = at(Stage.ADVANCE, Moment.START, lambda: stopped.extend(send(signal.SIGSTOP, processes(server))))
    try:
        lost(run(workspace, spark, on_event=stop), end="does not answer")
    finally:
        send(signal.SIGCONT, stopped)
    settled(workspace, spark, shop)


def test_a_connection_gives_up_a_server_that_stands_still_and_no_other(server):
    connection = stalls.connect(None, None, [server.url()], {"connect_timeout": 2, "autocommit": True})
    connection.patience = 0.5
    connection.execute("SELECT pg_sleep(2)")
    stopped = send(signal.SIGSTOP, processes(server))
    try:
        with pytest.raises(psycopg.OperationalError, match=stalls.STALLED):
            connection.execute("SELECT 1")
        assert connection.closed
    finally:
        send(signal.SIGCONT, stopped)


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
