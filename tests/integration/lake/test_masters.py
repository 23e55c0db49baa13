"""A project whose Spark is a cluster: the driver is here, rows are moved by executors that the cluster starts."""

from __future__ import annotations

import itertools
import json
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from pyiceberg.catalog.rest import RestCatalog

from integration.topics.conftest import event
from support.cluster import Cluster
from support.kafka import KafkaServer
from support.lake import delta_rows
from support.lake_servers import REST_S3, rest_running
from support.object_store import ACCESS, REGION, SECRET, ObjectStore
from support.workspace import SqliteShop, Workspace
from support.yarn import Yarn
from tidegate.spark import jars

pytestmark = [pytest.mark.servers, pytest.mark.timeout(600)]

SMALL = {"spark.driver.memory": "768m", "spark.executor.memory": "512m", "spark.executor.instances": "1"}
# A task that another copy overtakes is one more way to write rows twice.
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.interval": "50ms",
}
ORDERS = {
    "source": {"connection": "shop", "table": "orders"},
    "target": "lake.shop.orders",
    "key": ["id"],
    "strategy": {"kind": "watermark", "column": "at"},
    "write": "merge",
    "verify": "moved",
}


def test_yarn(yarn: Yarn, tmp_path: Path) -> None:
    """A first load, a change and a run that finds nothing, told by PyIceberg."""
    trusted = {"TIDEGATE_TRUST_PROJECT": "1"}
    shop, workspace = SqliteShop(path=tmp_path / "shop.db"), Workspace(folder=tmp_path)
    spark = {"master": "yarn", "conf": {**SMALL, **yarn.conf}}
    workspace.write({"orders": ORDERS}, connections={"shop": {"url": shop.url}}, spark=spark)
    shop.sql(
        "CREATE TABLE orders (id integer PRIMARY KEY, name text, at timestamp NOT NULL)",
        *(f"INSERT INTO orders VALUES ({n}, 'é{n}', '2025-01-01 00:00:{n % 60:02}')" for n in range(1, 101)),
    )
    assert run(workspace, {**yarn.environ, **trusted}) == ("loaded", 100)
    shop.sql(
        "UPDATE orders SET name = 'new', at = '2025-01-02' WHERE id = 7",
        "INSERT INTO orders VALUES (102, 'n', '2025-01-03')",
    )
    assert run(workspace, {**yarn.environ, **trusted}) == ("loaded", 2)
    assert run(workspace, trusted) == ("unchanged", 0)
    assert rows_of(workspace, "iceberg") == shop.rows("SELECT id, name FROM orders ORDER BY id")
    ran = [len(list(application.glob("container_*"))) for application in yarn.applications.glob("application_*")]
    assert ran == [2, 2], "its master and one executor, for each run that moved rows"


@pytest.mark.parametrize("kind", ["iceberg", "delta"])
def test_executors_that_are_killed_in_mid_load_lose_and_double_nothing(
    cluster: Cluster, tmp_path: Path, kind: str
) -> None:
    def ran() -> int:
        return len({application.name for worker in cluster.workers for application in worker.glob("app-*")})

    before = ran()
    shop, workspace = SqliteShop(path=tmp_path / "shop.db"), Workspace(folder=tmp_path)
    shop.sql(
        "CREATE TABLE orders (id integer PRIMARY KEY, name text, at timestamp NOT NULL)",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000) "
        "INSERT INTO orders SELECT i, 'n' || i, '2025-01-01 00:00:00' FROM n",
    )
    conf = {**SMALL, **SPECULATION, "spark.cores.max": "2", "spark.executor.cores": "1"}
    workspace.write(
        {"orders": ORDERS},
        connections={"shop": {"url": shop.url}},
        lakes={"lake": {"format": kind, "warehouse": str(tmp_path / "lake")}},
        spark={"master": cluster.url, "conf": conf},
    )
    assert run_while_executors_die(workspace, cluster, kills=3) == ("loaded", 100_000)
    assert rows_of(workspace, kind) == shop.rows("SELECT id, name FROM orders ORDER BY id")
    shop.sql(
        "UPDATE orders SET name = 'new', at = '2025-01-02' WHERE id % 10 = 3",
        "INSERT INTO orders VALUES (400000, 'n', '2025-01-03')",
    )
    assert run_while_executors_die(workspace, cluster, kills=3) == ("loaded", 10_001)
    assert rows_of(workspace, kind) == shop.rows("SELECT id, name FROM orders ORDER BY id")
    assert run(workspace, {"TIDEGATE_TRUST_PROJECT": "1"}) == ("unchanged", 0)
    assert ran() == before + 2, "a run that finds nothing asks for no executor"


def test_a_cluster_loads_a_topic_into_a_store_through_a_rest_catalog(
    cluster: Cluster, kafka: KafkaServer, s3: ObjectStore, tmp_path: Path
) -> None:
    """Nothing is on a disk that executors share; PyIceberg reads what a dictionary says of the events."""
    topic, expected, workspace = kafka.create_topic(partitions=3), {}, Workspace(folder=tmp_path)

    def send(numbers: range, name: str) -> None:
        rows = [{"id": number, "name": f"{name}{number}", "amount": "BBo="} for number in numbers]
        for partition in range(3):
            events = [event("c" if name == "n" else "u", row, lsn()) for row in rows if row["id"] % 3 == partition]
            kafka.send(topic, *events, partition=partition)
        expected.update((row["id"], row["name"]) for row in rows)

    lsn = itertools.count(1).__next__
    stream = {
        "source": {"connection": "events", "topic": topic, "envelope": "debezium"},
        "target": "lake.shop.orders",
        "key": ["id"],
        "strategy": {"kind": "cdc"},
        "write": "merge",
    }
    folder = tmp_path / "rest"
    folder.mkdir()
    s3.bucket("clustered")
    store = {"CATALOG_IO__IMPL": "org.apache.iceberg.aws.s3.S3FileIO", "CATALOG_S3_ENDPOINT": s3.endpoint}
    store |= {"CATALOG_S3_PATH__STYLE__ACCESS": "true", "CATALOG_CLIENT_REGION": REGION}
    with rest_running(folder, "s3://clustered/tables", jars.resolve(REST_S3), store) as uri:
        place = {"s3.endpoint": s3.endpoint, "client.region": REGION, "s3.path-style-access": "true"}
        conf = {**SMALL, "spark.cores.max": "3", "spark.executor.cores": "1", "spark.executor.instances": "3"}
        conf |= {"spark.sql.shuffle.partitions": "3", "spark.executorEnv.AWS_REGION": REGION}
        login = {"AWS_ACCESS_KEY_ID": ACCESS, "AWS_SECRET_ACCESS_KEY": SECRET}
        conf |= {f"spark.executorEnv.{name}": value for name, value in login.items()}
        workspace.write(
            {"orders": stream},
            connections={"events": {"kafka": kafka.bootstrap}},
            lakes={"lake": {"catalog": {"type": "rest", "uri": uri, **place}, "warehouse": ""}},
            spark={"master": cluster.url, "conf": {**conf, **SPECULATION}},
        )
        send(range(3_000), "n")
        assert run_while_executors_die(workspace, cluster, kills=2) == ("loaded", 3_000)
        send(range(0, 3_000, 7), "u")
        assert run_while_executors_die(workspace, cluster, kills=2) == ("loaded", len(range(0, 3_000, 7)))
        assert run(workspace, {"TIDEGATE_TRUST_PROJECT": "1"}) == ("unchanged", 0)
        with RestCatalog("lake", uri=uri, **place) as catalog:
            found = catalog.load_table(("shop", "orders")).scan().to_arrow().to_pylist()
    assert sorted((row["id"], row["name"]) for row in found) == sorted(expected.items())


def run_while_executors_die(workspace: Workspace, cluster: Cluster, *, kills: int) -> tuple[str, int]:
    """One executor after the other is killed while it runs its first task."""
    dead: set[int] = set()
    with ThreadPoolExecutor(1) as pool:
        ends = pool.submit(run, workspace, {"TIDEGATE_TRUST_PROJECT": "1"})
        while not ends.done():
            pid = next((each for each in executors(cluster) if each not in dead), None)
            if pid is not None and len(dead) < kills:
                dead.add(pid)
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)
        assert len(dead) == kills
        return ends.result()


def executors(cluster: Cluster) -> Iterator[int]:
    """The processes of executors of this cluster that have begun a task."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            here = (folder / "cwd").readlink()
            ours = any(here.is_relative_to(worker) for worker in cluster.workers)
            if ours and "Running task" in (here / "stderr").read_text():
                yield int(folder.name)


def rows_of(workspace: Workspace, kind: str) -> list[tuple[int, str]]:
    found = delta_rows(str(workspace.folder / "lake/shop/orders")) if kind == "delta" else workspace.rows("shop.orders")
    return sorted((row["id"], row["name"]) for row in found)


def run(workspace: Workspace, environ: dict[str, str]) -> tuple[str, int]:
    done = workspace.cli("run", "--json", env=environ)
    assert done.returncode == 0, done.stdout + done.stderr
    (stream,) = json.loads(done.stdout)["streams"]
    return stream["outcome"], stream["rows_read"]
