"""Columns that the contract does not let into a table are kept beside it, and the rest is proven as ever."""

from __future__ import annotations

import json

import pytest

from support.lake import QUICK, delta_rows
from support.workspace import SqliteShop, Workspace
from tidegate.core.outcome import Result

pytestmark = [pytest.mark.spark, pytest.mark.slow]
STREAM = {
    "source": {"connection": "shop", "table": "t"},
    "target": "lake.out.t",
    "key": ["id"],
    "strategy": {"kind": "watermark", "column": "at"},
    "write": "merge",
    "contract": {"add_column": "rescue"},
}


@pytest.mark.parametrize("lake_format", ["iceberg", pytest.param("delta", marks=pytest.mark.exhaustive)])
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
            ("add_column", "_rescued"),
            ("add_column", "price"),
            ("add_column", "odd ${name}'s"),
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


def test_a_column_of_another_type_is_kept_beside_or_left_out(tmp_path, spark):
    shop, workspace = SqliteShop(path=tmp_path / "shop.db"), Workspace(folder=tmp_path)
    shop.sql(
        "create table t (id integer not null primary key, size integer, at timestamp not null)",
        "insert into t values (1, 10, '2025-01-01 00:00:00'), (2, 20, '2025-01-02 00:00:00')",
    )
    streams = {
        mode: {**STREAM, "target": f"lake.out.{mode}", "contract": {"type_change": mode, "add_column": "discard"}}
        for mode in ("rescue", "discard")
    }
    workspace.write(streams, connections={"shop": {"url": shop.url}}, spark={"conf": QUICK})
    with workspace.project(spark) as project:
        assert [outcome.rows_read for outcome in project.run().streams] == [2, 2]
        shop.sql(
            "alter table t add column extra text",
            "alter table t rename column size to was",
            "alter table t add column size text",
            "alter table t drop column was",
            "insert into t values (3, '2025-01-03 00:00:00', 'x', 'XL')",
        )
        outcomes = project.run().streams
        assert [(one.error, one.rows_read, one.verified) for one in outcomes] == [(None, 1, True)] * 2
        stands = [project.registry.position(stream.uid) for stream in project.streams()]
        recorded = [project.registry.plan(one.position.load_id) for one in stands]
    kept, left_out = (sorted(workspace.rows(f"out.{mode}"), key=lambda row: row["id"]) for mode in streams)
    assert [(row["id"], row["size"]) for row in kept] == [(1, 10), (2, 20), (3, None)]
    assert [row["_rescued"] and json.loads(row["_rescued"]) for row in kept] == [None, None, {"size": "XL"}]
    assert [set(row) for row in left_out] == [{"id", "size", "at"}] * 3
    for plan in recorded:
        told = [(change["kind"], change["column"]) for change in plan.plan["schema_changes"]]
        assert told[-2:] == [("add_column", "extra"), ("type_change", "size")]


def test_only_where_it_contradicts_nothing(tmp_path):
    workspace = Workspace(folder=tmp_path)
    workspace.write(
        {"t": {**STREAM, "contract": {"type_change": "discard", "drop_column": "stop"}}},
        connections={"shop": {"url": "sqlite:///shop.db"}},
    )
    said = workspace.cli("check", "--json")
    assert said.returncode == 2
    assert "which drop_column: stop forbids; use drop_column: keep, or type_change: stop" in said.stdout


def test_only_where_it_can_be_done(tmp_path):
    workspace = Workspace(folder=tmp_path)
    files = {**STREAM, "source": {"path": "in/*.parquet"}, "strategy": "files", "write": "append"}
    workspace.write({"t": {key: files[key] for key in files if key != "key"}}, connections={})
    said = workspace.cli("check", "--json")
    assert said.returncode == 2
    assert "only for database tables and queries" in said.stdout
