"""A table of the source is emptied and filled again, or the source restored, while a load reads it.

Either the load shows one state of the source, or it stops: never a mixture, and never rows that nobody had.
"""

from __future__ import annotations

import shutil
import threading
import time
from contextlib import contextmanager, suppress

import psycopg
import pytest

from integration.engine.conftest import at
from support.postgres import PostgresServer
from support.shops import PostgresShop
from tidegate.core.outcome import Result
from tidegate.engine.events import Moment, Stage

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

FIRST, ALL = 500, 1_000
CREATE = "create table t (id bigint generated always as identity primary key, name text)"


def write(bench, strategy="full", **stream):
    bench.write(strategy, deletes={"max_fraction": 1.0}, **stream)


def append(bench):
    bench.write({"kind": "sequence", "column": "id"}, "append", key=())


def rows(first, last, name="n"):
    return [(number, f"{name}{number}") for number in range(first, last + 1)]


def add(name, count):
    """A statement that adds so many rows, told apart by the name."""
    return f"insert into t (name) select '{name}' || i from generate_series(1, {count}) as s(i)"


def shown(bench):
    return sorted(bench.rows("id", "name"))


@pytest.fixture
def numbers(pg_bench):
    pg_bench.sql(CREATE, "create view seen as select id, name from t", add("n", FIRST))
    return pg_bench


@contextmanager
def refilled(url, *, after):
    """Empties the table and fills it with other rows, in one transaction that stays open for a while."""

    def work():
        with psycopg.connect(url) as writer:
            writer.execute("truncate t restart identity")
            writer.execute(add("again", ALL).encode())
            begun.set()
            time.sleep(after)

    begun, thread = threading.Event(), threading.Thread(target=work)

    def begin():
        thread.start()
        begun.wait(1)  # else it waits for the load, which goes on

    yield begin
    thread.join(120)
    assert not thread.is_alive()


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("strategy", "source"),
    [("full", {"table": "t"}), ("full", {"table": "seen"}), ("snapshot_diff", {"query": "select id, name from t"})],
    ids=["table", "view", "query"],  # of a query nothing but the rows themselves tells that they are others
)
def test_what_is_being_emptied_and_filled_is_not_read_as_empty(numbers, strategy, source):
    """The load gets its lock once the other transaction has ended, and must see what it has written."""
    write(numbers, strategy, source={"connection": "shop", **source})
    if strategy != "full" or "seen" in source.values():  # the table itself is read by a first load
        assert numbers.run().outcome is Result.LOADED
    with refilled(numbers.shop.url, after=2) as begin:
        begin()
        outcome = numbers.run()
    assert outcome.error is None, outcome.error
    assert shown(numbers) == rows(1, ALL, "again")
    assert numbers.run().outcome is Result.UNCHANGED


@pytest.mark.postgres
def test_a_table_that_is_emptied_while_it_is_read_is_one_state_or_the_other(numbers):
    """TRUNCATE waits for the load, and what Spark asks would wait for TRUNCATE for ever."""
    write(numbers)
    assert numbers.run().outcome is Result.LOADED
    numbers.sql(add("n", FIRST))
    before = sorted(numbers.source())
    with refilled(numbers.shop.url, after=0) as begin:
        outcome = numbers.run(on_event=at(Stage.DETECT, Moment.DONE, begin))
    assert outcome.error is None, outcome.error
    assert shown(numbers) in (before, rows(1, ALL, "again"))
    assert numbers.run().error is None
    assert shown(numbers) == rows(1, ALL, "again")


@pytest.mark.postgres
def test_a_table_that_is_changed_while_it_is_read(numbers):
    """The statement waits for the load to end, or the load tells that it waits; the columns come with the next one."""
    write(numbers)
    assert numbers.run().outcome is Result.LOADED
    numbers.sql(add("n", FIRST))

    def alter():
        with psycopg.connect(numbers.shop.url, autocommit=True) as admin:
            admin.execute("set lock_timeout = '10s'")  # as migrations should
            with suppress(psycopg.errors.LockNotAvailable):
                admin.execute("alter table t add column more int default 7")

    thread = threading.Thread(target=alter)
    outcome = numbers.run(on_event=at(Stage.DETECT, Moment.DONE, thread.start))
    thread.join(60)
    assert outcome.error is None, outcome.error
    assert numbers.run().error is None
    assert shown(numbers) == sorted(numbers.source("id, name"))
    assert len(numbers.rows()[0]) == len(numbers.source()[0])


@pytest.fixture
def server():
    made = PostgresServer.new(autovacuum="off", fsync="on", synchronous_commit="on", checkpoint_timeout="1h")
    yield made
    made.drop()


def settled(bench):
    """A run stops, and a resync makes the table what the source is."""
    assert bench.refused()[0] == "history_gone"
    with bench.project() as project:
        (again,) = project.resync("t", replace=True).streams
    assert again.error is None, again.error
    assert shown(bench) == sorted(bench.source())


@pytest.mark.postgres
def test_a_server_that_is_restored_during_a_load(bench, server):
    bench.shop = PostgresShop(url=server.create_database())
    bench.sql(CREATE, add("old", 10))
    server.stop("fast")
    copy = server.folder / "copy"
    server.copy_to(copy)
    server.start(fsync="on")
    bench.sql(add("lost", FIRST))
    append(bench)
    assert bench.run().outcome is Result.LOADED
    bench.sql(add("lost too", FIRST))

    def restore():
        server.stop()
        server.put_back(copy)
        server.start(fsync="on")
        bench.sql(add("new", 2 * ALL))

    before = shown(bench)
    outcome = bench.run(on_event=at(Stage.READ, Moment.START, restore))
    if outcome.error is not None:
        assert outcome.error.code == "history_gone", outcome.error
        assert shown(bench) == before
    else:
        assert len(shown(bench)) == 10 + 2 * FIRST
    settled(bench)


@pytest.mark.parametrize(("how", "strategy"), [("cp", "full"), ("mv", "sequence")])
def test_a_file_that_is_restored_during_a_load(bench, how, strategy):
    fill = "with recursive s(i) as (select 1 union all select i + 1 from s where i < {}) insert into t (name) "
    fill += "select '{}' || i from s"
    backup, path = bench.folder / "backup.db", bench.shop.path
    bench.sql("create table t (id integer primary key autoincrement, name text)", fill.format(10, "old"))
    shutil.copyfile(path, backup)
    bench.sql(fill.format(FIRST, "lost"))
    append(bench) if strategy == "sequence" else write(bench)
    assert bench.run().outcome is Result.LOADED
    bench.sql(fill.format(FIRST, "lost too"))
    before, whole = shown(bench), sorted(bench.source())

    def restore():
        shutil.copyfile(backup, path if how == "cp" else backup.with_suffix(".copy"))
        if how == "mv":
            backup.with_suffix(".copy").replace(path)

    outcome = bench.run(on_event=at(Stage.READ, Moment.START, restore))
    after = sorted(bench.source())
    assert len(after) == 10
    assert shown(bench) in ([before, whole] if strategy == "sequence" else [before, whole, after]), outcome
    if outcome.error is not None:
        # While it is overwritten it may be anything, or nothing at all.
        broken = ("source", "source_unavailable", "column_missing")
        assert outcome.error.code in ("history_gone", "source_moved", "verify_failed", *broken)
        assert shown(bench) == before
    again = bench.run()
    if again.error is not None:
        settled(bench)
    assert shown(bench) == after
