"""Rows that are gone stay in the table, marked; a row that comes back is live again."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["snapshot_diff", {"kind": "checksum", "method": "whole_table"}])
def test_deleted_rows_are_marked_and_come_back(bench_of, format_, strategy):
    bench = bench_of(format_=format_, strategy=strategy, deletes={"apply": "soft"})
    bench.shop.sql("insert into t values (1, 'a'), (2, 'b'), (3, 'c')")
    bench.loaded()
    assert {row["deleted_at"] for row in bench.rows()} == {None}

    bench.shop.sql("delete from t where id = 2", "update t set name = 'C' where id = 3")
    bench.loaded()
    marked = {row["id"]: row["deleted_at"] for row in bench.rows()}
    assert {key for key, at in marked.items() if at is not None} == {2}
    assert [row["name"] for row in bench.rows()] == ["a", "b", "C"]

    bench.shop.sql("insert into t values (4, 'd')")
    bench.loaded()
    assert {row["id"]: row["deleted_at"] for row in bench.rows()} == {**marked, 4: None}
    with bench.workspace.project(bench.spark) as project:
        assert project.verify(level="rows").streams[0].equal

    bench.shop.sql("insert into t values (2, 'b')")
    bench.loaded()
    assert {row["deleted_at"] for row in bench.rows()} == {None}
    assert bench.ids() == bench.wanted()


def test_a_table_that_deleted_for_good_begins_to_mark(bench_of):
    bench = bench_of(strategy="snapshot_diff", deletes={"apply": "hard"}, contract={"add_column": "stop"})
    bench.shop.sql("insert into t values (1, 'a'), (2, 'b'), (3, 'c')")
    bench.loaded()
    text = bench.workspace.file.read_text()
    bench.workspace.file.write_text(text.replace("apply: hard", "apply: soft"))
    bench.shop.sql("delete from t where id = 2")
    bench.loaded()
    assert bench.ids() == [1, 3]
    assert len(bench.rows()) == 3


@pytest.mark.slow
def test_a_key_that_is_there_twice_is_mended(bench_of):
    bench = bench_of(strategy="snapshot_diff", deletes={"apply": "soft"})
    bench.shop.sql("insert into t values (1, 'a'), (2, 'b')")
    bench.loaded()
    with bench.workspace.project(bench.spark) as project:
        session = project.sessions.load_session()
        session.sql("INSERT INTO lake.out.t VALUES (1, 'x', NULL)")
    bench.shop.sql("delete from t where id = 2")
    bench.loaded()
    assert [(row["id"], row["name"]) for row in bench.rows() if row["deleted_at"] is None] == [(1, "a")]
    assert bench.ids() == bench.wanted()


def test_a_column_of_that_name_at_the_source_is_refused(bench_of):
    bench = bench_of(
        columns="id integer primary key, Deleted_At text", strategy="snapshot_diff", deletes={"apply": "soft"}
    )
    found = bench.run()
    assert found.error is not None
    assert found.error.code == "schema_refused"
    assert "query" in found.error.hint
