"""A small shop with good and bad rows, and what independent readers see of the table and of its quarantine."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from deltalake import DeltaTable

from support.lake import QUICK, delta_rows
from support.workspace import SqliteShop, Workspace

BESIDE = "__tidegate_quarantine"
ASIDE = {"on_fail": "quarantine"}
CHECKS = [{"expression": "amount >= 0", **ASIDE}, {"accepted_values": "status", "values": ["paid", "open"], **ASIDE}]


@dataclass(frozen=True, kw_only=True)
class Bench:
    """A project with one stream `orders` on one format."""

    shop: SqliteShop
    workspace: Workspace
    format: str

    def stream(self, checks: list, **options) -> None:
        stream = {
            "source": {"connection": "shop", "table": "orders"},
            "target": "lake.shop.orders",
            "key": ["id"],
            "strategy": {"kind": "watermark", "column": "updated_at"},
            "write": "merge",
            **options,
            "checks": checks,
        }
        streams = {"orders": {key: value for key, value in stream.items() if value is not None}}
        lakes = {"lake": {"format": self.format}}
        connections = {"shop": {"url": self.shop.url}}
        self.workspace.write(streams, connections=connections, lakes=lakes, spark={"conf": QUICK})

    def run(self, spark, **options):
        return self.workspace.run("orders", spark=spark, **options).streams[0]

    def rows(self, name: str) -> list[dict]:
        if self.format == "iceberg":
            return self.workspace.rows(f"shop.{name}")
        return delta_rows(str(self.workspace.folder / "warehouse" / "shop" / name))

    @property
    def made(self) -> bool:
        """Whether there is a table, as an independent reader sees it."""
        if self.format == "iceberg":
            return self.workspace.has_table("shop.orders")
        return DeltaTable.is_deltatable(str(self.workspace.folder / "warehouse" / "shop" / "orders"))

    @property
    def good(self) -> list[tuple]:
        return sorted((row["id"], row["amount"]) for row in self.rows("orders"))

    @property
    def waiting(self) -> list[int]:
        """The amounts of the rows that wait."""
        return sorted(int(json.loads(row["row"])["amount"]) for row in self.kept if row["until"] is None)

    def replay(self, spark):
        with self.workspace.project(spark) as project:
            return project.quarantine("orders").replay()

    @property
    def kept(self) -> list[dict]:
        return sorted(self.rows(f"orders{BESIDE}"), key=lambda row: (row["load"], row["row"] or ""))


@pytest.fixture(params=["iceberg", "delta"])
def bench(request, tmp_path: Path) -> Bench:
    return on(request.param, tmp_path)


def on(format: str, tmp_path: Path) -> Bench:  # noqa: A002 - a table format is a `format` everywhere
    """Four orders, and a workspace of that format."""
    shop = SqliteShop(path=tmp_path / "shop.db")
    shop.sql(
        "create table orders (id integer primary key autoincrement, amount integer, status text, updated_at timestamp)",
        "insert into orders values (1, 10, 'paid', '2025-01-01 00:00:01'), (2, -5, 'paid', '2025-01-01 00:00:02'), "
        "(3, 30, 'odd', '2025-01-01 00:00:03.123456'), (4, null, 'paid', '2025-01-01 00:00:04')",
    )
    return Bench(shop=shop, workspace=Workspace(folder=tmp_path), format=format)
