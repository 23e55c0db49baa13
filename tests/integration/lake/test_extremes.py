"""The least and the greatest value of every type, written through both formats and read back by four other readers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyarrow import parquet

from support import extremes
from support.lake import QUICK, delta_rows
from support.loading import Bench
from support.workspace import Workspace
from tidegate.loaders import CDCLoader, DeltaCDFLoader, DeltaDiffLoader, SequenceBasedLoader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

# A session of somebody who has set all that changes how values lie in files.
ODD = {
    "spark.sql.session.timeZone": "America/New_York",
    "spark.sql.parquet.outputTimestampType": "INT96",
    "spark.sql.parquet.int96RebaseModeInWrite": "LEGACY",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY",
}


def own_rows(workspace: Workspace, kind: str, name: str) -> list[dict[str, Any]]:
    """What PyIceberg or delta-rs reads of a whole table."""
    if kind == "delta":
        return delta_rows(str(workspace.folder / "warehouse" / "shop" / name))
    return extremes.values(workspace.table(f"shop.{name}").scan().to_arrow())


def files(folder: Path) -> list[str]:
    found = extremes.parquet_below(folder)
    assert found
    return found


def in_micros(paths: list[str]) -> None:
    for path in paths:
        assert "INT96" not in extremes.physical_types([path]), path


@pytest.mark.parametrize("kind", ["iceberg", "delta"])
def test_a_project_writes_what_every_reader_reads(tmp_path: Path, spark: SparkSession, kind: str) -> None:
    (tmp_path / "in").mkdir()
    parquet.write_table(extremes.arrow_table(), tmp_path / "in" / "all.parquet")
    rule = {"expression": "n <> 2", "on_fail": "quarantine"}
    made = {"source": {"path": str(tmp_path / "in"), "format": "parquet"}, "strategy": "full", "key": ["n"]}
    streams = {
        "whole": {**made, "target": "lake.shop.whole", "write": "replace"},
        "checked": {**made, "target": "lake.shop.checked", "write": "replace", "checks": [rule]},
        "history": {**made, "target": "lake.shop.history", "write": "scd2"},
    }
    workspace = Workspace(folder=tmp_path)
    workspace.write(streams, connections={}, lakes={"lake": {"format": kind}}, spark={"conf": QUICK})
    told = {one.stream: (one.error, one.verified) for one in workspace.run(spark=spark).streams}
    assert told == dict.fromkeys(streams, (None, True))

    in_micros(files(tmp_path / "warehouse"))
    for name in ("whole", "history"):
        extremes.same(own_rows(workspace, kind, name))
        data = files(tmp_path / "warehouse" / "shop" / name)
        extremes.same(extremes.arrow_files(data))
        extremes.same(extremes.duckdb_files(data))
    beside = own_rows(workspace, kind, "checked__tidegate_quarantine")
    assert [row["at"].year >= 2025 for row in beside] == [True]
    assert len(own_rows(workspace, kind, "checked")) == len(extremes.rows()) - 1


@pytest.fixture
def odd(spark: SparkSession, tmp_path: Path) -> Iterator[Bench]:
    session = spark.newSession()
    session.conf.set("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    for name, value in ODD.items():
        session.conf.set(name, value)
    bench = Bench(session, tmp_path)
    before = bench.settings()
    yield bench
    assert bench.settings() == before


@pytest.mark.parametrize("kind", ["delta", "parquet"])
def test_loaders_write_what_every_reader_reads_whatever_the_session_says(odd: Bench, kind: str) -> None:
    source, goal = odd.folder / "source", odd.folder / "goal"
    source.mkdir()
    table = extremes.arrow_table()
    loader = DeltaDiffLoader(odd.spark, target_format=kind)
    for part in (table.slice(0, 3), table):
        parquet.write_table(part, source / "1.parquet")
        loader.detect_changes(str(source), str(goal), odd.path("snapshots"), "n")
    in_micros([*files(goal), *files(odd.folder / "snapshots")])
    if kind == "delta":
        extremes.same(delta_rows(str(goal)), zero="0.0")
    else:
        goal = next(iter(sorted(goal.glob("tidegate_load=2-*"))))
    extremes.same(extremes.arrow_files(files(goal)), zero="0.0")
    extremes.same(extremes.duckdb_files(files(goal)), zero="0.0")


def test_what_loaders_keep_for_themselves_is_in_microseconds(odd: Bench) -> None:
    ddl = "id bigint, at timestamp, operation string, sequence_num bigint"
    late, early = "9999-12-31T23:59:59.999999+00:00", "0001-01-02T00:00:00+00:00"
    events = odd.write("events", ddl, (1, late, "INSERT", 1), (2, early, "INSERT", 2), (3, late, "DELETE", 3))
    changes = CDCLoader(odd.spark, target_format="delta")
    changes.process_cdc(events, odd.path("goal"), odd.marks, "id")
    feed = DeltaCDFLoader(odd.spark, odd.path("goal"), odd.path("loads"), "id", odd.path("mart"), target_format="delta")
    assert feed.load().records == 2
    numbers = SequenceBasedLoader(odd.spark)
    numbers.load_incremental(events, odd.path("numbers"), odd.marks, "sequence_num")
    made = [path for path in files(odd.folder) if "/events/" not in path]
    folders = {Path(path).relative_to(odd.folder).parts[0] for path in made}
    assert folders == {"goal", "loads", "mart", "numbers", "watermarks"}
    in_micros(made)
    assert {row["id"]: row["at"].isoformat() for row in delta_rows(odd.path("mart"))} == {1: late, 2: early}
