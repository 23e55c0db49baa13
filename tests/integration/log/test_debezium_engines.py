"""Events of MySQL, SQL Server and Oracle in files: loaded whole, repeated and out of order, against a model of rows."""

from __future__ import annotations

import random

import pytest

from support.engines import ENGINES, Event, history, lines

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

SEED, KEYS = 11, 25


@pytest.mark.parametrize("name", ENGINES)
def test_a_table_holds_what_the_events_leave_in_whatever_order_they_come(log_of, name):
    engine, chance = ENGINES[name], random.Random(f"{name} {SEED}")
    key = engine.key[0]
    envelope = {"kind": "debezium", **({"lob_enabled": True} if name == "oracle" else {})}
    log = log_of(source={"path": "events/*.json", "envelope": envelope}, key=key)
    events = history(engine, chance, KEYS)
    shuffled = sorted(events, key=lambda event: events.index(event) + chance.random() * 40)
    half = len(events) * 2 // 3
    came: list[Event] = []
    for number, load in enumerate((shuffled[:half], shuffled[half:])):
        again = chance.sample(came or load, len(load) // 4)
        log.raw(f"{number}.json", lines(engine, [*load, *again]))
        came += load
        log.loaded()
        found = {int(row.pop(key)): row for row in log.read()}
        assert found == engine.held(came)
    assert len(found) > KEYS // 3
