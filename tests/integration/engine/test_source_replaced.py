"""A table of the source is emptied and filled again, or the source restored, while a load reads it.

Either the load shows one state of the source, or it stops: never a mixture, and never rows that nobody had.
"""

from __future__ import annotations

import shutil
import threading
import time
from contextlib import contextmanager, suppress
from functools import partial

import psycopg
import pytest

from integration.network.conftest import at
from support.postgres import PostgresServer
from support.workspace import SqliteShop, Workspace
from tidegate.core.outcome import Result
from tidegate.engine.events import Moment, Stage

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

FULL = {"key": ["id"], "strategy": "full", "write": "merge", "deletes": {"max_fraction": 1.0}}
NEW = {"strategy": {"kind": "sequence", "column": "id"}, "write": "append"}
FIRST, ALL = 500, 1_000


def workspace_of(folder, url, stream):
    made = Workspace(folder=folder)
    values = {"source": {"connection": "shop", "table": "numbers"}, "target": "lake.shop.numbers", **stream}
    made.write({"numbers": values}, connections={"shop": {"url": url}})
    return made


def run(workspace, spark, **options):
    return workspace.run(spark=spark, **options).streams[0]


def shown(workspace):
    return sorted((row["id"], row["name"]) for row in workspace.rows("shop.numbers"))


def rows(first, last, name="n"):
    return [(number, f"{name}{number}") for number in range(first, last + 1)]


def add(name, count):
    """A statement that adds so many rows, told apart by the name."""
    return f"insert into numbers (name) select '{name}' || i from generate_series(1, {count}) as s(i)"


@pytest.fixture
def shop(pg_url):
    with psycopg.connect(pg_url, autocommit=True) as admin:
        admin.execute("create table numbers (id bigint generated always as identity primary key, name text)")
        admin.execute("create view seen as select id, name from numbers")
        admin.execute(add("n", FIRST).encode())
    return pg_url


@contextmanager
def refilled(url, *, after):
    """Empties the table and fills it with other rows, in one transaction that stays open for a while."""

    def work():
        with psycopg.connect(url) as writer:
            writer.execute("truncate numbers restart identity")
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
    ("first", "source"),
    [
        (True, {"table": "numbers"}),
        (False, {"table": "numbers"}),
        (False, {"table": "seen"}),
        (False, {"query": "select id, name from numbers"}),
    ],
    ids=["first load of a table", "table", "view", "query"],
)
def test_what_is_being_emptied_and_filled_is_not_read_as_empty(tmp_path, spark, shop, first, source):
    """The load gets its lock once the other transaction has ended, and must see what it has written."""
    stream = {**FULL, "source": {"connection": "shop", **source}}
    if "query" in source:  # nothing but the rows themselves tells that they are others
        stream["strategy"] = "snapshot_diff"
    workspace = workspace_of(tmp_path, shop, stream)
    if not first:
        assert run(workspace, spark).outcome is Result.LOADED
    with refilled(shop, after=2) as begin:
        begin()
        outcome = run(workspace, spark)
    assert outcome.error is None, outcome.error
    assert shown(workspace) == rows(1, ALL, "again")
    assert run(workspace, spark).outcome is Result.UNCHANGED


@pytest.mark.postgres
@pytest.mark.slow
@pytest.mark.parametrize(
    ("stage", "moment"),
    [
        (Stage.DETECT, Moment.DONE),
        pytest.param(Stage.READ, Moment.DONE, marks=pytest.mark.exhaustive),
        pytest.param(Stage.CHECK, Moment.DONE, marks=pytest.mark.exhaustive),
        pytest.param(Stage.WRITE, Moment.DONE, marks=pytest.mark.exhaustive),
    ],
)
def test_a_table_that_is_emptied_while_it_is_read_is_one_state_or_the_other(tmp_path, spark, shop, stage, moment):
    """TRUNCATE waits for the load, and what Spark asks would wait for TRUNCATE for ever."""
    workspace = workspace_of(tmp_path, shop, FULL)
    assert run(workspace, spark).outcome is Result.LOADED
    with psycopg.connect(shop, autocommit=True) as admin:
        admin.execute(add("n", FIRST).encode())
    with refilled(shop, after=0) as begin:
        outcome = run(workspace, spark, on_event=at(stage, moment, begin))
    before = rows(1, FIRST) + [(FIRST + n, f"n{n}") for n in range(1, FIRST + 1)]
    assert outcome.error is None, outcome.error
    assert shown(workspace) in (before, rows(1, ALL, "again"))
    assert run(workspace, spark).error is None
    assert shown(workspace) == rows(1, ALL, "again")


@pytest.mark.postgres
@pytest.mark.parametrize("stage", [Stage.DETECT, pytest.param(Stage.READ, marks=pytest.mark.exhaustive)])
def test_a_table_that_is_changed_while_it_is_read(tmp_path, spark, shop, stage):
    """The statement waits for the load to end, or the load tells that it waits; the columns come with the next one."""
    workspace = workspace_of(tmp_path, shop, FULL)
    assert run(workspace, spark).outcome is Result.LOADED
    with psycopg.connect(shop, autocommit=True) as admin:
        admin.execute(add("n", FIRST).encode())

    def alter():
        with psycopg.connect(shop, autocommit=True) as admin:
            admin.execute("set lock_timeout = '10s'")  # as migrations should
            with suppress(psycopg.errors.LockNotAvailable):
                admin.execute("alter table numbers add column more int default 7")

    thread = threading.Thread(target=alter)
    outcome = run(workspace, spark, on_event=at(stage, Moment.DONE, thread.start))
    thread.join(60)
    assert outcome.error is None, outcome.error
    assert run(workspace, spark).error is None
    with psycopg.connect(shop) as admin:
        assert shown(workspace) == sorted(admin.execute("select id, name from numbers").fetchall())
        (width,) = admin.execute(
            "select count(*) from pg_attribute where attrelid = 'numbers'::regclass and attnum > 0"
        )
    assert len(workspace.table("shop.numbers").schema().fields) == width[0]


@pytest.fixture
def server():
    made = PostgresServer.new(autovacuum="off", fsync="on", synchronous_commit="on", checkpoint_timeout="1h")
    yield made
    made.drop()


@pytest.mark.postgres
@pytest.mark.slow
@pytest.mark.parametrize(
    "stage",
    [
        pytest.param(Stage.DETECT, marks=pytest.mark.exhaustive),
        Stage.READ,
        pytest.param(Stage.CHECK, marks=pytest.mark.exhaustive),
        pytest.param(Stage.WRITE, marks=pytest.mark.exhaustive),
        pytest.param(Stage.VERIFY, marks=pytest.mark.exhaustive),
    ],
)
def test_a_server_that_is_restored_during_a_load(tmp_path, spark, server, stage):
    url = server.create_database()

    def write(name, count):
        with psycopg.connect(url, autocommit=True) as admin:
            admin.execute(add(name, count).encode())

    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute("create table numbers (id bigint generated always as identity primary key, name text)")
    write("old", 10)
    server.stop("fast")
    copy = server.folder / "copy"
    server.copy_to(copy)
    server.start(fsync="on")
    write("lost", FIRST)
    workspace = workspace_of(tmp_path, url, NEW)
    assert run(workspace, spark).outcome is Result.LOADED
    write("lost too", FIRST)

    def restore():
        server.stop()
        server.put_back(copy)
        server.start(fsync="on")
        write("new", 2 * ALL)

    before = shown(workspace)
    outcome = run(workspace, spark, on_event=at(stage, Moment.START, restore))
    if outcome.error is not None:
        assert outcome.error.code == "history_gone", outcome.error
        assert shown(workspace) == before
    else:
        assert len(shown(workspace)) == 10 + 2 * FIRST
    assert run(workspace, spark).error.code == "history_gone"
    with workspace.project(spark) as project:
        (again,) = project.resync("numbers", replace=True).streams
    assert again.error is None, again.error
    with psycopg.connect(url) as admin:
        assert shown(workspace) == sorted(admin.execute("select id, name from numbers").fetchall())


def overwritten(shop, backup):
    """As `cp` restores a file."""
    shutil.copyfile(backup, shop.path)


def replaced(shop, backup):
    """As `mv` does."""
    shutil.copyfile(backup, backup.with_suffix(".copy"))
    backup.with_suffix(".copy").replace(shop.path)


@pytest.mark.parametrize(
    "stage",
    [
        Stage.READ,
        *(
            pytest.param(each, marks=pytest.mark.exhaustive)
            for each in (Stage.DETECT, Stage.CHECK, Stage.WRITE, Stage.VERIFY)
        ),
    ],
)
@pytest.mark.parametrize("how", [overwritten, replaced])
@pytest.mark.parametrize("stream", [FULL, NEW], ids=["full", "sequence"])
def test_a_file_that_is_restored_during_a_load(tmp_path, spark, stage, how, stream):
    shop, backup = SqliteShop(path=tmp_path / "shop.db"), tmp_path / "backup.db"
    fill = "with recursive s(i) as (select 1 union all select i + 1 from s where i < {}) insert into numbers (name) "
    fill += "select '{}' || i from s"
    shop.sql("create table numbers (id integer primary key autoincrement, name text)", fill.format(10, "old"))
    shutil.copyfile(shop.path, backup)
    shop.sql(fill.format(FIRST, "lost"))
    workspace = workspace_of(tmp_path, shop.url, stream)
    assert run(workspace, spark).outcome is Result.LOADED
    shop.sql(fill.format(FIRST, "lost too"))
    before, whole = shown(workspace), shop.rows("select id, name from numbers order by id")
    outcome = run(workspace, spark, on_event=at(stage, Moment.START, partial(how, shop, backup)))
    after = shop.rows("select id, name from numbers order by id")
    assert len(after) == 10
    allowed = [before, whole] if stream is NEW else [before, whole, after]
    assert shown(workspace) in allowed, outcome
    if outcome.error is not None:
        # While it is overwritten it may be anything, or nothing at all.
        broken = ("source", "source_unavailable", "column_missing")
        assert outcome.error.code in ("history_gone", "source_moved", "verify_failed", *broken)
        assert shown(workspace) == before
    again = run(workspace, spark)
    if again.error is not None:
        assert again.error.code == "history_gone"
        with workspace.project(spark) as project:
            (again,) = project.resync("numbers", replace=True).streams
        assert again.error is None, again.error
    assert shown(workspace) == after
