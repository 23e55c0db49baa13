"""Windows of SQLite tables while every kind of transaction writes them."""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from matrix.bounds.windows import SEQUENCE, Sample, Writing, run

SQLITE_CURSORS = {
    "CURRENT_TIMESTAMP": "CURRENT_TIMESTAMP",
    "milliseconds": "(strftime('%Y-%m-%d %H:%M:%f', 'now'))",
    "trigger": None,
    SEQUENCE: "CURRENT_TIMESTAMP",
}


@dataclass(kw_only=True)
class Sqlite:
    """Files, one for each table: a file has one writer at a time."""

    folder: Path
    tables: dict[str, str] = field(default_factory=dict)

    def connect(self, table: str) -> sqlite3.Connection:
        return sqlite3.connect(self.folder / f"{table}.db", timeout=60, isolation_level=None)

    def url_of(self, table: str) -> str:
        return f"sqlite:///{self.folder / f'{table}.db'}"

    def rows(self, table: str) -> list[int]:
        with closing(self.connect(table)) as connection:
            return [row[0] for row in connection.execute(f"SELECT id FROM {table}")]

    def make(self, journal: str) -> None:
        for number, (cursor, time_of) in enumerate(SQLITE_CURSORS.items()):
            table = self.tables[cursor] = f"t{number}"
            with closing(self.connect(table)) as connection:
                connection.execute(f"PRAGMA journal_mode = {journal}")
                default = f"DEFAULT {time_of}" if time_of else ""
                connection.execute(
                    f"CREATE TABLE {table} (id INTEGER PRIMARY KEY AUTOINCREMENT, n int, seen TIMESTAMP {default})"
                )
                if not default:
                    connection.execute(
                        f"CREATE TRIGGER stamp AFTER INSERT ON {table} BEGIN UPDATE {table} SET seen = datetime('now') "
                        "WHERE id = NEW.id; END"
                    )


def lite_autocommit(there: sqlite3.Connection, w: Writing) -> None:
    while w.going:
        _patiently(there, w.insert)
        w.pause(0.02)


def lite_deferred(there: sqlite3.Connection, w: Writing) -> None:
    """A transaction that reads before it writes, and takes its time in between."""
    while w.going:
        there.execute("BEGIN")
        w.pause(0.6)
        _patiently(there, w.insert)
        w.pause(0.6)
        for _ in range(w.random.randint(1, 20)):
            there.execute(w.insert)
            w.pause(0.03)
        _patiently(there, "COMMIT")
        w.pause(0.4)


def lite_immediate(there: sqlite3.Connection, w: Writing) -> None:
    while w.going:
        _patiently(there, "BEGIN IMMEDIATE")
        for _ in range(w.random.randint(1, 60)):
            there.execute(w.insert)
            w.pause(0.03)
        _patiently(there, w.random.choice(["COMMIT", "COMMIT", "ROLLBACK"]) if w.going else "COMMIT")
        w.pause(0.5)


def lite_select(there: sqlite3.Connection, w: Writing) -> None:
    """Many rows by one statement that takes its time."""
    there.create_function("slowly", 1, lambda n: time.sleep(0.02) or n)
    numbers = "WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {}) SELECT slowly(n) FROM s"
    while w.going:
        _patiently(there, f"INSERT INTO {w.table} (n) {numbers.format(w.random.randint(10, 80))}")
        w.pause(0.5)


LITE_KINDS = {
    each.__name__.removeprefix("lite_"): each for each in (lite_autocommit, lite_deferred, lite_immediate, lite_select)
}


def _patiently(there: sqlite3.Connection, statement: str) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            there.execute(statement)
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


@pytest.mark.parametrize("journal", ["delete", "wal"])
@pytest.mark.parametrize("kind", LITE_KINDS)
def test_sqlite(tmp_path: Path, journal: str, kind: str, sample: Sample) -> None:
    there = Sqlite(folder=tmp_path)
    there.make(journal)
    until = time.monotonic() + sample.seconds

    def writer(table: str, seed: int) -> Callable[[], None]:
        def write() -> None:
            with closing(there.connect(table)) as connection:
                LITE_KINDS[kind](connection, Writing(table=table, until=until, random=random.Random(f"{table} {seed}")))

        return write

    run(
        there,
        f"{kind} ({journal})",
        [writer(t, n) for t in there.tables.values() for n in range(sample.writers)],
        there.tables,
    )
