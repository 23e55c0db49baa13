"""Columns of lake tables that a stream leaves out, also of types that no stream can load; read back by PyIceberg."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600), pytest.mark.slow]

SENTINEL = "never-to-be-seen-outside"
COLUMNS = "id bigint, name string, tags map<string,string>, inner struct<a: string, b: array<int>>, secret string"
ROW = f"map('k', '{SENTINEL}'), named_struct('a', '{SENTINEL}', 'b', array(1)), '{SENTINEL}'"
ICEBERG, DELTA = {"iceberg": "lake.src.orders"}, {"delta": "tables/orders"}
STRATEGIES = [("table_changes", "merge"), ("snapshot_diff", "merge"), ("full", "replace")]


def made(lake_of, tmp_path, source, strategy, write, **selection):
    stream = {"source": {**source, **selection}, "target": "lake.out.orders", "strategy": strategy, "write": write}
    lake = lake_of({"orders": {**stream, "key": ["id"]}})
    lake.session.conf.set("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    delta = "delta" in source
    lake.name = f"delta.`{tmp_path / 'tables' / 'orders'}`" if delta else "lake.src.orders"
    fed = "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')" if delta else ""
    lake.sql(f"CREATE TABLE {lake.name} ({COLUMNS}) USING {'delta' if delta else 'iceberg'} {fed}")
    lake.sql(f"INSERT INTO {lake.name} SELECT id, concat('n', id), {ROW} FROM range(4)")
    return lake


@pytest.mark.parametrize("source", [ICEBERG, DELTA], ids=["iceberg", "delta"])
@pytest.mark.parametrize(("strategy", "write"), STRATEGIES)
def test_a_map_and_a_struct_are_left_out(lake_of, tmp_path, source, strategy, write):
    lake = made(lake_of, tmp_path, source, strategy, write, exclude=["tags", "inner", "sec*"])
    assert lake.loaded("orders").verified
    lake.sql(
        f"UPDATE {lake.name} SET tags = map('k', 'other') WHERE id = 0",
        f"UPDATE {lake.name} SET name = 'first', inner = NULL WHERE id = 1",
        f"DELETE FROM {lake.name} WHERE id = 2",
        f"INSERT INTO {lake.name} VALUES (7, 'n7', {ROW})",
    )
    assert lake.loaded("orders").verified
    lake.sql(f"ALTER TABLE {lake.name} ADD COLUMNS (secret_2 map<string,int>)")
    assert lake.run("orders").error is None, "a new column that is left out"
    assert lake.rows("out.orders") == [(0, "n0"), (1, "first"), (3, "n3"), (7, "n7")]
    assert [field.name for field in lake.workspace.table("out.orders").schema().fields] == ["id", "name"]
    with lake.workspace.project(lake.spark) as project:
        assert project.verify("orders", level="rows").streams[0].equal is True
        location = next((lake.workspace.folder).rglob("out/orders"))
    assert [path for path in location.rglob("*") if path.is_file() and SENTINEL.encode() in path.read_bytes()] == []


@pytest.mark.parametrize("source", [ICEBERG, DELTA], ids=["iceberg", "delta"])
def test_a_column_that_is_read_has_to_have_a_type(lake_of, tmp_path, source):
    lake = made(lake_of, tmp_path, source, "full", "replace", exclude=["inner"])
    refused = lake.run("orders").error
    assert refused.code == "schema_refused"
    assert "column 'tags' of the table has type map, which Tidegate cannot load" in refused.message
    assert refused.hint == "Leave it out with `source: {exclude: [tags]}`."


@pytest.mark.parametrize("source", [ICEBERG, DELTA], ids=["iceberg", "delta"])
def test_a_name_that_the_table_does_not_have_is_an_error(lake_of, tmp_path, source):
    lake = made(lake_of, tmp_path, source, "full", "replace", exclude=["tags", "inner", "secrets"])
    refused = lake.run("orders").error
    assert (refused.code, "no column 'secrets'; did you mean 'secret'?" in refused.message) == ("config", True)
