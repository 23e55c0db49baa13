"""Columns that the contract does not let into a table are kept beside it, and the rest is proven as ever."""

from __future__ import annotations

import json

import pytest

from support.lake import QUICK, delta_rows
from support.workspace import SqliteShop, Workspace
from tidegate.core.outcome import Result

pytestmark = pytest.mark.spark
STREAM = {
    "source": {"connection": "shop", "table": "t"},
    "target": "lake.out.t",
    "key": ["id"],
    "strategy": {"kind": "watermark", "column": "at"},
    "write": "merge",
    "contract": {"add_column": "rescue"},
}


@pytest.mark.parametrize("lake_format", ["iceberg", pytest.param("delta", marks=pytest.mark.slow)])
def test_new_columns_go_into_one(tmp_path, spark, lake_format):
    shop, workspace = SqliteShop(path=tmp_path / "shop.db"), Workspace(folder=tmp_path)
    shop.sql(
        "create table t (id integer not null primary key, name text, at timestamp not null)",
        "insert into t values (1, 'a', '2025-01-01 00:00:00'), (2, 'b', '2025-01-02 00:00:00')",
    )
    lakes, settings = {"lake": {"format": lake_format}}, {"conf": QUICK}
    workspace.write({"t": STREAM}, connections={"shop": {"url": shop.url}}, lakes=lakes, spark=settings)

    def rows() -> dict[int, dict]:
        found = workspace.rows("out.t") if lake_format == "iceberg" else delta_rows(str(tmp_path / "warehouse/out/t"))
        return {row["id"]: row for row in found}

    with workspace.project(spark) as project:
        assert project.run("t").streams[0].rows_read == 2
        assert set(rows()[1]) == {"id", "name", "at"}, "a table that is not there yet gets every column"
        shop.sql(
            "alter table t add column price decimal(9,2)",
            """alter table t add column "odd ${name}'s" text""",
            "insert into t values (3, 'c', '2025-01-03 00:00:00', 1.5, 'x\"y'), (4, 'd', '2025-01-03', null, null)",
            "update t set price = 7, at = '2025-01-04 00:00:00' where id = 1",
        )
        planned = project.plan("t").streams[0]
        assert [(change["kind"], change["column"]) for change in planned.to_dict()["schema_changes"]] == [
            ("add_column", "_rescued")
        ]
        outcome = project.run("t").streams[0]
        assert (outcome.error, outcome.rows_read, outcome.verified) == (None, 3, True)
        assert "not covered by the fingerprint: _rescued" in outcome.notes
        found = rows()
        assert set(found[1]) == {"id", "name", "at", "_rescued"}
        assert {key: row["_rescued"] and json.loads(row["_rescued"]) for key, row in found.items()} == {
            1: {"price": "7.00"},
            2: None,
            3: {"price": "1.50", "odd ${name}'s": 'x"y'},
            4: None,
        }
        assert project.run("t").streams[0].outcome is Result.UNCHANGED
        compared = project.verify("t", level="rows").streams[0]
        assert (compared.equal, compared.columns_not_covered) == (True, ("_rescued",))
        # A value of a column of the table is proven as ever.
        shop.sql("update t set name = 'silently' where id = 2")
        assert not project.verify("t").streams[0].equal
        repaired = project.verify("t", repair=True).streams[0]
        assert (repaired.error, repaired.equal, rows()[2]["name"]) == (None, True, "silently")


def test_only_where_it_can_be_done(tmp_path):
    workspace = Workspace(folder=tmp_path)
    files = {**STREAM, "source": {"path": "in"}, "strategy": "files", "write": "append"}
    workspace.write({"t": {key: files[key] for key in files if key != "key"}}, connections={})
    said = workspace.cli("check", "--json")
    assert said.returncode == 2
    assert "for tables and queries of databases" in said.stdout
