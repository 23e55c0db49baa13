"""Settings by which a session loses rows or changes days without a word do not count for a load."""

from __future__ import annotations

import gzip
import json
from datetime import date

import fastavro
import pytest

from integration.engine.conftest import on_delta
from support.lake import QUICK, delta_rows
from support.loading import Bench
from tidegate.errors import TidegateError
from tidegate.loaders import CDCLoader

pytestmark = [pytest.mark.spark]

LENIENT = {
    "spark.sql.files.ignoreCorruptFiles": "true",
    "spark.sql.files.ignoreMissingFiles": "true",
    "spark.sql.avro.datetimeRebaseModeInRead": "LEGACY",
}


def written(bench, source, **options):
    stream = {"source": source, "target": "lake.out.t", "verify": "none", **options}
    shop, lakes = {"shop": {"url": bench.shop.url}}, {"lake": {"format": bench.form}}
    bench.workspace.write({"t": stream}, connections=shop, lakes=lakes, spark={"conf": {**QUICK, **LENIENT}})


@pytest.mark.parametrize("strategy", ["files", "cdc"])
def test_a_damaged_file_is_not_left_out(bench, tmp_path, strategy):
    rows = [{"operation": "I", "at": number, "id": number, "name": f"n{number * 7919}"} for number in range(20_000)]
    whole = gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode())
    (tmp_path / "a.json.gz").write_bytes(whole[: len(whole) // 2])
    source = {"path": "*.json.gz", "format": "json", "columns": {"id": "bigint", "name": "text"}}
    if strategy == "cdc":
        source["columns"] = {"operation": "text", "at": "bigint", **source["columns"]}
        source["envelope"] = {"kind": "rows", "sequence": ["at"]}
    written(bench, source, key="id", strategy=strategy, write="merge")
    assert "a.json.gz" in bench.refused()[1]
    assert not bench.workspace.has_table("out.t") or bench.rows() == []


@on_delta
def test_a_missing_file_of_the_table_stops_a_load(bench, tmp_path):
    """A merge that writes files again would drop its rows for good."""
    bench.sql(
        "create table t (id integer primary key, name text, at timestamp)",
        "insert into t values (1, 'a', '2025-01-01'), (2, 'b', '2025-01-01')",
    )
    source = {"connection": "shop", "table": "t"}
    written(bench, source, key="id", strategy={"kind": "watermark", "column": "at"}, write="merge")
    assert bench.run().error is None
    (data,) = bench.location.glob("*.parquet")
    data.rename(tmp_path / "aside.parquet")
    bench.sql("update t set name = 'bb', at = '2025-01-02' where id = 2")
    bench.refused()
    (tmp_path / "aside.parquet").rename(data)
    assert bench.run().error is None
    assert bench.rows("id", "name") == [(1, "a"), (2, "bb")]


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


def test_days_of_files_are_those_that_stand_in_them(bench, tmp_path):
    schema = {"name": "r", "type": "record", "fields": [{"name": "d", "type": {"type": "int", "logicalType": "date"}}]}
    with (tmp_path / "a.avro").open("wb") as file:
        fastavro.writer(file, fastavro.parse_schema(schema), [{"d": date(1, 1, 2)}, {"d": date(1582, 10, 4)}])
    written(bench, {"path": "*.avro"}, strategy="files", write="append")
    assert bench.run().error is None
    assert bench.rows("d") == [(date(1, 1, 2),), (date(1582, 10, 4),)]
