"""A Delta table as a source: its feed is loaded, what the feed does not tell is compared, what is gone stops."""

from __future__ import annotations

import json
import shutil

import pytest

from support.no_spark import without_spark

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600), pytest.mark.slow]

FED = "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
CTAS = "AS SELECT id, concat('n', id) AS name, id % 2 AS half FROM range(6)"


@pytest.fixture
def lake(lake_of, tmp_path):
    streams = {
        "orders": {
            "source": {"delta": "tables/or ders.v1"},
            "target": "lake.out.orders",
            "key": ["id"],
            "strategy": "table_changes",
            "write": "merge",
        }
    }
    lake = lake_of(streams)
    lake.session.conf.set("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    lake.name = f"delta.`{tmp_path / 'tables' / 'or ders.v1'}`"
    return lake


def make(lake, properties: str = FED, layout: str = "") -> None:
    lake.sql(f"CREATE TABLE {lake.name} USING delta {layout} {properties} {CTAS}")


def source(lake) -> list[tuple]:
    """The rows, as Spark itself reads them."""
    rows = lake.session.sql(f"SELECT * FROM {lake.name}").collect()
    return sorted((tuple(row) for row in rows), key=json.dumps)


def same(lake) -> bool:
    return sorted(lake.rows("out.orders"), key=json.dumps) == source(lake)


def test_the_feed_is_loaded(lake):
    make(lake, layout="PARTITIONED BY (half)")
    first = lake.loaded("orders")
    assert (first.rows_inserted, first.position["state"]) == (6, {"version": "0"})
    assert same(lake), "the rows of version 0 are there"
    with without_spark():
        assert lake.run("orders").outcome == "unchanged"

    lake.sql(f"INSERT INTO {lake.name} VALUES (10, 'n10', 0)")
    appended = lake.loaded("orders")
    assert (appended.effect, appended.rows_read, appended.rows_inserted) == ("insert", 1, 1)

    lake.sql(
        f"UPDATE {lake.name} SET name = 'twice' WHERE id = 1",
        f"UPDATE {lake.name} SET name = 'thrice' WHERE id = 1",
        f"UPDATE {lake.name} SET id = 70 WHERE id = 2",
        f"DELETE FROM {lake.name} WHERE id IN (3, 4)",
        f"INSERT INTO {lake.name} VALUES (4, 'again', 0), (8, 'gone', 0)",
        f"DELETE FROM {lake.name} WHERE id = 8",
        f"MERGE INTO {lake.name} t USING (SELECT 5 AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE",
    )
    changed = lake.loaded("orders")
    assert (changed.effect, changed.verified) == ("apply", True)
    assert (changed.rows_updated, changed.rows_inserted, changed.rows_deleted) == (2, 1, 3)
    assert same(lake)

    lake.sql(f"OPTIMIZE {lake.name}")
    assert lake.loaded("orders").rows_read == 0
    assert lake.run("orders").outcome == "unchanged"
    with lake.workspace.project(lake.spark) as project:
        assert project.verify("orders").streams[0].equal is True


def test_without_a_feed_rows_are_compared(lake):
    make(lake, properties="")
    lake.loaded("orders")
    lake.sql(f"DELETE FROM {lake.name} WHERE id = 3")
    (part,) = lake.plan("orders").slices
    assert "(delta.enableChangeDataFeed) was not enabled for version 1" in part.reason
    compared = lake.loaded("orders")
    assert (compared.write, compared.rows_deleted, compared.rows_updated) == ("merge_differences", 1, 0)
    lake.sql(
        f"ALTER TABLE {lake.name} SET {FED}",
        f"DELETE FROM {lake.name} WHERE id = 4",
    )
    assert lake.loaded("orders").effect == "apply", "enabled before the first change of the range"
    assert same(lake)


def test_a_version_that_was_vacuumed_stops(lake):
    make(lake)
    lake.loaded("orders")
    before = lake.rows("out.orders")
    lake.sql(f"DELETE FROM {lake.name} WHERE id = 4", f"UPDATE {lake.name} SET name = 'x' WHERE id = 1")
    lake.session.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    lake.sql(f"VACUUM {lake.name} RETAIN 0 HOURS")
    stopped = lake.run("orders")
    assert (stopped.outcome, stopped.error.code, stopped.error.exit_code) == ("stopped", "history_gone", 4)
    assert "--full-refresh" in stopped.error.hint
    assert lake.rows("out.orders") == before
    assert lake.run("orders", full_refresh=True).outcome == "loaded"
    assert same(lake)


def test_another_table_of_the_same_path_stops(lake, tmp_path):
    make(lake)
    lake.loaded("orders")
    before = lake.rows("out.orders")
    there, other = tmp_path / "tables" / "or ders.v1", tmp_path / "tables" / "other"
    lake.sql(f"CREATE TABLE delta.`{other}` USING delta {FED} {CTAS}")
    shutil.rmtree(there)
    missing = lake.run("orders")
    assert (missing.error.code, missing.error.exit_code) == ("column_missing", 2)
    shutil.move(other, there)
    assert lake.run("orders").error.code == "history_gone"
    assert lake.rows("out.orders") == before


def test_a_second_row_of_a_key_that_came_and_went_leaves_the_first(lake):
    make(lake)
    lake.loaded("orders")
    lake.sql(
        f"INSERT INTO {lake.name} VALUES (2, 'double', 9), (70, 'short', 5)",
        f"DELETE FROM {lake.name} WHERE name = 'double'",
        f"DELETE FROM {lake.name} WHERE id IN (3, 70)",
    )
    assert lake.loaded("orders").verified
    assert same(lake)
    lake.sql(f"INSERT INTO {lake.name} VALUES (1, 'double', 9)")
    lake.run("orders")
    lake.sql(f"DELETE FROM {lake.name} WHERE name = 'double'")
    outcome = lake.run("orders")
    assert outcome.error is None, outcome.error
    assert same(lake)
