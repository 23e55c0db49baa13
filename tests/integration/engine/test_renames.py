"""A column that was renamed at a source that numbers its columns is the same column of the table, if so stated."""

from __future__ import annotations

import psycopg
import pytest

from support.lake import QUICK, delta_rows
from support.workspace import Workspace

pytestmark = [pytest.mark.spark, pytest.mark.postgres, pytest.mark.slow]

STREAM = {
    "source": {"connection": "shop", "table": "public.t"},
    "target": "lake.out.t",
    "key": ["id"],
    "strategy": {"kind": "watermark", "column": "at"},
    "write": "merge",
}


def write(workspace: Workspace, pg_url: str, lake_format: str = "iceberg", **more: object) -> None:
    lakes, shop = {"lake": {"format": lake_format}}, {"shop": {"url": pg_url}}
    workspace.write({"t": STREAM | more}, connections=shop, lakes=lakes, spark={"conf": QUICK})


def ask(pg_url: str, *statements: str) -> None:
    with psycopg.connect(pg_url, autocommit=True) as session:
        for statement in statements:
            session.execute(statement)


@pytest.mark.parametrize("lake_format", ["iceberg", pytest.param("delta", marks=pytest.mark.exhaustive)])
def test_a_rename_is_seen_and_followed(tmp_path, spark, pg_url, lake_format):
    workspace = Workspace(folder=tmp_path)

    def configure(rename: str) -> None:
        write(workspace, pg_url, lake_format, contract={"rename": rename})

    def rows() -> list[tuple]:
        found = workspace.rows("out.t") if lake_format == "iceberg" else delta_rows(str(tmp_path / "warehouse/out/t"))
        return sorted((row["id"], row.get("label"), row.get("other")) for row in found)

    ask(
        pg_url,
        "create table t (id int primary key, name text, at timestamptz not null)",
        "insert into t values (1, 'a', '2025-01-01'), (2, 'b', '2025-01-02')",
    )
    configure("stop")
    with workspace.project(spark) as project:
        assert project.run("t").streams[0].rows_read == 2
    ask(
        pg_url,
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


def test_a_replay_leaves_the_names_of_columns_alone(tmp_path, spark, pg_url):
    """What the table calls its columns, and numbers otherwise, is not what the source calls them."""
    workspace = Workspace(folder=tmp_path)
    ask(
        pg_url,
        "create table t (gone int, id int primary key, one text, two text, at timestamptz not null)",
        "alter table t drop column gone",
        "insert into t values (1, 'a', 'b', '2025-01-01'), (2, 'bad', 'c', '2025-01-02')",
    )
    write(workspace, pg_url, checks=[{"expression": "one <> 'bad'", "on_fail": "quarantine"}])
    with workspace.project(spark) as project:
        assert project.run("t").streams[0].error is None
    write(workspace, pg_url)
    with workspace.project(spark) as project:
        assert project.quarantine("t").replay().rows == 1
    ask(pg_url, "insert into t values (3, 'd', 'e', '2025-01-03')")
    with workspace.project(spark) as project:
        outcome = project.run("t").streams[0]
    assert outcome.error is None, outcome.error
    found = sorted((row["id"], row["one"], row["two"]) for row in workspace.rows("out.t"))
    assert found == [(1, "a", "b"), (2, "bad", "c"), (3, "d", "e")]
