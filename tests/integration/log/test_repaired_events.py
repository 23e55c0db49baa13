"""A row that a repair reads of a log's table and that breaks a rule waits for a later event of its key, or a replay."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

RULE = {"expression": "amount >= 0", "on_fail": "quarantine"}
NONE = {"expression": "amount > -1000000", "on_fail": "quarantine"}
COLUMNS = {"operation": "text", "sequence": "bigint", "id": "bigint", "amount": "bigint", "at": "timestamp"}
DATED = {"kind": "scd2", "sequence_by": ["at"]}


def put(sequence, key, amount=None, operation="U"):
    at = None if amount is None else f"2024-01-{sequence:02}T00:00:00"
    return {"operation": operation, "sequence": sequence, "id": key, "amount": amount, "at": at}


class Shop:
    """A table of SQLite, and the stream of a log of it."""

    def __init__(self, log_of, folder, *, kind="iceberg", write="merge"):
        self.database = folder / "shop.db"
        self.log_of, self.options = log_of, {"kind": kind, "write": write}
        self._written("CREATE TABLE orders (id INTEGER PRIMARY KEY NOT NULL, amount INTEGER, at TIMESTAMP)")
        self.check(RULE)

    def check(self, rule):
        source = {"path": "events/*.json", "envelope": "rows", "columns": COLUMNS, "database": "shop"}
        shop = {"shop": f"sqlite:///{self.database}"}
        source |= {"table": "orders"}
        self.log = self.log_of(source=source, checks=[rule], connections=shop, **self.options)

    def holds(self, *rows):
        """The table's rows: key, amount and day."""
        self._written("DELETE FROM orders")
        for key, amount, day in rows:
            self._written(f"INSERT INTO orders VALUES ({key}, {amount}, '2024-01-{day:02} 00:00:00')")

    def _written(self, sql):
        with closing(sqlite3.connect(self.database)) as database, database:
            database.execute(sql)

    def load(self, name, *events):
        self.log.events(name, *events)
        return self.log.loaded()

    def repair(self):
        with self.log.project() as project:
            (found,) = project.verify("orders", repair=True).streams
        assert (found.error, found.equal) == (None, True)

    def equal(self):
        with self.log.project() as project:
            (found,) = project.verify("orders", level="rows").streams
        return found.equal

    def replay(self):
        with self.log.project() as project:
            done = project.quarantine("orders").replay()
        return (done.rows, done.superseded, done.waiting)

    def rows(self):
        """Key and amount; of a history only what is current."""
        return sorted(row[:2] for row in self.log.rows() if len(row) < 6 or row[5])

    def waiting(self):
        kept = self.log.rows("orders__tidegate_quarantine")
        return sorted(int(row[8].split('"amount":"')[1].split('"')[0]) for row in kept if row[3] is None)


@pytest.fixture
def shop(log_of, tmp_path):
    return lambda **options: Shop(log_of, tmp_path, **options)


@pytest.mark.parametrize("kind", ["iceberg", "delta"])
def test_a_row_of_a_repair_waits_for_a_later_event_of_its_key_or_a_replay(shop, kind):
    """Keys 1 and 4 were loaded and 4 was deleted since; the table that the log is of has other rows of 1, 3 and 4."""
    made = shop(kind=kind)
    made.load("1.json", put(10, 1, 5), put(11, 2, 2), put(9, 4, 4), put(12, 4, None, "D"))
    made.holds((1, -1, 13), (2, 2, 11), (3, -3, 13), (4, -4, 13))
    made.repair()
    assert (made.rows(), made.waiting()) == ([(2, 2)], [-4, -3, -1])
    # Another key, and what came before the repair once more.
    made.load("2.json", put(20, 2, 22), put(10, 1, 5), put(12, 4, None, "D"), put(9, 4, 4))
    assert (made.rows(), made.waiting()) == ([(2, 22)], [-4, -3, -1])
    made.holds((1, -1, 13), (2, 22, 20), (3, -3, 13), (4, -4, 13))
    assert made.equal()
    if kind == "delta":
        made.load("3.json", put(21, 1, 11), put(22, 3, -33), put(23, 4, None, "D"))
        assert (made.rows(), made.waiting()) == ([(1, 11), (2, 22)], [-33])
        return
    made.check(NONE)
    assert made.replay() == (3, 0, 0)
    after = [(1, -1), (2, 22), (3, -3), (4, -4)]
    assert (made.rows(), made.waiting()) == (after, [])
    assert made.equal()
    made.load("3.json", put(10, 1, 5), put(12, 4, None, "D"))  # what came before the repair once more
    assert made.rows() == after
    made.load("4.json", put(20, 1, 11), put(21, 3, 33), put(22, 4, None, "D"))
    assert made.rows() == [(1, 11), (2, 22), (3, 33)]


@pytest.mark.parametrize("write", [DATED, "scd2"])
def test_a_replay_puts_the_row_of_a_repair_into_its_history(shop, write):
    made = shop(write=write)
    made.load("1.json", put(2, 1, 5), put(3, 2, 2), put(4, 4, 4))
    made.load("2.json", put(5, 4, None, "D"))
    made.holds((1, -1, 7), (2, -2, 3), (3, -3, 7), (4, -4, 7))  # a new row at the moment of the old one, too
    made.repair()
    assert made.waiting() == [-4, -3, -2, -1]
    made.load("3.json", put(2, 1, 5), put(3, 2, 2), put(5, 4, None, "D"))
    assert made.waiting() == [-4, -3, -2, -1]
    made.check(NONE)
    assert made.replay() == (4, 0, 0)
    after = [(1, -1), (2, -2), (3, -3), (4, -4)]
    assert (made.rows(), made.waiting()) == (after, [])
    assert made.equal()
    made.load("4.json", put(2, 1, 5), put(3, 2, 2), put(5, 4, None, "D"))
    assert made.rows() == after
