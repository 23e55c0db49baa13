"""Maintenance as Trino sees it: the statistics that it plans by, and how long a query takes before and after."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import Any

import pytest

from support.trino import TrinoServer, documented_catalog, running
from support.workspace import SqliteShop, Workspace
from tidegate.telemetry.metrics import Metrics

pytestmark = [pytest.mark.spark, pytest.mark.servers, pytest.mark.postgres, pytest.mark.timeout(600)]

STREAM: dict[str, Any] = {
    "source": {"connection": "shop", "table": "orders"},
    "target": "lake.shop.orders",
    "key": ["id"],
    "strategy": "snapshot_diff",
    "write": "merge",
    # Of every expiry the newest version alone is left.
    "maintenance": {"statistics": True, "keep": 1, "expire_after": "0s"},
}
DAYS = 86_400


def distinct(server: TrinoServer) -> dict[str, float | None]:
    """How many distinct values Trino takes each column to have."""
    return {row[0]: row[2] for row in server.run("SHOW STATS FOR lake.shop.orders") if row[0] is not None}


class Shop:
    """A stream, its table, and how both are asked."""

    def __init__(self, folder: Path, spark: Any, pg_url: str) -> None:
        self.spark, self.workspace, self.folder = spark, Workspace(folder=folder), folder
        self.source = SqliteShop(path=folder / "shop.db")
        self.source.sql("create table orders (id integer primary key, v text)")
        self.lake = {"catalog": {"type": "postgresql", "uri": pg_url}}
        self.configure(**STREAM["maintenance"])

    def configure(self, trino: str | None = None, **maintenance: Any) -> None:
        connections = {"shop": {"url": self.source.url}} | ({"tree": {"url": trino}} if trino else {})
        stream = {**STREAM, "maintenance": maintenance}
        self.workspace.write({"orders": stream}, connections=connections, lakes={"lake": self.lake})

    def load(self, ids: range) -> None:
        self.source.sql(*(f"insert into orders values ({number}, 'v{number % 20}')" for number in ids))
        outcome = self.workspace.run("orders", spark=self.spark).streams[0]
        assert outcome.outcome == "loaded", outcome.error

    def maintain(self, *, force: bool = False) -> list[str]:
        """The steps that were done; the position and what `verify` says are the same before and after."""
        with self.workspace.project(self.spark) as project:
            before = self.position(project)
            done = project.maintain("orders", force=force).streams[0]
            assert done.error is None, done.error
            assert self.position(project) == before
            assert project.verify(level="rows").streams[0].equal
            outcome = project.run().streams[0]
            assert (outcome.outcome, outcome.spark_started) == ("unchanged", False)
        return [str(each.step) for each in done.tables[0].steps]

    @staticmethod
    def position(project: Any) -> Any:
        stream = project.streams("orders")[0]
        return stream.format.state(stream.target, stream.uid).position

    def files(self) -> set[Path]:
        return set((self.folder / "warehouse/shop/orders/metadata").glob("*.stats"))


def test_trino_plans_by_what_maintenance_counts(spark, tmp_path, pg_url):
    shop = Shop(tmp_path, spark, pg_url)
    shop.load(range(100))
    with running(catalogs={"lake": documented_catalog(pg_url, tmp_path)}) as server:
        assert distinct(server) == {"id": None, "v": None}
        assert "statistics" in shop.maintain()
        assert distinct(server) == {"id": 100, "v": 20}
        assert shop.maintain() == []

        # Few rows come: what was counted of an earlier snapshot is planned by, until that expires.
        shop.load(range(100, 105))
        assert distinct(server) == {"id": 100, "v": 20}
        assert [step for step in shop.maintain() if step in ("expire", "statistics")] == ["expire", "statistics"]
        assert distinct(server) == {"id": 105, "v": 20}

        # A process that was killed between the file of statistics and the commit leaves the file behind.
        (live,) = shop.files()
        left = live.with_name("1-11111111-1111-1111-1111-111111111111.stats")
        left.write_bytes(live.read_bytes())
        for path in (tmp_path / "warehouse").rglob("*"):
            os.utime(path, (time.time() - 4 * DAYS,) * 2)
        assert "orphans" in shop.maintain(force=True)
        assert shop.files() == {live}
        assert distinct(server) == {"id": 105, "v": 20}
        assert sorted(map(tuple, server.run("SELECT count(*), count(DISTINCT v) FROM lake.shop.orders"))) == [(105, 20)]


def test_a_query_is_measured_by_trino(spark, tmp_path, pg_url):
    shop = Shop(tmp_path, spark, pg_url)
    with running(catalogs={"lake": documented_catalog(pg_url, tmp_path)}) as server:
        query = {"measure_query": "SELECT v, count(*) FROM {table} GROUP BY v", "measure_by": "tree"}
        shop.configure(server.url("lake", "other"), **query)
        for begin in (0, 10, 20):
            shop.load(range(begin, begin + 10))

        def maintained() -> Any:
            with shop.workspace.project(spark) as project:
                return project.maintain("orders", force=True).streams[0]

        # A table of the same name in another catalog, and a query that tells something else each time.
        server.run("CREATE SCHEMA iceberg.shop", "CREATE TABLE iceberg.shop.orders (id bigint, v varchar)")
        server.run("INSERT INTO iceberg.shop.orders VALUES (1, 'v1')")
        shop.configure(server.url("iceberg", "shop"), **query)
        assert maintained().error.code == "source_moved"
        shop.configure(server.url("lake", "shop"), **query | {"measure_query": "SELECT random(), id FROM {table}"})
        refused = maintained().error
        assert (refused.code, "gave 4 different answers" in refused.message) == ("config", True)
        assert server.run('SELECT count(*) FROM lake.shop."orders$files"') == [[3]]

        shop.configure(server.url("lake", "shop"), **query)
        (table, *_) = maintained().tables
        assert server.run('SELECT count(*) FROM lake.shop."orders$files"') == [[1]]
        assert (table.query.engine, table.query.before > 0 < table.query.after) == ("tree", True)
        with shop.workspace.project(spark) as project:
            told = Metrics(config=project.config, lakes=project.lakes, tables=True).render().decode()
        (figure,) = re.findall(r"^tidegate_query_performance_improvement_percent\{.*\} (\S+)$", told, re.MULTILINE)
        assert float(figure) == pytest.approx(table.query.improvement)
