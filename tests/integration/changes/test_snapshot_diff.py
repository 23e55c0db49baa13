"""Sources without timestamps and logs: every row is compared, and just what differs is written."""

from __future__ import annotations

import pytest

from support.no_spark import without_spark
from support.workspace import SqliteShop

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


def streams(source, **stream):
    return {"diff": {"source": source, "target": "lake.out.diff", "strategy": "snapshot_diff", **stream}}


def of_lake(lake_of, *rows, **stream):
    lake = lake_of(streams({"iceberg": "lake.src.t"}, **{"key": ["id"], "write": "merge", **stream}))
    lake.sql("CREATE TABLE lake.src.t (id bigint, name string, price decimal(10,2), weight double) USING iceberg")
    if rows:
        lake.sql(f"INSERT INTO lake.src.t VALUES {', '.join(rows)}")
    return lake


def test_a_database_without_timestamps(lake_of, tmp_path):
    """A column without exact text is no help in seeing whether anything changed, and compared all the same."""
    shop = SqliteShop(path=tmp_path / "shop.db")
    shop.sql(
        "create table t (id integer, name text, price decimal(10,2), weight real)",
        "insert into t values (1, 'a', '1.00', 1.5), (2, 'b', '2.00', null)",
    )
    exact = {"connection": "shop", "query": "select id, name, price from t"}
    keyed = {"key": ["id"], "write": "merge", "strategy": "snapshot_diff", "target": "lake.out.whole"}
    given = streams(exact, key=["id"], write="merge")
    lake = lake_of(
        given | {"whole": {"source": {"connection": "shop", "table": "t"}, **keyed}},
        connections={"shop": {"url": shop.url}},
    )
    assert [lake.loaded(name).rows_inserted for name in ("diff", "whole")] == [2, 2]
    with without_spark():
        assert lake.run("diff").outcome == "unchanged"
    shop.sql(
        "update t set weight = 2.5 where id = 2", "delete from t where id = 1", "insert into t values (3, 'c', '3', 1)"
    )
    found = lake.loaded("diff")
    assert (found.write, found.verified) == ("merge_differences", True)
    assert (found.rows_inserted, found.rows_updated, found.rows_deleted) == (1, 0, 1)
    assert [row[:2] for row in lake.rows("out.diff")] == [(2, "b"), (3, "c")]
    found = lake.loaded("whole")
    assert (found.rows_inserted, found.rows_updated, found.rows_deleted) == (1, 1, 1)
    assert [(row[0], row[3]) for row in lake.rows("out.whole")] == [(2, 2.5), (3, 1.0)]


def test_only_what_differs_is_written(lake_of):
    lake = of_lake(lake_of, *(f"({n}, 'n', {n}, {n})" for n in range(50)))
    lake.loaded("diff")
    lake.sql("UPDATE lake.src.t SET weight = NULL WHERE id = 7", "DELETE FROM lake.src.t WHERE id IN (8, 9)")
    found = lake.loaded("diff")
    assert (found.rows_inserted, found.rows_updated, found.rows_deleted) == (0, 1, 2)
    summary = lake.workspace.table("out.diff").current_snapshot().summary
    assert (summary["added-records"], summary.get("added-position-deletes")) == ("1", "3")
    assert lake.rows("out.diff") == lake.rows("src.t")
    lake.sql("CALL lake.system.rewrite_data_files(table => 'src.t', options => map('rewrite-all', 'true'))")
    assert lake.loaded("diff").rows_inserted == 0
    assert lake.run("diff").outcome == "unchanged"


def test_rows_that_nobody_wrote_are_repaired_and_bad_keys_refused(lake_of):
    lake = of_lake(lake_of, "(1, 'a', 1, 1)", "(2, 'b', 2, 2)")
    lake.loaded("diff")
    lake.sql(
        "INSERT INTO lake.out.diff VALUES (1, 'x', 9, 9), (5, 'strange', 5, 5)",
        "UPDATE lake.src.t SET name = 'B' WHERE id = 2",
    )
    lake.loaded("diff")
    before = lake.rows("src.t")
    assert lake.rows("out.diff") == before
    lake.sql("INSERT INTO lake.src.t VALUES (7, 'a', 1, 1), (7, 'a', 1, 1)")
    assert lake.run("diff").error.code == "duplicate_keys"
    lake.sql("DELETE FROM lake.src.t WHERE id = 7", "INSERT INTO lake.src.t VALUES (NULL, 'a', 1, 1)")
    assert lake.run("diff").error.code == "check_failed"
    assert lake.rows("out.diff") == before


def test_without_a_key_rows_are_counted(lake_of):
    lake = of_lake(lake_of, "(1, 'a', 1, 1)", "(1, 'a', 1, 1)", "(NULL, NULL, NULL, NULL)", key=[], write="replace")
    lake.loaded("diff")
    snapshots = lake.workspace.snapshots("out.diff")
    lake.sql("CALL lake.system.rewrite_data_files(table => 'src.t', options => map('rewrite-all', 'true'))")
    equal = lake.loaded("diff")
    assert (equal.rows_inserted, equal.rows_deleted, lake.workspace.snapshots("out.diff")) == (0, 0, snapshots + 1)
    # What only came is added, as often as it is lacking; where something went, every row is written anew.
    lake.sql("INSERT INTO lake.src.t VALUES (1, 'a', 1, 1), (2, 'b', 2, 2), (2, 'b', 2, 2)")
    came = lake.loaded("diff")
    assert (came.rows_inserted, came.rows_deleted, came.verified) == (3, 0, True)
    assert lake.rows("out.diff") == lake.rows("src.t")
    lake.sql("DELETE FROM lake.src.t WHERE id = 1", "INSERT INTO lake.src.t VALUES (1, 'a', 1, 1)")
    assert lake.loaded("diff").rows_deleted == 6
    assert lake.rows("out.diff") == lake.rows("src.t")
    assert len(lake.rows("out.diff")) == 4


def test_what_is_not_significant_waits(lake_of):
    rule = {"columns": ["price", "weight"], "absolute": 0.5, "relative": 0.1, "min_rows": 2, "min_fraction": 0.3}
    strategy = {"kind": "snapshot_diff", "significant_change": rule}
    lake = of_lake(lake_of, *(f"({n}, 'n', 1, 100)" for n in range(5)), strategy=strategy)
    position = lake.loaded("diff").position

    def skipped(*statements):
        lake.sql(*statements)
        found = lake.run("diff")
        assert (found.outcome, found.position) == ("unchanged", position), found
        return found.notes[-1]

    assert "1 row differs, 0 of them significantly" in skipped("UPDATE lake.src.t SET name = 'N' WHERE id = 0")
    assert "2 rows differ, 0" in skipped("UPDATE lake.src.t SET price = 1.5 WHERE id IN (0, 1)"), "0.5 is not more"
    assert "2 rows differ, 0" in skipped("UPDATE lake.src.t SET weight = 110 WHERE id IN (0, 1)"), "10 is not more"
    assert "2 rows differ, 1" in skipped("UPDATE lake.src.t SET weight = NULL WHERE id = 0")
    lake.sql("UPDATE lake.src.t SET price = 1.51 WHERE id = 1")
    found = lake.loaded("diff")
    assert found.rows_updated == 2
    assert lake.rows("out.diff") == lake.rows("src.t"), "also the name, which alone was no reason"
