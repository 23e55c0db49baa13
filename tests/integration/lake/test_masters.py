"""A project whose Spark is a cluster: the driver is here, rows are moved by executors that the cluster starts."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.cluster import Cluster
from support.yarn import Yarn
from tidegate.core.ids import Target
from tidegate.formats.iceberg import Iceberg

pytestmark = [pytest.mark.servers, pytest.mark.timeout(600)]

SMALL = {"spark.driver.memory": "768m", "spark.executor.memory": "512m", "spark.executor.instances": "1"}


def test_a_standalone_cluster(cluster: Cluster, tmp_path: Path) -> None:
    before = sum(len(list(worker.glob("app-*"))) for worker in cluster.workers)
    loads(tmp_path, cluster.url, {}, {"spark.cores.max": "1"})
    assert sum(len(list(worker.glob("app-*"))) for worker in cluster.workers) == before + 2


def test_yarn(yarn: Yarn, tmp_path: Path) -> None:
    loads(tmp_path, "yarn", yarn.environ, yarn.conf)
    ran = [len(list(application.glob("container_*"))) for application in yarn.applications.glob("application_*")]
    assert ran == [2, 2], "its master and one executor, for each run that moved rows"


def loads(folder: Path, master: str, environ: Mapping[str, str], conf: Mapping[str, str]) -> None:
    """A first load, a change and a run that finds nothing, told by PyIceberg."""
    shop = folder / "shop.db"
    stream = {
        "source": {"connection": "shop", "table": "orders"},
        "target": "lake.shop.orders",
        "key": ["id"],
        "strategy": {"kind": "watermark", "column": "at"},
        "write": "merge",
        "verify": "moved",
    }
    project = {
        "spark": {"master": master, "conf": {**SMALL, **conf}},
        "connections": {"shop": {"url": f"sqlite:///{shop}"}},
        "streams": {"orders": stream},
    }
    (folder / "tidegate.yaml").write_text(yaml.safe_dump(project))
    tell(shop, "CREATE TABLE orders (id integer PRIMARY KEY, name text, at timestamp NOT NULL)")
    tell(shop, *(f"INSERT INTO orders VALUES ({n}, 'é{n}', '2025-01-01 00:00:{n % 60:02}')" for n in range(1, 101)))
    assert run(folder, environ) == ("loaded", 100)
    tell(shop, "UPDATE orders SET name = 'new', at = '2025-01-02' WHERE id = 7")
    tell(shop, "INSERT INTO orders VALUES (102, 'n', '2025-01-03')")
    assert run(folder, environ) == ("loaded", 2)
    assert run(folder, {}) == ("unchanged", 0)
    table = Iceberg(name="lake", folder=folder)._where.table(Target(lake="lake", namespace=("shop",), table="orders"))
    assert table is not None
    found = sorted((row["id"], row["name"]) for row in table.scan().to_arrow().to_pylist())
    assert found == tell(shop, "SELECT id, name FROM orders ORDER BY id")


def tell(shop: Path, *statements: str) -> list[Any]:
    with closing(sqlite3.connect(shop)) as connection, connection:
        return [row for statement in statements for row in connection.execute(statement).fetchall()]


def run(folder: Path, environ: Mapping[str, str]) -> tuple[str, int]:
    command = [sys.executable, "-m", "tidegate", "run", "--project", str(folder), "--json"]
    done = subprocess.run(
        command, env={**os.environ, **environ}, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (stream,) = json.loads(done.stdout)["streams"]
    return stream["outcome"], stream["rows_read"]
