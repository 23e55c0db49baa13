"""Loads of Kafka topics: by offsets fixed before, once, and never past a loss."""

from __future__ import annotations

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
