"""Settings by which a session loses rows or changes days without a word do not count for a load."""

from __future__ import annotations

import gzip
import json
from datetime import date

import fastavro
import pytest

from support.lake import QUICK, delta_rows
from support.loading import Bench
from support.workspace import SqliteShop, Workspace
from tidegate.errors import TidegateError
from tidegate.loaders import CDCLoader

pytestmark = [pytest.mark.spark]

LENIENT = {
    "spark.sql.files.ignoreCorruptFiles": "true",
    "spark.sql.files.ignoreMissingFiles": "true",
    "spark.sql.avro.datetimeRebaseModeInRead": "LEGACY",
}


def written(tmp_path, source, lake="iceberg", **options):
    workspace = Workspace(folder=tmp_path)
    stream = {"source": source, "target": "lake.s.t", "verify": "none", **options}
    shop = {"shop": {"url": f"sqlite:///{tmp_path}/shop.db"}}
    workspace.write(
        {"t": stream}, connections=shop, lakes={"lake": {"format": lake}}, spark={"conf": {**QUICK, **LENIENT}}
    )
    return workspace


@pytest.mark.parametrize("strategy", ["files", "cdc"])
def test_a_damaged_file_is_not_left_out(tmp_path, spark, strategy):
    rows = [{"operation": "I", "at": number, "id": number, "name": f"n{number * 7919}"} for number in range(20_000)]
    whole = gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode())
    (tmp_path / "a.json.gz").write_bytes(whole[: len(whole) // 2])
    source = {"path": "*.json.gz", "format": "json", "columns": {"id": "bigint", "name": "text"}}
    if strategy == "cdc":
        source["columns"] = {"operation": "text", "at": "bigint", **source["columns"]}
        source["envelope"] = {"kind": "rows", "sequence": ["at"]}
    workspace = written(tmp_path, source, key="id", strategy=strategy, write="merge")
    outcome = workspace.run(spark=spark).streams[0]
    assert outcome.error is not None
    assert "a.json.gz" in outcome.error.message
    assert not workspace.has_table("s.t") or workspace.rows("s.t") == []


def test_a_missing_file_of_the_table_stops_a_load(tmp_path, spark):
    """A merge that writes files again would drop its rows for good."""
    shop = SqliteShop(path=tmp_path / "shop.db")
    shop.sql(
        "create table t (id integer primary key, name text, updated_at timestamp)",
        "insert into t values (1, 'a', '2025-01-01'), (2, 'b', '2025-01-01')",
    )
    watermark = {"kind": "watermark", "column": "updated_at"}
    source = {"connection": "shop", "table": "t"}
    workspace = written(tmp_path, source, "delta", key="id", strategy=watermark, write="merge")
    assert workspace.run(spark=spark).streams[0].error is None
    table = tmp_path / "warehouse" / "s" / "t"
    (data,) = table.glob("*.parquet")
    data.rename(tmp_path / "aside.parquet")
    shop.sql("update t set name = 'bb', updated_at = '2025-01-02' where id = 2")
    outcome = workspace.run(spark=spark).streams[0]
    assert outcome.error is not None
    (tmp_path / "aside.parquet").rename(data)
    assert workspace.run(spark=spark).streams[0].error is None
    assert [row["name"] for row in sorted(delta_rows(str(table)), key=lambda row: row["id"])] == ["a", "bb"]


def test_a_missing_file_of_the_table_stops_a_loader(tmp_path, spark):
    session = spark.newSession()
    session.conf.set("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    for name, value in LENIENT.items():
        session.conf.set(name, value)
    bench, goal = Bench(session, tmp_path), tmp_path / "goal"
    ddl = "id bigint, name string, operation string, sequence_num bigint"
    loader = CDCLoader(session, target_format="delta")
    events = bench.write("first", ddl, (1, "a", "INSERT", 1), (2, "b", "INSERT", 2))
    loader.process_cdc(events, str(goal), bench.marks, "id")
    data = list(goal.glob("*.parquet"))
    for path in data:
        path.rename(tmp_path / path.name)
    events = bench.write("second", ddl, (2, "bb", "UPDATE", 3))
    with pytest.raises(TidegateError):
        loader.process_cdc(events, str(goal), bench.marks, "id")
    for path in data:
        (tmp_path / path.name).rename(path)
    loader.process_cdc(events, str(goal), bench.marks, "id")
    assert [row["name"] for row in sorted(delta_rows(str(goal)), key=lambda row: row["id"])] == ["a", "bb"]


def test_days_of_files_are_those_that_stand_in_them(tmp_path, spark):
    schema = {"name": "r", "type": "record", "fields": [{"name": "d", "type": {"type": "int", "logicalType": "date"}}]}
    with (tmp_path / "a.avro").open("wb") as file:
        fastavro.writer(file, fastavro.parse_schema(schema), [{"d": date(1, 1, 2)}, {"d": date(1582, 10, 4)}])
    workspace = written(tmp_path, {"path": "*.avro"}, strategy="files", write="append")
    assert workspace.run(spark=spark).streams[0].error is None
    assert [row["d"] for row in workspace.rows("s.t")] == [date(1, 1, 2), date(1582, 10, 4)]
