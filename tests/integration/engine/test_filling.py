"""A column that comes to a source is filled for rows that were loaded before it, if the contract says so."""

from __future__ import annotations

import psycopg
import pytest

from support.lake import QUICK, delta_rows
from support.workspace import SqliteShop, Workspace
from tidegate.core.outcome import Result
from tidegate.engine.backfill.backfill import Request
from tidegate.engine.events import Moment, Stage
from tidegate.testing import Crash, crash_at

pytestmark = pytest.mark.spark
STREAM = {
    "source": {"connection": "shop", "table": "t"},
    "target": "lake.out.t",
    "key": ["id"],
    "strategy": {"kind": "watermark", "column": "at"},
    "write": "merge",
    "contract": {"add_column": "fill"},
}
TABLE = (
    "create table t (id integer not null primary key, at timestamp not null)",
    "insert into t values (1, '2025-01-01 00:00:00'), (2, '2025-01-02 00:00:00'), (3, '2025-01-03 00:00:00')",
)
COME = ("alter table t add column size integer default 7", "update t set size = null where id = 2")


@pytest.mark.parametrize("lake_format", ["iceberg", pytest.param("delta", marks=pytest.mark.exhaustive)])
def test_old_rows_get_the_values_of_a_new_column(tmp_path, spark, lake_format):
    shop, workspace = SqliteShop(path=tmp_path / "shop.db"), Workspace(folder=tmp_path)
    shop.sql(*TABLE)
    workspace.write(
        {"t": STREAM},
        connections={"shop": {"url": shop.url}},
        lakes={"lake": {"format": lake_format}},
        spark={"conf": QUICK},
    )

    def sizes() -> dict[int, int | None]:
        found = workspace.rows("out.t") if lake_format == "iceberg" else delta_rows(str(tmp_path / "warehouse/out/t"))
        return {row["id"]: row["size"] for row in found}

    with workspace.project(spark) as project:
        assert project.run("t").streams[0].rows_read == 3
        shop.sql(*COME)
        (part,) = project.plan("t").streams[0].slices
        assert ("every row is read again" in part.reason, part.rows) == (True, 3)
        outcome = project.run("t").streams[0]
        assert (outcome.error, outcome.rows_read, outcome.verified) == (None, 3, True)
        assert sizes() == {1: 7, 2: None, 3: 7}
        assert project.run("t").streams[0].outcome is Result.UNCHANGED
        shop.sql("insert into t values (4, '2025-01-04 00:00:00', 9)")
        assert project.run("t").streams[0].rows_read == 1, "the next load goes on from where the table stands"
        assert project.verify("t", level="rows").streams[0].equal


def test_a_load_that_failed_after_the_table_had_the_column_has_not_filled_it(tmp_path, spark):
    shop, workspace = SqliteShop(path=tmp_path / "shop.db"), Workspace(folder=tmp_path)
    shop.sql(*TABLE)
    workspace.write({"t": STREAM}, connections={"shop": {"url": shop.url}}, spark={"conf": QUICK})

    with workspace.project(spark) as project:
        project.run("t")
        shop.sql(*COME)
        with pytest.raises(Crash):
            project.run("t", on_event=crash_at((Stage.VERIFY, Moment.START)))
    with workspace.project(spark) as project:
        assert set(workspace.rows("out.t")[0]) == {"id", "at", "size"}
        (outcome,) = project.run("t").streams
        assert (outcome.error, outcome.rows_read) == (None, 3)
    assert {row["id"]: row["size"] for row in workspace.rows("out.t")} == {1: 7, 2: None, 3: 7}


MERGED = {1: 7, 2: None, 3: 7}


def sizes_of(workspace: Workspace) -> dict[int, int | None]:
    return {row["id"]: row["size"] for row in workspace.rows("out.t")}


@pytest.mark.slow
def test_backfill_of_some_rows_has_not_filled_the_others(tmp_path, spark):
    shop, workspace = SqliteShop(path=tmp_path / "shop.db"), Workspace(folder=tmp_path)
    shop.sql(*TABLE)
    workspace.write({"t": STREAM}, connections={"shop": {"url": shop.url}}, spark={"conf": QUICK})
    with workspace.project(spark) as project:
        project.run("t")
        shop.sql(*COME)
        project.backfills.start("t", Request(begin="2025-01-01", end="2025-01-02"))
        assert sizes_of(workspace) == {1: 7, 2: None, 3: None}
        project.backfills.start("t", Request(begin="2025-01-01", end="2025-01-03"))
        assert project.plan("t").streams[0].rows == 3
        (outcome,) = project.run("t").streams
        assert (outcome.error, outcome.rows_read) == (None, 3)
        assert sizes_of(workspace) == MERGED
        assert project.verify("t", level="rows").streams[0].equal
        assert project.run("t").streams[0].outcome is Result.UNCHANGED
        shop.sql("alter table t add column depth integer default 1")
        project.backfills.start("t", Request(begin="2025-01-01", end="2025-01-02"))
        assert project.run("t").streams[0].rows_read == 3
        assert {row["depth"] for row in workspace.rows("out.t")} == {1}


def test_repair_of_some_rows_has_not_filled_the_others(tmp_path, spark):
    """A repair that says every row differs mends them all; one of a few leaves the rest to the next load."""
    shop, workspace = SqliteShop(path=tmp_path / "shop.db"), Workspace(folder=tmp_path)
    shop.sql(*TABLE)
    workspace.write({"t": STREAM}, connections={"shop": {"url": shop.url}}, spark={"conf": QUICK})
    with workspace.project(spark) as project:
        project.run("t")
        shop.sql("alter table t add column size integer", "update t set size = 7 where id = 1")
        project.verify("t", level="rows", repair=True)
        shop.sql("update t set size = 8 where id = 3")
        (outcome,) = project.run("t").streams
        assert (outcome.error, outcome.rows_read) == (None, 3)
        assert sizes_of(workspace) == {1: 7, 2: None, 3: 8}


@pytest.mark.postgres
def test_column_that_comes_to_postgresql_is_filled(tmp_path, spark, pg_url):
    workspace = Workspace(folder=tmp_path)

    def sql(*statements: str) -> None:
        with psycopg.connect(pg_url, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)

    sql(*TABLE)
    workspace.write({"t": STREAM}, connections={"shop": {"url": pg_url}}, spark={"conf": QUICK})
    with workspace.project(spark) as project:
        assert project.run("t").streams[0].rows_read == 3
        sql(*COME)
        assert project.plan("t").streams[0].rows == 3
        (outcome,) = project.run("t").streams
        assert (outcome.error, outcome.rows_read, outcome.verified) == (None, 3, True)
        assert sizes_of(workspace) == MERGED
        assert project.run("t").streams[0].outcome is Result.UNCHANGED


@pytest.mark.postgres
def test_load_that_was_never_verified_is_proven_before_the_next_one_on_postgresql(tmp_path, spark, pg_url):
    """On Delta a load is seen before it is verified, so what a crash left is compared first."""
    workspace = Workspace(folder=tmp_path)
    with psycopg.connect(pg_url, autocommit=True) as connection:
        for statement in TABLE:
            connection.execute(statement)
    workspace.write(
        {"t": STREAM}, connections={"shop": {"url": pg_url}}, lakes={"lake": {"format": "delta"}}, spark={"conf": QUICK}
    )
    with workspace.project(spark) as project, pytest.raises(Crash):
        project.run("t", on_event=crash_at((Stage.VERIFY, Moment.START)))
    with psycopg.connect(pg_url, autocommit=True) as connection:
        connection.execute("insert into t values (4, '2025-01-04 00:00:00')")
    with workspace.project(spark) as project:
        (outcome,) = project.run("t").streams
        assert (outcome.error, outcome.rows_read, outcome.verified) == (None, 1, True)
    assert {row["id"] for row in delta_rows(str(tmp_path / "warehouse/out/t"))} == {1, 2, 3, 4}
