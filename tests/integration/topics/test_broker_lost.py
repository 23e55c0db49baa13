"""The broker of a topic dies or stands still in a stage of a load: every event is applied once all the same."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
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


@dataclass(kw_only=True)
class Orders:
    """What the events of a topic leave of a table, in plain Python."""

    broker: KafkaServer
    topic: str
    rows: dict[int, str] = field(default_factory=dict)
    lsn: int = 100

    def create(self, numbers: range) -> None:
        self.rows |= {number: f"n{number}" for number in numbers}
        self._send("c", list(numbers))

    def change(self) -> None:
        """A third of the rows change and a fifth goes, some of them both; as many new ones come."""
        changed, gone = [n for n in self.rows if n % 3 == 0], [n for n in self.rows if n % 5 == 0]
        self.rows |= {number: f"changed {number}" for number in changed}
        self._send("u", changed)
        self._send("d", gone)
        for number in gone:
            del self.rows[number]
        self.create(range(FIRST + 1, ALL + 1))

    def _send(self, op: str, numbers: list[int]) -> None:
        for part in (0, 1):
            own = [number for number in numbers if number % 2 == part]
            self.broker.send(self.topic, *(self._event(op, number) for number in own), partition=part)

    def _event(self, op: str, number: int) -> tuple[object, object]:
        self.lsn += 1
        return event(op, {"id": number, "name": self.rows[number], "amount": "BBo="}, self.lsn)

    def table(self) -> list[tuple[object, ...]]:
        """The rows that a table of the topic must hold."""
        return [(number, name, Decimal("10.50")) for number, name in sorted(self.rows.items())]


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
def orders(topics: Topics) -> Orders:
    return Orders(broker=topics.kafka, topic=topics.kafka.create_topic(partitions=2))


@pytest.fixture
def stream(topics: Topics, orders: Orders) -> str:
    """Loaded once, and changed since."""
    made = topics.stream(orders.topic)
    orders.create(range(1, FIRST + 1))
    topics.loaded(made)
    orders.change()
    return made


def settles(topics: Topics, stream: str, orders: Orders) -> None:
    """The table is what the events say, and a further run does nothing."""
    assert topics.rows(stream) == orders.table()
    before = topics.workspace.snapshots(f"shop.{stream}")
    again = topics.run(stream)
    assert (again.error, again.outcome) == (None, Result.UNCHANGED)
    assert topics.workspace.snapshots(f"shop.{stream}") == before


@pytest.mark.parametrize("stage", [Stage.DETECT, Stage.WRITE])
def test_a_broker_that_stands_still_is_waited_for(topics, broker, stream, orders, stage):
    outcome = topics.run(stream, on_event=at(stage, Moment.START, broker.held.stall))
    assert (outcome.error, outcome.outcome) == (None, Result.LOADED)
    settles(topics, stream, orders)


@pytest.mark.parametrize("stage", [Stage.READ, Stage.WRITE, Stage.VERIFY, Stage.ADVANCE])
def test_a_broker_that_is_killed_and_comes_back_is_read_again(topics, broker, stream, orders, stage):
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
    settles(topics, stream, orders)


def test_a_broker_that_stays_away_is_named(topics, broker, stream, orders):
    before = topics.rows(stream)
    outcome = topics.run(stream, on_event=at(Stage.DETECT, Moment.START, broker.held.kill))
    assert outcome.error.code == "source_unavailable"
    assert "connection 'events'" in outcome.error.message
    assert topics.rows(stream) == before
    broker.held.restart()
    topics.loaded(stream)
    settles(topics, stream, orders)
