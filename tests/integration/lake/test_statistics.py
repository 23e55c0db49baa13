"""Trino plans by the statistics that maintenance counts, and keeps doing so; rows and position of the table stay."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from support.trino import TrinoServer, documented_catalog, running
from support.workspace import SqliteShop, Workspace

pytestmark = [pytest.mark.spark, pytest.mark.servers, pytest.mark.postgres, pytest.mark.timeout(600)]

STREAM = {
    "source": {"connection": "shop", "table": "orders"},
    "target": "lake.shop.orders",
    "key": ["id"],
    "strategy": "snapshot_diff",
    "write": "merge",
    # Of every expiry the newest version alone is left.
    "maintenance": {"statistics": True, "keep": 1, "expire_after": "1s"},
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
        lake = {"catalog": {"type": "postgresql", "uri": pg_url}}
        connections = {"shop": {"url": self.source.url}}
        self.workspace.write({"orders": STREAM}, connections=connections, lakes={"lake": lake})

    def load(self, ids: range) -> None:
        self.source.sql(*(f"insert into orders values ({number}, 'v{number % 20}')" for number in ids))
        outcome = self.workspace.run("orders", spark=self.spark).streams[0]
        assert outcome.outcome == "loaded", outcome.error

    def maintain(self, *, force: bool = False) -> list[str]:
        """The steps that were done; the position and what `verify` says are the same before and after."""
        time.sleep(1.1)
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
