"""A Delta table as a source whose history is gone, by VACUUM or because it is another table.

What a feed tells is in `unit/formats/test_delta_history.py`, and loads of random changes are in the matrix.
"""

from __future__ import annotations

import shutil

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

FED = "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
CTAS = "AS SELECT id, concat('n', id) AS name, id % 2 AS half FROM range(6)"


def test_a_version_that_was_vacuumed_or_is_of_another_table_stops(lake_of, tmp_path):
    there, other = tmp_path / "tables" / "or ders.v1", tmp_path / "tables" / "other"
    source, name = {"delta": "tables/or ders.v1"}, f"delta.`{there}`"
    rest = {"target": "lake.out.orders", "key": ["id"], "strategy": "table_changes", "write": "merge"}
    lake = lake_of({"orders": {"source": source, **rest}})
    lake.session.conf.set("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    lake.sql(f"CREATE TABLE {name} USING delta {FED} {CTAS}")
    lake.loaded("orders")
    before = lake.rows("out.orders")
    lake.sql(f"DELETE FROM {name} WHERE id = 4", f"UPDATE {name} SET name = 'x' WHERE id = 1")
    lake.session.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    lake.sql(f"VACUUM {name} RETAIN 0 HOURS")
    stopped = lake.run("orders")
    assert (stopped.outcome, stopped.error.code, stopped.error.exit_code) == ("stopped", "history_gone", 4)
    assert "--full-refresh" in stopped.error.hint
    assert lake.rows("out.orders") == before
    assert lake.run("orders", full_refresh=True).outcome == "loaded"
    assert [row[:2] for row in lake.rows("out.orders")] == [(0, "n0"), (1, "x"), (2, "n2"), (3, "n3"), (5, "n5")]
    before = lake.rows("out.orders")
    lake.sql(f"CREATE TABLE delta.`{other}` USING delta {FED} {CTAS}")
    shutil.rmtree(there)
    missing = lake.run("orders")
    assert (missing.error.code, missing.error.exit_code) == ("column_missing", 2)
    shutil.move(other, there)
    assert lake.run("orders").error.code == "history_gone"
    assert lake.rows("out.orders") == before
