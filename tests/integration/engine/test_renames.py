"""A column that was renamed at a source that numbers its columns is the same column of the table, if so stated."""

from __future__ import annotations

import psycopg
import pytest

from support.lake import QUICK, delta_rows
from support.workspace import Workspace

pytestmark = [pytest.mark.spark, pytest.mark.postgres]


@pytest.mark.parametrize("lake_format", ["iceberg", pytest.param("delta", marks=pytest.mark.slow)])
def test_a_rename_is_seen_and_followed(tmp_path, spark, pg_url, lake_format):
    workspace = Workspace(folder=tmp_path)
    lakes = {"lake": {"format": lake_format}}

    def configure(rename: str) -> None:
        stream = {
            "source": {"connection": "shop", "table": "public.t"},
            "target": "lake.out.t",
            "key": ["id"],
            "strategy": {"kind": "watermark", "column": "at"},
            "write": "merge",
            "contract": {"rename": rename},
        }
        workspace.write({"t": stream}, connections={"shop": {"url": pg_url}}, lakes=lakes, spark={"conf": QUICK})

    def ask(*statements: str) -> None:
        with psycopg.connect(pg_url, autocommit=True) as session:
            for statement in statements:
                session.execute(statement)

    def rows() -> list[tuple]:
        found = workspace.rows("out.t") if lake_format == "iceberg" else delta_rows(str(tmp_path / "warehouse/out/t"))
        return sorted((row["id"], row.get("label"), row.get("other")) for row in found)

    ask(
        "create table t (id int primary key, name text, at timestamptz not null)",
        "insert into t values (1, 'a', '2025-01-01'), (2, 'b', '2025-01-02')",
    )
    configure("stop")
    with workspace.project(spark) as project:
        assert project.run("t").streams[0].rows_read == 2
    ask(
        "alter table t rename column name to label",
        "alter table t add column other text",
        "insert into t values (3, 'c', '2025-01-03', 'x')",
    )
    with workspace.project(spark) as project:
        stopped = project.run("t").streams[0].error
        assert stopped is not None
        assert (stopped.code, "label: rename (name to label)" in stopped.message) == ("schema_refused", True)
    configure("evolve")
    with workspace.project(spark) as project:
        told = [(change["kind"], change["column"]) for change in project.plan("t").streams[0].schema_changes]
        assert told == [("rename", "label"), ("add_column", "other")]
        outcome = project.run("t").streams[0]
        assert (outcome.error, outcome.rows_read, outcome.verified) == (None, 1, True)
        assert rows() == [(1, "a", None), (2, "b", None), (3, "c", "x")]
        assert project.verify("t", level="rows").streams[0].equal
        assert project.plan("t").streams[0].schema_changes == ()
