"""A column that was renamed at a source that numbers its columns is the same column of the table, if so stated."""

from __future__ import annotations

import pytest

from integration.engine.conftest import on_both

pytestmark = [pytest.mark.spark, pytest.mark.postgres]

WATERMARK = {"kind": "watermark", "column": "at"}


@on_both
def test_a_rename_is_seen_and_followed(pg_bench):
    pg_bench.sql(
        "create table t (id int primary key, name text, at timestamptz not null)",
        "insert into t values (1, 'a', '2025-01-01'), (2, 'b', '2025-01-02')",
    )
    pg_bench.write(WATERMARK, contract={"rename": "stop"})
    assert pg_bench.loaded().rows_read == 2
    pg_bench.sql(
        "alter table t rename column name to label",
        "alter table t add column other text",
        "insert into t values (3, 'c', '2025-01-03', 'x')",
    )
    code, message, _ = pg_bench.refused()
    assert (code, "label: rename (name to label)" in message) == ("schema_refused", True)
    pg_bench.write(WATERMARK, contract={"rename": "evolve"})
    with pg_bench.project() as project:
        told = [(change["kind"], change["column"]) for change in project.plan("t").streams[0].schema_changes]
    assert told == [("rename", "label"), ("add_column", "other")]
    assert pg_bench.loaded().rows_read == 1
    assert pg_bench.rows("id", "label", "other") == [(1, "a", None), (2, "b", None), (3, "c", "x")]
    assert pg_bench.verify(level="rows").equal
    with pg_bench.project() as project:
        assert project.plan("t").streams[0].schema_changes == ()


def test_a_replay_leaves_the_names_of_columns_alone(pg_bench):
    """What the table calls its columns, and numbers otherwise, is not what the source calls them."""
    pg_bench.sql(
        "create table t (gone int, id int primary key, one text, two text, at timestamptz not null)",
        "alter table t drop column gone",
        "insert into t values (1, 'a', 'b', '2025-01-01'), (2, 'bad', 'c', '2025-01-02')",
    )
    pg_bench.write(WATERMARK, checks=[{"expression": "one <> 'bad'", "on_fail": "quarantine"}])
    pg_bench.loaded()
    pg_bench.write(WATERMARK)
    with pg_bench.project() as project:
        assert project.quarantine("t").replay().rows == 1
    pg_bench.sql("insert into t values (3, 'd', 'e', '2025-01-03')")
    pg_bench.loaded()
    assert pg_bench.rows("id", "one", "two") == [(1, "a", "b"), (2, "bad", "c"), (3, "d", "e")]
