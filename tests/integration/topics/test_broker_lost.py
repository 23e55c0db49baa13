"""The broker of a topic dies or stands still in a stage of a load: every event is applied once all the same."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Iterator
from decimal import Decimal
from functools import partial
from pathlib import Path

import pytest

from integration.network.conftest import at
from integration.topics.conftest import Topics, event
from support.kafka import KafkaServer, formatted, started
from support.restarted import Restarted
from support.workspace import Workspace
from tidegate.core.outcome import Result
from tidegate.engine.events import Moment, Stage

pytestmark = [pytest.mark.servers, pytest.mark.spark, pytest.mark.timeout(600)]

FIRST, ALL = 200, 400
WANTED = [
    (n, "changed" if n <= FIRST and n % 3 == 0 else "new", Decimal("10.50"))
    for n in range(1, ALL + 1)
    if n > FIRST or n % 5
]


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaServer]:
    """A broker of these tests alone, which they may kill."""
    server = KafkaServer(folder=Path(tempfile.mkdtemp(prefix="tidegate-kafka-")))
    server.held = Restarted(partial(started, server, formatted(server)))
    yield server
    server.held.end()
    shutil.rmtree(server.folder, ignore_errors=True)


@pytest.fixture
def topics(broker: KafkaServer, spark, tmp_path: Path) -> Topics:
    broker.held.restart()
    return Topics(workspace=Workspace(folder=tmp_path), kafka=broker, spark=spark)


@pytest.fixture
def stream(topics: Topics) -> str:
    """Loaded once, and changed since: a third of the rows changes, a fifth goes, some of them both, and others come."""
    topic, positions = topics.kafka.create_topic(partitions=2), itertools.count(100)

    def send(op: str, numbers: range, name: str) -> None:
        rows = [{"id": number, "name": name, "amount": "BBo="} for number in numbers]
        events = [(row["id"] % 2, event(op, row, next(positions))) for row in rows]
        for partition in (0, 1):
            topics.kafka.send(topic, *(each for part, each in events if part == partition), partition=partition)

    made = topics.stream(topic)
    send("c", range(1, FIRST + 1), "new")
    topics.loaded(made)
    send("u", range(3, FIRST + 1, 3), "changed")
    send("d", range(5, FIRST + 1, 5), "")
    send("c", range(FIRST + 1, ALL + 1), "new")
    return made


def settles(topics: Topics, stream: str) -> None:
    """The table is what the events say, and a further run does nothing."""
    assert topics.rows(stream) == WANTED
    before = topics.workspace.snapshots(f"shop.{stream}")
    again = topics.run(stream)
    assert (again.error, again.outcome) == (None, Result.UNCHANGED)
    assert topics.workspace.snapshots(f"shop.{stream}") == before


@pytest.mark.parametrize("stage", [Stage.DETECT, Stage.WRITE])
def test_a_broker_that_stands_still_is_waited_for(topics, broker, stream, stage):
    outcome = topics.run(stream, on_event=at(stage, Moment.START, broker.held.stall))
    assert (outcome.error, outcome.outcome) == (None, Result.LOADED)
    settles(topics, stream)


@pytest.mark.parametrize("stage", [Stage.READ, Stage.WRITE, Stage.VERIFY, Stage.ADVANCE])
def test_a_broker_that_is_killed_and_comes_back_is_read_again(topics, broker, stream, stage):
    kill, retried = at(stage, Moment.START, broker.held.kill), []

    def listen(event):
        kill(event)
        if event.moment is Moment.RETRY:
            retried.append(event.detail)
            broker.held.restart()

    outcome = topics.run(stream, on_event=listen)
    broker.held.restart()
    assert (outcome.error, outcome.outcome) == (None, Result.LOADED)
    assert all("source_unavailable" in each for each in retried), retried
    settles(topics, stream)


def test_a_broker_that_stays_away_is_named(topics, broker, stream):
    before = topics.rows(stream)
    outcome = topics.run(stream, on_event=at(Stage.DETECT, Moment.START, broker.held.kill))
    assert outcome.error.code == "source_unavailable"
    assert "connection 'events'" in outcome.error.message
    assert topics.rows(stream) == before
    broker.held.restart()
    topics.loaded(stream)
    settles(topics, stream)
