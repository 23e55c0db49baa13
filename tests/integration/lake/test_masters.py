"""A project whose Spark is a cluster: the driver is here, rows are moved by executors that the cluster starts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from support.cluster import Cluster
from support.workspace import SqliteShop, Workspace
from support.yarn import Yarn

pytestmark = [pytest.mark.servers, pytest.mark.timeout(600)]

SMALL = {"spark.driver.memory": "768m", "spark.executor.memory": "512m", "spark.executor.instances": "1"}
ORDERS = {
    "source": {"connection": "shop", "table": "orders"},
    "target": "lake.shop.orders",
    "key": ["id"],
    "strategy": {"kind": "watermark", "column": "at"},
    "write": "merge",
    "verify": "moved",
}


def test_a_standalone_cluster(cluster: Cluster, tmp_path: Path) -> None:
    def ran() -> int:
        return sum(len(list(worker.glob("app-*"))) for worker in cluster.workers)

    before = ran()
    loads(tmp_path, cluster.url, {}, {"spark.cores.max": "1"})
    assert ran() == before + 2


def test_yarn(yarn: Yarn, tmp_path: Path) -> None:
    loads(tmp_path, "yarn", {**yarn.environ, "TIDEGATE_TRUST_PROJECT": "1"}, yarn.conf)
    ran = [len(list(application.glob("container_*"))) for application in yarn.applications.glob("application_*")]
    assert ran == [2, 2], "its master and one executor, for each run that moved rows"


def loads(folder: Path, master: str, environ: dict[str, str], conf: Mapping[str, str]) -> None:
    """A first load, a change and a run that finds nothing, told by PyIceberg."""
    shop, workspace = SqliteShop(path=folder / "shop.db"), Workspace(folder=folder)
    spark = {"master": master, "conf": {**SMALL, **conf}}
    workspace.write({"orders": ORDERS}, connections={"shop": {"url": shop.url}}, spark=spark)
    shop.sql(
        "CREATE TABLE orders (id integer PRIMARY KEY, name text, at timestamp NOT NULL)",
        *(f"INSERT INTO orders VALUES ({n}, 'é{n}', '2025-01-01 00:00:{n % 60:02}')" for n in range(1, 101)),
    )
    assert run(workspace, environ) == ("loaded", 100)
    shop.sql(
        "UPDATE orders SET name = 'new', at = '2025-01-02' WHERE id = 7",
        "INSERT INTO orders VALUES (102, 'n', '2025-01-03')",
    )
    assert run(workspace, environ) == ("loaded", 2)
    quiet = {name: value for name, value in environ.items() if name == "TIDEGATE_TRUST_PROJECT"}
    assert run(workspace, quiet) == ("unchanged", 0)
    found = sorted((row["id"], row["name"]) for row in workspace.rows("shop.orders"))
    assert found == shop.rows("SELECT id, name FROM orders ORDER BY id")


def run(workspace: Workspace, environ: dict[str, str]) -> tuple[str, int]:
    done = workspace.cli("run", "--json", env=environ)
    assert done.returncode == 0, done.stdout + done.stderr
    (stream,) = json.loads(done.stdout)["streams"]
    return stream["outcome"], stream["rows_read"]
