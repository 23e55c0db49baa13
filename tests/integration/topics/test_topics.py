"""Loads of Kafka topics: by offsets fixed before, once, and never past a loss."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from decimal import Decimal

import pytest

from integration.topics.conftest import event

pytestmark = [pytest.mark.servers, pytest.mark.spark]


def row(number: int, name: str | None = None, amount: str | None = "BBo=") -> dict:
    return {"id": number, "name": name, "amount": amount}


def test_a_topic_is_applied_once_by_offsets_of_every_partition(topics):
    topic = topics.kafka.create_topic(partitions=2)
    topics.kafka.send(topic, event("r", row(1, "a"), 90), event("u", row(1, "b"), 10), (None, None))
    topics.kafka.send(topic, event("c", row(2, "x"), 11), event("c", row(3, "y"), 12, commit=11), partition=1)
    stream = topics.stream(topic)
    first = topics.loaded(stream)
    assert topics.rows(stream) == [
        (1, "b", Decimal("10.50")),
        (2, "x", Decimal("10.50")),
        (3, "y", Decimal("10.50")),
    ], "the row of the snapshot stands below the change, whatever its position in the log"
    assert first.position["state"]["offsets"] == {"0": 3, "1": 2}
    again = topics.run(stream)
    assert (again.outcome, again.error) == ("unchanged", None)
    topics.kafka.send(topic, event("d", row(2), 20, commit=12), event("u", row(3, "late"), 9, commit=8), partition=1)
    topics.loaded(stream)
    assert topics.rows(stream) == [(1, "b", Decimal("10.50")), (3, "y", Decimal("10.50"))]
    topics.kafka.add_partitions(topic, 3)
    topics.kafka.send(topic, event("c", row(4, None, None), 30, commit=25), partition=2)
    topics.loaded(stream)
    assert topics.rows(stream)[-1] == (4, None, None), "a new partition is read from its beginning"


def test_after_a_resync_events_of_a_restored_server_count_again(topics, tmp_path):
    with closing(sqlite3.connect(tmp_path / "shop.db")) as database, database:
        database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY NOT NULL, name TEXT, amount DECIMAL(10,2))")
        database.execute("INSERT INTO orders VALUES (1, 'a', 10.5)")
    topic = topics.kafka.create_topic()
    beside = {"start": "table", "database": "shop", "table": "orders"}
    stream = topics.stream(topic, source=beside, connections={"shop": "sqlite:///shop.db"})
    topics.loaded(stream)
    topics.kafka.send(topic, event("u", row(1, "b"), 1000), event("c", row(2, "x"), 1001), event("d", row(3), 1002))
    topics.loaded(stream)
    assert [each[:2] for each in topics.rows(stream)] == [(1, "b"), (2, "x")]
    with topics.workspace.project(topics.spark) as project:
        assert project.status()[0].lag_events == 0
        topics.kafka.send(topic, event("u", row(1, "lost"), 10))
        (told,) = project.status()
        assert (told.lag_events, told.lag_error) == (1, None)
        assert 0 <= told.lag_seconds < 60
        (outcome,) = project.resync(stream).streams
    assert (outcome.error, outcome.outcome) == (None, "loaded")
    assert [each[:2] for each in topics.rows(stream)] == [(1, "a")], "the table as it was restored"
    topics.kafka.send(topic, event("u", row(1, "c"), 20), event("c", row(2, "y"), 21), event("c", row(3, "z"), 22))
    topics.loaded(stream)
    assert [each[:2] for each in topics.rows(stream)] == [(1, "c"), (2, "y"), (3, "z")]
