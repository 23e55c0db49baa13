"""Tables that Hive knows become Iceberg tables of the same metastore, and are taken over once they are proven."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyiceberg.catalog.hive import HiveCatalog

from integration.files.landing import good, idle, run
from support.workspace import SqliteShop
from tidegate.errors import VerifyFailed

pytestmark = [pytest.mark.spark, pytest.mark.servers, pytest.mark.timeout(600)]

DAYS = "(1, 'a', DATE'2025-01-01'), (2, 'b', DATE'2025-01-02'), (3, NULL, NULL)"
SCRIPT = Path(__file__).with_name("hive.py")


@pytest.fixture
def hive(hive_metastore, tmp_path):
    """Runs statements in a Spark with Hive's tables, in a process of its own."""

    def ask(*statements):
        command = [sys.executable, str(SCRIPT), hive_metastore, str(tmp_path / "hive"), *statements]
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(
            command, env=environ, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=240
        )
        assert done.returncode == 0, done.stderr[-6000:]

    return ask


@pytest.fixture
def lakes(hive_metastore, tmp_path):
    return {"lake": {"catalog": {"type": "hive", "uri": hive_metastore}, "warehouse": f"file://{tmp_path / 'lake'}"}}


def made(name, stored):
    """A table as an older job of Hive has made and filled it."""
    return (
        f"CREATE DATABASE IF NOT EXISTS {name.partition('.')[0]}",
        f"CREATE TABLE {name} (id bigint, name string) PARTITIONED BY (day date) STORED AS {stored}",
        f"INSERT INTO {name} VALUES {DAYS}",
    )


def rows_of(metastore, *name):
    """What PyIceberg reads by the metastore."""
    found = HiveCatalog("lake", uri=metastore).load_table(name).scan().to_arrow().to_pylist()
    return sorted((row["id"], row["name"], row["day"]) for row in found)


LOADED = [(1, "a", date(2025, 1, 1)), (2, "b", date(2025, 1, 2)), (3, None, None), (4, "d", date(2025, 1, 2))]


def test_tables_of_hive_are_adopted_and_loaded_on(workspace, hive, lakes, hive_metastore, tmp_path, spark):
    """Beside the old table by `add_files` and by `snapshot`; in its place, in the lake's own catalog, by `migrate`."""
    hive(
        *made("beside.old", "PARQUET"),
        *made("beside.older", "ORC"),
        *(
            f"CREATE TABLE lake.beside.{name} (id bigint, name string, day date) USING iceberg PARTITIONED BY (day)"
            for name in ("added", "orc")
        ),
        "CALL lake.system.add_files(table => 'beside.added', source_table => 'beside.old')",
        "CALL lake.system.add_files(table => 'beside.orc', source_table => 'beside.older')",
        "CALL lake.system.snapshot(source_table => 'spark_catalog.beside.old', table => 'lake.beside.taken')",
        *made("moved.old", "PARQUET"),
        "CALL spark_catalog.system.migrate('moved.old')",
    )
    folders = {"added": ("old", "parquet"), "taken": ("old", "parquet"), "orc": ("older", "orc")}
    streams = {
        name: {
            "source": {
                "path": f"hive/beside.db/{folder}",
                "format": kind,
                "columns": {"id": "bigint", "name": "text", "day": "date"},
            },
            "target": f"lake.beside.{name}",
            "strategy": "files",
            "write": "append",
        }
        for name, (folder, kind) in folders.items()
    }
    shop = SqliteShop(path=tmp_path / "shop.db")
    days = ["(1, 'a', '2025-01-01')", "(2, 'b', '2025-01-02')", "(3, NULL, NULL)"]
    shop.sql(
        "CREATE TABLE orders (id integer PRIMARY KEY AUTOINCREMENT, name text, day date)",
        f"INSERT INTO orders VALUES {', '.join(days)}",
    )
    loading = {"strategy": {"kind": "sequence", "column": "id"}, "write": "append"}
    orders = {"source": {"connection": "shop", "table": "orders"}, "target": "lake.moved.old", **loading}
    connections = {"shop": {"url": shop.url}}
    workspace.write({**streams, "orders": orders}, connections=connections, lakes=lakes)
    with workspace.project(spark) as project:
        for name in folders:
            assert run(workspace, name, spark).error.code == "position_missing"
            assert project.state.adopt(name).agree
            idle(workspace, name)
    new = pa.table({"id": pa.array([4], pa.int64()), "name": ["d"]})
    parquet.write_table(new, tmp_path / "hive" / "beside.db" / "old" / "day=2025-01-02" / "000001_0")
    for name in ("added", "taken"):
        assert good(workspace, name, spark).rows_inserted == 1
        assert rows_of(hive_metastore, "beside", name) == LOADED
        idle(workspace, name)

    with workspace.project(spark) as project:
        assert run(workspace, "orders", spark).error.code == "position_missing"
        shop.sql("UPDATE orders SET name = 'z' WHERE id = 1")
        with pytest.raises(VerifyFailed, match="other values"):
            project.state.adopt("orders")
        shop.sql("UPDATE orders SET name = 'a' WHERE id = 1", "INSERT INTO orders VALUES (4, 'd', '2025-01-02')")
        assert project.state.adopt("orders").table["loaded_through"] == "3"
    assert good(workspace, "orders", spark).rows_inserted == 1
    assert rows_of(hive_metastore, "moved", "old") == LOADED
    idle(workspace, "orders")
