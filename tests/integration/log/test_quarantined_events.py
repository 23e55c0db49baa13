"""Events that break a rule wait with their place in the log: what a replay leaves is what the log leaves."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

RULE = {"expression": "amount >= 0", "on_fail": "quarantine"}
NONE = {"expression": "amount > -1000000", "on_fail": "quarantine"}
COLUMNS = {"operation": "text", "sequence": "bigint", "id": "bigint", "amount": "bigint", "note": "text"}


def put(sequence, key, amount=None, operation="U", **more):
    return {"operation": operation, "sequence": sequence, "id": key, "amount": amount, "note": "n", **more}


def stream(check):
    source = {"path": "events/*.json", "envelope": "rows", "columns": COLUMNS}
    return {"source": source, "checks": [check], "deletes": {"apply": "soft"}}


def live(log):
    """What of the table is not marked as deleted: key and amount."""
    return sorted(row[:2] for row in log.rows() if row[3] is None)


def counted(outcome, superseded, quarantined):
    assert (outcome.rows_superseded, outcome.rows_quarantined) == (superseded, quarantined)


def waiting(log):
    return sorted(
        int(row[8].split('"amount":"')[1].split('"')[0])
        for row in log.rows("orders__tidegate_quarantine")
        if row[3] is None
    )


def test_events_wait_in_the_order_of_their_log(log_of):
    log = log_of("delta", **stream(RULE))
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
    again = log_of("delta", **stream(NONE))
    with again.project() as project:
        done = project.quarantine("orders").replay()
    assert (done.rows, done.superseded, done.waiting) == (2, 0, 0)
    after = [(1, 11), (2, 2), (3, -3), (6, -6)]
    assert live(again) == after
    # A replay is remembered: what comes again counts no more.
    again.events("5.json", put(5, 3, 33), put(10, 3, -3), put(39, 6, 66), put(10, 4, 44))
    counted(again.loaded(), 4, 0)
    assert live(again) == after
