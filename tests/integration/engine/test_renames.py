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


@on_both
def test_a_replay_leaves_names_alone_and_values_that_loads_leave_alone(pg_bench):
    """What the table calls its columns, and numbers otherwise, is not what the source calls them."""
    checks = [{"expression": "two <> 'bad'", "on_fail": "quarantine"}]
    pg_bench.sql(
        "create table t (gone int, id int primary key, one text, two text, secret text, at timestamptz not null)",
        "alter table t drop column gone",
        "insert into t values (1, 'a', 'b', 's1', '2025-01-01'), (2, 'c', 'bad', 's2', '2025-01-02')",
    )
    pg_bench.write(WATERMARK, checks=checks)
    pg_bench.loaded()
    source = {"connection": "shop", "table": "t", "exclude": ["secret"]}
    pg_bench.write(WATERMARK, checks=checks, source=source)
    pg_bench.sql(
        "update t set two = 'bad', at = '2025-01-03' where id = 1",
        "insert into t values (3, 'd', 'e', 's3', '2025-01-03')",
    )
    pg_bench.loaded()
    pg_bench.write(WATERMARK, source=source)
    with pg_bench.project() as project:
        assert project.quarantine("t").replay().rows == 2
    pg_bench.sql("insert into t values (4, 'f', 'g', 's4', '2025-01-04')")
    pg_bench.loaded()
    assert pg_bench.rows("id", "one", "two", "secret") == [
        (1, "a", "bad", "s1"),
        (2, "c", "bad", "s2"),
        (3, "d", "e", None),
        (4, "f", "g", None),
    ]
