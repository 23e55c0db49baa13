"""Windows of MariaDB tables while every kind of transaction writes them."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pymysql
import pytest

from matrix.bounds.windows import SEQUENCE, Sample, Writing, run, until

if TYPE_CHECKING:
    from support.mariadb import MariadbServer


MARIADB_CURSORS = {
    "CURRENT_TIMESTAMP(6)": "timestamp(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6)",
    "whole seconds": "timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP",
    "ON UPDATE": "timestamp(6) NULL DEFAULT NULL ON UPDATE CURRENT_TIMESTAMP(6)",
    "SYSDATE(6)": "timestamp(6) NULL",
    "trigger": "timestamp(6) NULL",
    SEQUENCE: "timestamp NULL",
}
MARIADB_TRIGGERS = {"SYSDATE(6)": "SYSDATE(6)", "trigger": "NOW(6)"}


@dataclass(kw_only=True)
class Mariadb:
    """A database of the test server."""

    server: MariadbServer
    database: str
    tables: dict[str, str] = field(default_factory=dict)

    def url_of(self, table: str) -> str:
        return self.server.url(self.database)

    def rows(self, table: str) -> list[int]:
        with self.server.connect(self.database) as connection, connection.cursor() as cursor:
            cursor.execute(f"SELECT id FROM {table}")
            return [row[0] for row in cursor.fetchall()]

    def make(self) -> None:
        """A table for each way to set a cursor; a row of `ON UPDATE` has its time from an update of its transaction."""
        for number, (cursor, column) in enumerate(MARIADB_CURSORS.items()):
            table = self.tables[cursor] = f"t{number}"
            self.server.run(
                f"CREATE TABLE {table} (id bigint AUTO_INCREMENT PRIMARY KEY, n int, seen {column}) ENGINE = InnoDB",
                database=self.database,
            )
            if cursor in MARIADB_TRIGGERS:
                self.server.run(
                    f"CREATE TRIGGER stamp_{table} BEFORE INSERT ON {table} FOR EACH ROW "
                    f"SET NEW.seen = {MARIADB_TRIGGERS[cursor]}",
                    database=self.database,
                )


class MariadbWriter:
    """Statements of one connection; a row of a table whose cursor an update sets is inserted first and then updated."""

    def __init__(self, connection: pymysql.Connection[Any], w: Writing, *, updates: bool) -> None:
        self.connection, self.w, self.updates = connection, w, updates

    def __call__(self, statement: str) -> None:
        with self.connection.cursor() as cursor:
            cursor.execute(statement)
            while cursor.nextset():
                pass

    @property
    def row(self) -> str:
        """One row, as statements of a block."""
        update = f"; UPDATE {self.w.table} SET n = -n WHERE id = LAST_INSERT_ID()" if self.updates else ""
        return self.w.insert + update

    def insert(self) -> None:
        """One row."""
        for statement in self.row.split("; "):
            self(statement)


def my_autocommit(write: MariadbWriter, w: Writing) -> None:
    while w.going:
        if write.updates:
            write("BEGIN")
        write.insert()
        if write.updates:
            write("COMMIT")
        w.pause(0.02)


def my_transaction(write: MariadbWriter, w: Writing) -> None:
    while w.going:
        write("BEGIN")
        w.pause(0.3)
        for _ in range(w.random.randint(1, 50)):
            write.insert()
            w.pause(0.06)
        write(w.random.choice(["COMMIT", "COMMIT", "COMMIT", "ROLLBACK"]) if w.going else "COMMIT")


def my_savepoint(write: MariadbWriter, w: Writing) -> None:
    while w.going:
        write("BEGIN")
        for _ in range(w.random.randint(1, 40)):
            write("SAVEPOINT s")
            write.insert()
            w.pause(0.05)
            write(w.random.choice(["RELEASE SAVEPOINT s", "ROLLBACK TO s"]))
        write.insert()
        write("COMMIT")


def my_block(write: MariadbWriter, w: Writing) -> None:
    while w.going:
        write(
            f"BEGIN NOT ATOMIC FOR i IN 1..{w.random.randint(60, 120)} DO START TRANSACTION; {write.row}; COMMIT; "
            "DO SLEEP(RAND() * 0.04); END FOR; END"
        )


def my_procedure(write: MariadbWriter, w: Writing) -> None:
    name = f"fill_{write.connection.thread_id()}"
    write(
        f"CREATE PROCEDURE {name}(IN amount int) BEGIN FOR i IN 1..amount DO "
        f"IF i % 7 = 1 THEN START TRANSACTION; END IF; {write.row}; DO SLEEP(RAND() * 0.03); "
        "IF i % 7 = 0 THEN COMMIT; END IF; END FOR; COMMIT; END"
    )
    while w.going:
        write(f"CALL {name}({w.random.randint(20, 150)})")


def my_message(write: MariadbWriter, w: Writing) -> None:
    """Several transactions in one message."""
    while w.going:
        one = "BEGIN; {}; DO SLEEP({}); COMMIT; DO SLEEP({})"
        pauses = [(w.random.random() / 20, w.random.random() / 20) for _ in range(w.random.randint(5, 60))]
        write("; ".join(one.format(write.row, *pause) for pause in pauses))


def my_xa(write: MariadbWriter, w: Writing) -> None:
    while w.going:
        xid = f"'{w.table} {write.connection.thread_id()} {w.number}'"
        write(f"XA START {xid}")
        for _ in range(w.random.randint(1, 30)):
            write.insert()
            w.pause(0.04)
        write(f"XA END {xid}")
        write(f"XA PREPARE {xid}")
        w.pause(0.1)
        write(f"XA COMMIT {xid}")
        w.pause(0.4)


def my_select(write: MariadbWriter, w: Writing) -> None:
    """Many rows by one statement that takes its time."""
    while w.going:
        rows = w.random.randint(10, 60)
        write("BEGIN")
        write(f"INSERT INTO {w.table} (n) SELECT seq + 0 * SLEEP(0.02) FROM seq_1_to_{rows}")
        if write.updates:
            write(f"UPDATE {w.table} SET n = -n WHERE id >= LAST_INSERT_ID() AND n > 0")
        write("COMMIT")


def my_event(write: MariadbWriter, w: Writing) -> None:
    """Blocks that the server runs by itself."""
    while w.going:
        name, rows = f"e{write.connection.thread_id()}_{w.number}", w.random.randint(20, 80)
        write(
            f"CREATE EVENT {name} ON SCHEDULE AT NOW() DO BEGIN FOR i IN 1..{rows} DO START TRANSACTION; {write.row}; "
            "DO SLEEP(RAND() * 0.03); COMMIT; END FOR; END"
        )
        time.sleep(rows * 0.03)


MARIADB_KINDS = {
    each.__name__.removeprefix("my_"): each
    for each in (
        my_autocommit,
        my_transaction,
        my_savepoint,
        my_block,
        my_procedure,
        my_message,
        my_xa,
        my_select,
        my_event,
    )
}


@pytest.fixture
def scheduler(mariadb: MariadbServer) -> Iterator[None]:
    """Events run."""
    mariadb.run("SET GLOBAL event_scheduler = ON")
    yield
    mariadb.run("SET GLOBAL event_scheduler = OFF")


@pytest.mark.usefixtures("scheduler")
@pytest.mark.parametrize("kind", MARIADB_KINDS)
def test_mariadb(mariadb: MariadbServer, maria_database: str, kind: str, sample: Sample) -> None:
    there = Mariadb(server=mariadb, database=maria_database)
    there.make()
    deadline = time.monotonic() + sample.seconds

    def writer(cursor: str, table: str, seed: int) -> Callable[[], None]:
        def write() -> None:
            w = Writing(table=table, until=deadline, random=random.Random(f"{table} {seed}"))
            with mariadb.connect(maria_database, client_flag=pymysql.constants.CLIENT.MULTI_STATEMENTS) as connection:
                MARIADB_KINDS[kind](MariadbWriter(connection, w, updates=cursor == "ON UPDATE"), w)
                until(lambda: not _events(connection))

        return write

    writers = [writer(cursor, table, seed) for cursor, table in there.tables.items() for seed in range(sample.writers)]
    run(there, kind, writers, there.tables)


def _events(connection: pymysql.Connection[Any]) -> bool:
    """Whether events of this database still run or wait."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT (SELECT count(*) FROM information_schema.events WHERE event_schema = database()) + "
            "(SELECT count(*) FROM information_schema.processlist WHERE db = database() AND command = 'Connect')"
        )
        return bool(cursor.fetchone()[0])
