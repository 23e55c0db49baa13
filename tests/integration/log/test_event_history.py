"""Events of a log into a history: late, repeated and tied events, read back by PyIceberg and delta-rs."""

from __future__ import annotations

import sqlite3
from contextlib import closing, nullcontext
from datetime import UTC, datetime

import pytest

from tidegate.errors import PlanError

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

COLUMNS = {"operation": "text", "sequence": "bigint", "id": "bigint", "name": "text", "at": "timestamp"}
SOURCE = {"path": "events/*.json", "envelope": "rows", "columns": COLUMNS}
PLAIN = {"source": SOURCE, "write": "scd2"}
DATED = {"source": SOURCE, "write": {"kind": "scd2", "sequence_by": ["at"]}}
both = pytest.mark.parametrize("kind", ["iceberg", "delta"])


def put(sequence, key, name, day=None, operation="U"):
    at = None if day is None else f"2024-01-{day:02}T00:00:00"
    return {"operation": operation, "sequence": sequence, "id": key, "name": name, "at": at}


def drop(sequence, key, day=None):
    return put(sequence, key, None, day, "D")


def day(value):
    """The day of January 2024, None, or `load` for a moment that a load gave."""
    if not isinstance(value, datetime):
        return value
    plain = value.astimezone(UTC) if value.tzinfo else value
    return plain.day if (plain.year, plain.month) == (2024, 1) else "load"


def versions(log, key=None):
    """Versions of one key as name, begin, end, whether it is current; of all keys with the key before."""
    held = sorted((row for row in log.rows() if row[3] != row[4]), key=lambda row: (row[0], row[3]))
    found = [(row[0], row[1], day(row[3]), day(row[4]), row[5]) for row in held]
    return [row[1:] for row in found if row[0] == key] if key is not None else found


@both
def test_late_events_find_their_place(log_of, kind):
    tracked = {"track_history": ["name"]} if kind == "delta" else {}
    log = log_of(kind, source=SOURCE, write={**DATED["write"], **tracked})
    log.events("1.json", drop(30, 1, 30), put(10, 2, "a", 10), put(1, 4, "insert", 5), put(2, 4, "update", 5))
    log.events("1b.json", put(1, 5, "one", 1), put(10, 6, "a", 10), drop(20, 6, 10), put(10, 7, "a", 10))
    log.loaded()
    log.events("2.json", put(10, 1, "a", 10), drop(30, 2, 30), put(1, 4, "insert", 5), drop(9, 5), drop(20, 7))
    log.loaded()
    assert versions(log, 1) == [("a", 10, 30, False)]
    assert versions(log, 4) == [("update", 5, None, True)]
    assert versions(log, 5) == [("one", 1, "load", False)]
    assert versions(log, 6) == [("a", 10, "load", False)], "the row as it was before says not when it went"
    log.events("3.json", put(20, 2, "late", 20), put(1, 5, "one", 1), put(40, 6, "b", 14), put(10, 7, "a", 10))
    log.loaded()
    assert versions(log, 2) == [("a", 10, 20, False), ("late", 20, 30, False)]
    assert versions(log, 5) == [("one", 1, "load", False)]
    assert versions(log, 6) == [("a", 10, 14, False), ("b", 14, None, True)]
    assert versions(log, 7) == [("a", 10, "load", False)]
    before = log.rows()
    log.events("4.json", *(put(10, 2, "a", 10), drop(30, 2, 30), put(20, 2, "late", 20), drop(30, 1, 30)))
    log.loaded()
    assert log.rows() == before


@both
def test_a_truncate_stops_unless_it_is_left_out(log_of, kind):
    log = log_of(kind, **DATED)
    log.events("1.json", put(2, 1, "b", 5), drop(3, 1, 9), put(1, 2, "a", 1))
    log.loaded()
    before = versions(log)
    assert before == [(1, "b", 5, 9, False), (2, "a", 1, None, True)], "the delete says when it took effect"
    log.events("2.json", put(2, 1, "b", 5), put(5, 2, "c", 3), {"operation": "TRUNCATE", "sequence": 6})
    stopped = log.run()
    assert (stopped.error.code, "truncate" in stopped.error.hint) == ("check_failed", True)
    assert "1 event empties the table (TRUNCATE)" in stopped.error.message
    assert versions(log) == before
    log.loaded(options={"truncate": "ignore"})
    assert versions(log) == [before[0], (2, "a", 1, 3, False), (2, "c", 3, None, True)]


def test_keys_that_were_forgotten_go_on_from_their_versions(log_of):
    log = log_of(**DATED, strategy={"kind": "cdc", "remember": "0s", "compact_after": 1})
    log.events("1.json", put(1, 1, "a", 2), put(3, 1, "c", 8), put(2, 2, "x", 4), drop(4, 2, 6))
    log.loaded()
    log.events("2.json", put(5, 3, "other", 1))
    log.loaded()
    log.events("3.json", put(1, 1, "a", 2), drop(4, 2, 6), put(2, 2, "x", 4), put(6, 1, "b", 5), put(3, 1, "c", 8))
    log.loaded()
    assert versions(log, 1) == [("a", 2, 5, False), ("b", 5, 8, False), ("c", 8, None, True)]
    assert versions(log, 2) == [("x", 4, 6, False)]
    log.events("4.json", put(1, 1, "a", 2), drop(7, 1, 9), put(6, 1, "b", 5))
    log.loaded()
    assert versions(log, 1) == [("a", 2, 5, False), ("b", 5, 8, False), ("c", 8, 9, False)]


def test_a_repair_stands_against_events_that_come_again(log_of, tmp_path):
    with closing(sqlite3.connect(tmp_path / "shop.db")) as database, database:
        database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY NOT NULL, name TEXT, at TIMESTAMP)")
        database.execute("INSERT INTO orders VALUES (1, 'z', '2024-01-05 00:00:00')")
    source = {**SOURCE, "database": "shop", "table": "orders"}
    log = log_of(source=source, write=DATED["write"], connections={"shop": f"sqlite:///{tmp_path}/shop.db"})
    log.events("1.json", put(1, 1, "a", 2), put(2, 2, "x", 4), drop(4, 2, 6))
    log.loaded()
    with log.project() as project:
        (repaired,) = project.verify("orders", repair=True).streams
    assert repaired.error is None
    assert versions(log, 1) == [("a", 2, 5, False), ("z", 5, None, True)]
    log.events("2.json", put(1, 1, "a", 2), put(3, 1, "late", 3), put(2, 2, "x", 4), put(3, 2, "y", 5))
    assert log.loaded().rows_superseded == 2
    mended = [("a", 2, 3, False), ("late", 3, 5, False), ("z", 5, None, True)]
    assert versions(log, 1) == mended
    assert versions(log, 2) == [("x", 4, 5, False), ("y", 5, 6, False)]
    log.events("3.json", put(3, 1, "late", 3), drop(4, 2, 6), put(5, 2, "back", 9))
    log.loaded()
    assert versions(log, 1) == mended
    assert versions(log, 2) == [("x", 4, 5, False), ("y", 5, 6, False), ("back", 9, None, True)]


@pytest.mark.parametrize("options", [PLAIN, DATED], ids=["dated by loads", "dated"])
def test_a_position_goes_back_only_where_events_say_when_they_took_effect(log_of, options):
    """A history that its loads date would take the events in between once more."""
    log = log_of(**options)
    log.events("1.json", put(1, 1, "a", 1))
    log.loaded()
    log.events("2.json", put(2, 1, "b", 2), put(3, 1, "c", 3))
    log.loaded()
    before = log.rows()
    with log.project() as project:
        refused = pytest.raises(PlanError, match="would add rows again") if options is PLAIN else nullcontext()
        with refused:
            project.state.rewind("orders", 1)
    assert log.run().error is None
    assert log.rows() == before
