"""A shop in one SQLite file and a project that loads it, in either format; read back by PyIceberg or delta-rs."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support.lake import QUICK, delta_rows
from support.shops import PostgresShop
from support.workspace import SqliteShop, Workspace
from tidegate.core.outcome import Outcome
from tidegate.formats.delta import Delta

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOADED_ON = "2025-01-01 00:00:00.000000"


@dataclass(kw_only=True)
class Bench:
    """A source, its project and the table `lake.out.t`."""

    shop: SqliteShop | PostgresShop
    workspace: Workspace
    spark: SparkSession

    def run(self, **options: Any) -> Outcome:
        return self.workspace.run(spark=self.spark, **options).streams[0]

    def loaded(self, **options: Any) -> Outcome:
        outcome = self.run(**options)
        assert outcome.error is None, outcome.error
        assert outcome.outcome == "loaded", outcome
        assert outcome.verified is True
        return outcome

    def rows(self) -> list[dict[str, Any]]:
        """What PyIceberg or delta-rs reads."""
        with self.workspace.project(self.spark) as project:
            stream = project.streams()[0]
        if isinstance(stream.format, Delta):
            found = delta_rows(stream.format._location(stream.target))
        else:
            found = self.workspace.rows("out.t")
        return sorted(found, key=lambda row: json.dumps(row, default=str))

    def ids(self) -> list[Any]:
        """Of the rows that are not marked as deleted."""
        return sorted(row["id"] for row in self.rows() if row.get("deleted_at") is None)

    def wanted(self) -> list[Any]:
        return sorted(row[0] for row in self.shop.rows("select id from t"))


@pytest.fixture(params=["iceberg", "delta"])
def format_(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def bench_of(spark: SparkSession, tmp_path: Path) -> Callable[..., Bench]:
    def make(
        *,
        format_: str = "iceberg",
        columns: str = "id integer primary key, name text",
        shop: SqliteShop | PostgresShop | None = None,
        **stream: Any,
    ) -> Bench:
        shop = shop or SqliteShop(path=tmp_path / "shop.db")
        shop.sql(f"create table t ({columns})")
        workspace = Workspace(folder=tmp_path)
        given = {"source": {"connection": "shop", "table": "t"}, "target": "lake.out.t", "key": ["id"], **stream}
        lakes = {"lake": {"format": format_}}
        connections = {"shop": {"url": shop.url}}
        workspace.write({"t": {"write": "merge", **given}}, connections=connections, lakes=lakes, spark={"conf": QUICK})
        return Bench(shop=shop, workspace=workspace, spark=spark)

    return make
