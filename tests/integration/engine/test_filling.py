"""A column that comes to a source is filled for rows that were loaded before it, if the contract says so."""

from __future__ import annotations

import pytest

from support.lake import QUICK, delta_rows
from support.workspace import SqliteShop, Workspace
from tidegate.core.outcome import Result
from tidegate.sources.database import Database

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


@pytest.mark.parametrize("lake_format", ["iceberg", pytest.param("delta", marks=pytest.mark.slow)])
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


def test_a_load_that_failed_after_the_table_had_the_column_has_not_filled_it(tmp_path, spark, monkeypatch):
    shop, workspace = SqliteShop(path=tmp_path / "shop.db"), Workspace(folder=tmp_path)
    shop.sql(*TABLE)
    workspace.write({"t": STREAM}, connections={"shop": {"url": shop.url}}, spark={"conf": QUICK})

    def broken(*_: object) -> None:
        raise ValueError("the line went dead")

    with workspace.project(spark) as project:
        project.run("t")
        shop.sql(*COME)
        with monkeypatch.context() as patched:
            patched.setattr(Database, "read", broken)
            assert project.run("t").streams[0].error is not None
        assert set(workspace.rows("out.t")[0]) == {"id", "at", "size"}
        (outcome,) = project.run("t").streams
        assert (outcome.error, outcome.rows_read) == (None, 3)
    assert {row["id"]: row["size"] for row in workspace.rows("out.t")} == {1: 7, 2: None, 3: 7}
