"""Events that break a rule wait with their place in the log: what a replay leaves is what the log leaves."""

from __future__ import annotations

import random

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.slow]

RULE = {"expression": "amount >= 0", "on_fail": "quarantine"}
NONE = {"expression": "amount > -1000000", "on_fail": "quarantine"}
COLUMNS = {"operation": "text", "sequence": "bigint", "id": "bigint", "amount": "bigint", "note": "text"}


def put(sequence, key, amount=None, operation="U", **more):
    return {"operation": operation, "sequence": sequence, "id": key, "amount": amount, "note": "n", **more}


def stream(checks, **more):
    source = {"path": "events/*.json", "envelope": "rows", "columns": COLUMNS}
    return {"source": source, "checks": checks} | more


def live(log):
    """What of the table is not marked as deleted: key and amount."""
    return sorted(row[:2] for row in log.rows() if len(row) < 4 or row[3] is None)


def counted(outcome, superseded, quarantined):
    assert (outcome.rows_superseded, outcome.rows_quarantined) == (superseded, quarantined)


def waiting(log):
    return sorted(
        int(row[8].split('"amount":"')[1].split('"')[0])
        for row in log.rows("orders__tidegate_quarantine")
        if row[3] is None
    )


def replayed(log):
    with log.project() as project:
        done = project.quarantine("orders").replay()
    assert done.waiting == 0
    return done


@pytest.mark.parametrize(("kind", "apply"), [("iceberg", "hard"), ("delta", "soft")])
def test_events_wait_in_the_order_of_their_log(log_of, kind, apply):
    log = log_of(kind, **stream([RULE], deletes={"apply": apply}))
    log.events("1.json", put(10, 1, -1), put(20, 2, 2), put(10, 3, -3), put(10, 4, -4), put(12, 5, 5))
    counted(log.loaded(), 0, 3)
    assert waiting(log) == [-4, -3, -1]
    log.events(
        "2.json",
        put(20, 1, 11),  # newer than the one that waits
        put(15, 2, -22),  # late and bad: older than what was applied
        put(5, 3, 33),  # late and good: older than the one that waits
        put(20, 4, None, "D"),
        put(30, 5, -55),
    )
    counted(log.loaded(), 0, 2)
    assert waiting(log) == [-55, -3]
    # Everything once more: nothing changes.
    log.events(
        "3.json", put(10, 1, -1), put(10, 3, -3), put(10, 4, -4), put(15, 2, -22), put(30, 5, -55), put(20, 1, 11)
    )
    counted(log.loaded(), 1, 5)
    assert waiting(log) == [-55, -3]
    log.events("4.json", put(31, 5, None, "D"), put(40, 6, -6))
    log.loaded()
    assert (waiting(log), live(log)) == ([-6, -3], [(1, 11), (2, 2), (3, 33)])
    again = log_of(kind, **stream([NONE], deletes={"apply": apply}))
    done = replayed(again)
    assert (done.rows, done.superseded) == (2, 0)
    after = [(1, 11), (2, 2), (3, -3), (6, -6)]
    assert live(again) == after
    # A replay is remembered: what comes again counts no more.
    again.events("5.json", put(5, 3, 33), put(10, 3, -3), put(39, 6, 66), put(10, 4, 44))
    counted(again.loaded(), 4, 0)
    assert live(again) == after


def left(events):
    """What a log leaves of each key, by its order alone."""
    last = {}
    for event in sorted(events, key=lambda event: event["sequence"]):
        last[event["id"]] = event
    return sorted((key, event["amount"]) for key, event in last.items() if event["operation"] != "D")


@pytest.mark.parametrize(("kind", "apply", "seed"), [("iceberg", "soft", 1), ("delta", "hard", 2)])
def test_random_histories_of_a_log_end_as_if_no_rule_had_rejected_anything(log_of, kind, apply, seed):
    chance = random.Random(seed)
    events = []
    for key in range(60):
        for number in range(chance.randrange(1, 6)):
            gone = chance.random() < 0.2
            amount = None if gone else chance.choice((-1, 1)) * chance.randrange(1, 1000)
            events.append(put(1000 * number + key, key, amount, "D" if gone else "U"))
    loads = [[], [], [], []]
    for event in events:
        first = chance.randrange(4)
        loads[first].append(event)
        for later in range(first, 4):
            if chance.random() < 0.15:
                loads[later].append(event)
    log = log_of(kind, **stream([RULE], deletes={"apply": apply}))
    for number, load in enumerate(loads):
        chance.shuffle(load)
        log.events(f"{number}.json", *load)
        outcome = log.loaded()
        bad = sum(event["amount"] is not None and event["amount"] < 0 for event in load)
        assert (outcome.rows_read, outcome.rows_quarantined) == (len(load), bad)
        seen = [event for part in loads[: number + 1] for event in part]
        good = [event for event in seen if event["amount"] is None or event["amount"] >= 0]
        assert live(log) == left(good)
        assert waiting(log) == sorted(event[1] for event in left(seen) if event[1] < 0)
    again = log_of(kind, **stream([NONE], deletes={"apply": apply}))
    replayed(again)
    assert live(again) == left(events)
    again.events("9.json", *events)
    assert again.loaded().rows_superseded == len(events)
    assert live(again) == left(events)


@pytest.mark.parametrize(("kind", "write"), [("iceberg", {}), ("delta", {"sequence_by": ["note"]})])
def test_versions_of_a_log_wait_for_their_place_in_its_history(log_of, kind, write):
    columns = {**COLUMNS, "note": "bigint"}  # when it happened
    source = {"path": "events/*.json", "envelope": "rows", "columns": columns}
    options = {"source": source, "write": {"kind": "scd2", **write}}
    log = log_of(kind, **stream([RULE], **options))

    def event(sequence, key, amount=None, operation="U"):
        return put(sequence, key, amount, operation, note=sequence)

    log.events("1.json", event(10, 1, 1), event(10, 2, -2))
    counted(log.loaded(), 0, 1)
    log.events("2.json", event(20, 1, -11))
    log.loaded()
    log.events("3.json", event(30, 1, 111), event(20, 2, None, "D"))
    log.loaded()
    log.events("4.json", event(20, 1, -11), event(10, 2, -2), event(40, 3, -3))
    counted(log.loaded(), 0, 3)
    assert waiting(log) == [-11, -3, -2]
    again = log_of(kind, **stream([NONE], **options))
    assert replayed(again).rows == 3
    found = sorted((row[0], str(row[3]), row[1], row[5]) for row in again.rows() if row[1] is not None)
    assert [(key, amount, current) for key, _, amount, current in found] == [
        (1, 1, False),
        (1, -11, False),
        (1, 111, True),
        (2, -2, False),
        (3, -3, True),
    ]
    again.events("5.json", event(20, 1, -11), event(10, 2, -2), event(40, 3, -3))
    assert again.loaded().rows_superseded == 3
    after = sorted((row[0], str(row[3]), row[1], row[5]) for row in again.rows() if row[1] is not None)
    assert after == found
