"""No row is lost at the edge of a window, however its cursor is set and whatever kind of transaction writes it.

Sources x ways to set a cursor x kinds of transactions. Writers of one kind run on tables that differ only in how the
cursor is set, while windows are read from them, each from the last bound to the next, with the statements of a probe
and nothing else of the engine. In the end every committed row has to be in exactly one window.
"""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import duckdb
import psycopg
import pymysql
import pytest

from support.postgres import PostgresServer
from tidegate.core.bounds import SequenceBound, TimeBound
from tidegate.core.ids import Connection
from tidegate.errors import EdgeUnknown, SourceUnavailable
from tidegate.sources.database import Database

if TYPE_CHECKING:
    from support.mariadb import MariadbServer

pytest_plugins = ["support.mariadb"]
SEQUENCE = "sequence"


@dataclass(frozen=True, kw_only=True)
class Sample:
    """How long is written, by how many writers a table."""

    seconds: float
    writers: int


@pytest.fixture(
    params=[Sample(seconds=2, writers=2), pytest.param(Sample(seconds=30, writers=4), marks=pytest.mark.exhaustive)]
)
def sample(request) -> Sample:
    return request.param


class Server(Protocol):
    """A database of its own for one kind of transaction."""

    def url_of(self, table: str) -> str:
        """Where a table is."""

    def rows(self, table: str) -> list[int]:
        """The ids that are committed."""


@dataclass(kw_only=True)
class Loader:
    """Window after window of one table."""

    url: str
    table: str
    at: str
    bound: str | None = None
    seen: Counter[int] = field(default_factory=Counter)
    windows: int = 0

    def load(self) -> None:
        """Reads from the last bound to the next; nothing where no bound is known."""
        with suppress(EdgeUnknown, SourceUnavailable):  # the latter of a DuckDB file that is being written
            self._load()

    def _load(self) -> None:
        wait = timedelta(milliseconds=200)
        bound = SequenceBound(column="id", wait=wait) if self.at == "id" else TimeBound(column=self.at)
        with Database(connection=Connection(name="shop", url=self.url), table=self.table).probe(bound=bound) as probe:
            edge = probe.edge()
            if edge.upto is None or edge.upto == self.bound:
                return
            low = [f"{self.at} > {self._value(self.bound)}"] if self.bound is not None else []
            where = " AND ".join([*low, f"{self.at} <= {self._value(edge.upto)}"])
            self.seen.update(row[0] for row in probe.session.rows(f"SELECT id FROM {self.table} WHERE {where}"))
            self.bound = edge.upto
            self.windows += 1

    def _value(self, text: str) -> str:
        if self.at == "id":
            return text
        return f"'{text}'" if self.url.startswith(("mariadb", "sqlite")) else f"'{text}+00'::timestamptz"


@dataclass(kw_only=True)
class Result:
    """What became of the rows of one combination."""

    source: str
    cursor: str
    kind: str
    rows: int
    lost: int
    twice: int
    windows: int


RESULTS: list[Result] = []


@pytest.fixture(scope="module", autouse=True)
def table_of_results(request) -> Iterator[None]:
    """Prints the combinations once all have run."""
    yield
    lines = [f"\n{'source':<12}{'cursor':<24}{'transactions':<16}{'rows':>8}{'lost':>6}{'twice':>6}{'windows':>9}"]
    lines += [
        f"{r.source:<12}{r.cursor:<24}{r.kind:<16}{r.rows:>8}{r.lost:>6}{r.twice:>6}{r.windows:>9}" for r in RESULTS
    ]
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print("\n".join(lines))


def run(server: Server, kind: str, writers: Sequence[Callable[[], None]], tables: Mapping[str, str]) -> None:
    """Windows of every table while all the writers write, and after them, until every row had its time."""
    loaders = {
        cursor: Loader(url=server.url_of(table), table=table, at="id" if cursor == SEQUENCE else "seen")
        for cursor, table in tables.items()
    }
    with ThreadPoolExecutor(len(writers) + 1) as pool:
        writing = [pool.submit(write) for write in writers]
        while not all(one.done() for one in writing):
            for loader in loaders.values():
                loader.load()
        for one in writing:
            one.result()
    time.sleep(2.2)  # the last bound is a second before the clock, in whole seconds at some sources
    for loader in loaders.values():
        loader.load()
    found = []
    for cursor, loader in loaders.items():
        source = loader.url.partition(":")[0]
        rows = set(server.rows(loader.table))
        twice = sum(1 for times in loader.seen.values() if times > 1)
        lost = len(rows - loader.seen.keys())
        found.append(
            Result(
                source=source, cursor=cursor, kind=kind, rows=len(rows), lost=lost, twice=twice, windows=loader.windows
            )
        )
    RESULTS.extend(found)
    assert all(each.rows for each in found), found
    assert not [each for each in found if each.lost or each.twice]


# PostgreSQL

POSTGRES_CURSORS = {
    "now()": "now()",
    "statement_timestamp()": "statement_timestamp()",
    "clock_timestamp()": "clock_timestamp()",
    "trigger": None,
    SEQUENCE: "now()",
}


@dataclass(kw_only=True)
class Postgres:
    """A database of the test server."""

    url: str
    tables: dict[str, str] = field(default_factory=dict)

    def url_of(self, table: str) -> str:
        return self.url

    def connect(self, **options: Any) -> psycopg.Connection:
        return psycopg.connect(self.url, autocommit=True, **options)

    def rows(self, table: str) -> list[int]:
        with self.connect() as connection:
            return [row[0] for row in connection.execute(f"SELECT id FROM {table}")]

    def make(self, *, always: bool = False) -> None:
        """A table for each way to set a cursor; `always`: by a trigger that fires for replicated rows, too."""
        with self.connect() as connection:
            for number, (cursor, time_of) in enumerate(POSTGRES_CURSORS.items()):
                table = self.tables[cursor] = f"t{number}"
                default = "" if time_of is None or always else f"DEFAULT {time_of}"
                connection.execute(
                    f"CREATE TABLE {table} (id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, n int, "
                    f"seen timestamptz {default})"
                )
                if default:
                    continue
                connection.execute(
                    f"CREATE FUNCTION stamp_{table}() RETURNS trigger LANGUAGE plpgsql AS "
                    f"$$ BEGIN NEW.seen := {time_of or 'clock_timestamp()'}; RETURN NEW; END $$"
                )
                connection.execute(
                    f"CREATE TRIGGER stamp BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION stamp_{table}()"
                )
                if always:
                    connection.execute(f"ALTER TABLE {table} ENABLE ALWAYS TRIGGER stamp")


@dataclass(kw_only=True)
class Writing:
    """One writer of one table.

    Args:
        pause: a moment of at most so many seconds.
    """

    table: str
    until: float
    random: random.Random
    number: int = 0

    @property
    def going(self) -> bool:
        return time.monotonic() < self.until

    def pause(self, most: float) -> None:
        time.sleep(self.random.random() * most)

    @property
    def insert(self) -> str:
        self.number += 1
        return f"INSERT INTO {self.table} (n) VALUES ({self.number})"


def pg_autocommit(there: psycopg.Connection, w: Writing) -> None:
    while w.going:
        there.execute(w.insert)
        w.pause(0.02)


def pg_transaction(there: psycopg.Connection, w: Writing) -> None:
    while w.going:
        there.execute("BEGIN")
        w.pause(0.3)
        for _ in range(w.random.randint(1, 50)):
            there.execute(w.insert)
            w.pause(0.06)
        there.execute(w.random.choice(["COMMIT", "COMMIT", "COMMIT", "ROLLBACK"]) if w.going else "COMMIT")


def pg_savepoint(there: psycopg.Connection, w: Writing) -> None:
    while w.going:
        there.execute("BEGIN")
        for _ in range(w.random.randint(1, 40)):
            there.execute("SAVEPOINT s")
            there.execute(w.insert)
            w.pause(0.05)
            there.execute(w.random.choice(["RELEASE s", "RELEASE s", "ROLLBACK TO s"]))
        there.execute(w.insert)
        there.execute("COMMIT")


def pg_block(there: psycopg.Connection, w: Writing) -> None:
    while w.going:
        there.execute(
            f"DO $$ BEGIN FOR i IN 1..{w.random.randint(60, 120)} LOOP {w.insert}; COMMIT; "
            "PERFORM pg_sleep(random() * 0.04); END LOOP; END $$"
        )


def pg_procedure(there: psycopg.Connection, w: Writing) -> None:
    name = f"fill_{w.table}_{there.info.backend_pid}"
    there.execute(
        f"CREATE PROCEDURE {name}(rows int) LANGUAGE plpgsql AS $$ BEGIN FOR i IN 1..rows LOOP {w.insert}; "
        "PERFORM pg_sleep(random() * 0.03); IF i % 7 = 0 THEN COMMIT; ELSIF i % 11 = 0 THEN ROLLBACK; END IF; "
        "END LOOP; END $$"
    )
    while w.going:
        there.execute(f"CALL {name}({w.random.randint(20, 150)})")


def pg_message(there: psycopg.Connection, w: Writing) -> None:
    """Several transactions in one message: the time of each is that of the message."""
    while w.going:
        one = "BEGIN; {}; SELECT pg_sleep({}); COMMIT; SELECT pg_sleep({})"
        pauses = [(w.random.random() / 20, w.random.random() / 20) for _ in range(w.random.randint(5, 60))]
        parts = [one.format(w.insert, *pause) for pause in pauses]
        there.execute("; ".join(parts))


def pg_prepared(there: psycopg.Connection, w: Writing) -> None:
    while w.going:
        there.execute("BEGIN")
        for _ in range(w.random.randint(1, 30)):
            there.execute(w.insert)
            w.pause(0.04)
        there.execute(f"PREPARE TRANSACTION '{w.table} {w.number}'")
        w.pause(0.1)
        there.execute(f"COMMIT PREPARED '{w.table} {w.number}'")
        w.pause(0.4)


def pg_copy(there: psycopg.Connection, w: Writing) -> None:
    while w.going:
        with there.cursor() as cursor, cursor.copy(f"COPY {w.table} (n) FROM STDIN") as copy:
            for number in range(w.random.randint(5, 200)):
                copy.write_row((number,))
                if number % 10 == 0:
                    w.pause(0.2)


POSTGRES_KINDS = {
    each.__name__.removeprefix("pg_"): each
    for each in (
        pg_autocommit,
        pg_transaction,
        pg_savepoint,
        pg_block,
        pg_procedure,
        pg_message,
        pg_prepared,
        pg_copy,
    )
}


def pg_writers(there: Postgres, kind: str, tables: Mapping[str, str], sample: Sample) -> list[Callable[[], None]]:
    """The writers of every table, each with a connection of its own."""
    until = time.monotonic() + sample.seconds

    def writer(table: str, seed: int) -> Callable[[], None]:
        def write() -> None:
            with there.connect() as connection:
                POSTGRES_KINDS[kind](
                    connection, Writing(table=table, until=until, random=random.Random(f"{table} {seed}"))
                )

        return write

    return [writer(table, seed) for table in tables.values() for seed in range(sample.writers)]


@pytest.mark.postgres
@pytest.mark.parametrize("kind", POSTGRES_KINDS)
def test_postgresql(pg_url: str, kind: str, sample: Sample) -> None:
    there = Postgres(url=pg_url)
    there.make()
    run(there, kind, pg_writers(there, kind, there.tables, sample), there.tables)


@pytest.mark.postgres
@pytest.mark.parametrize("kind", ["autocommit", "transaction", "block"])
def test_postgresql_by_an_apply_worker(postgres: PostgresServer, pg_url: str, kind: str, sample: Sample) -> None:
    """A table that a subscription fills, its cursor set here by a trigger that fires for such rows, too."""
    publisher = Postgres(url=postgres.create_database())
    there, name = Postgres(url=pg_url), f"s{time.time_ns()}"
    publisher.make()
    there.make(always=True)
    with publisher.connect() as one, there.connect() as two:
        one.execute("CREATE PUBLICATION p FOR ALL TABLES")
        one.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [name])
        two.execute(
            f"CREATE SUBSCRIPTION {name} CONNECTION '{publisher.url}' PUBLICATION p "
            f"WITH (create_slot = false, slot_name = {name}, copy_data = false)"
        )
        try:
            tables = {cursor: table for cursor, table in there.tables.items() if cursor != SEQUENCE}

            def arrived() -> None:
                """Beside the writers, until the last row has come."""
                deadline = time.monotonic() + sample.seconds + 60
                time.sleep(sample.seconds)
                while any(len(there.rows(t)) < len(publisher.rows(t)) for t in tables.values()):
                    assert time.monotonic() < deadline
                    time.sleep(0.2)

            run(there, f"apply {kind}", [*pg_writers(publisher, kind, tables, sample), arrived], tables)
        finally:
            two.execute(f"ALTER SUBSCRIPTION {name} DISABLE")
            two.execute(f"ALTER SUBSCRIPTION {name} SET (slot_name = NONE)")
            two.execute(f"DROP SUBSCRIPTION {name}")
            _until(lambda: not one.execute("SELECT FROM pg_replication_slots WHERE active").fetchall())
            one.execute("SELECT pg_drop_replication_slot(%s)", [name])
    postgres.drop_database(publisher.url.rsplit("/", 1)[1])


def _until(fulfilled: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not fulfilled():
        assert time.monotonic() < deadline
        time.sleep(0.1)


# MariaDB

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


@pytest.mark.slow
@pytest.mark.usefixtures("scheduler")
@pytest.mark.parametrize("kind", MARIADB_KINDS)
def test_mariadb(mariadb: MariadbServer, maria_database: str, kind: str, sample: Sample) -> None:
    there = Mariadb(server=mariadb, database=maria_database)
    there.make()
    until = time.monotonic() + sample.seconds

    def writer(cursor: str, table: str, seed: int) -> Callable[[], None]:
        def write() -> None:
            w = Writing(table=table, until=until, random=random.Random(f"{table} {seed}"))
            with mariadb.connect(maria_database, client_flag=pymysql.constants.CLIENT.MULTI_STATEMENTS) as connection:
                MARIADB_KINDS[kind](MariadbWriter(connection, w, updates=cursor == "ON UPDATE"), w)
                _until(lambda: not _events(connection))

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


# SQLite

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


# DuckDB: who writes has the file to itself, so windows are read while nobody does

DUCKDB_CURSORS = {
    "now()": "now()",
    "current_timestamp": "current_timestamp",
    "get_current_timestamp()": "get_current_timestamp()",
    SEQUENCE: "now()",
}
DUCKDB_WRITER = """
import random, sys, time
import duckdb
file, table, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
until = time.monotonic() + seconds
while time.monotonic() < until:
    try:
        there = duckdb.connect(file)
    except duckdb.IOException:
        time.sleep(0.02)
        continue
    for _ in range(random.randint(1, 3)):
        there.execute("BEGIN")
        for n in range(random.randint(1, 60)):
            there.execute(f"INSERT INTO {table} (n) VALUES ({n})")
            time.sleep(random.random() * 0.01)
        there.execute(random.choice(["COMMIT", "COMMIT", "COMMIT", "ROLLBACK"]))
        there.execute(f"INSERT INTO {table} (n) VALUES (0)")
    there.close()
    time.sleep(random.random() * 0.3)
"""


@dataclass(kw_only=True)
class Duckdb:
    """Files, one for each table."""

    folder: Path
    tables: dict[str, str] = field(default_factory=dict)

    def url_of(self, table: str) -> str:
        return f"duckdb:///{self.folder / f'{table}.duckdb'}"

    def rows(self, table: str) -> list[int]:
        with duckdb.connect(str(self.folder / f"{table}.duckdb"), read_only=True) as connection:
            return [row[0] for row in connection.execute(f"SELECT id FROM {table}").fetchall()]

    def make(self) -> None:
        for number, (cursor, time_of) in enumerate(DUCKDB_CURSORS.items()):
            table = self.tables[cursor] = f"t{number}"
            with duckdb.connect(str(self.folder / f"{table}.duckdb")) as connection:
                connection.execute("CREATE SEQUENCE s")
                connection.execute(
                    f"CREATE TABLE {table} (id bigint DEFAULT nextval('s') PRIMARY KEY, n int, "
                    f"seen timestamptz DEFAULT {time_of})"
                )


def test_duckdb(tmp_path: Path, sample: Sample) -> None:
    there = Duckdb(folder=tmp_path)
    there.make()

    def writer(table: str) -> Callable[[], None]:
        command = [sys.executable, "-c", DUCKDB_WRITER, str(tmp_path / f"{table}.duckdb"), table, str(sample.seconds)]
        return lambda: subprocess.run(command, check=True, timeout=300)

    run(there, "sessions", [writer(table) for table in there.tables.values()], there.tables)
