"""A shop on SQLite and its stream into each kind of lake, loaded in one Spark."""

import itertools
import json
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from support.lake import QUICK, delta_rows
from support.workspace import SqliteShop, Workspace
from tidegate.api import Project

STREAM = {
    "source": {"connection": "shop", "table": "orders"},
    "target": "lake.shop.orders",
    "key": ["id"],
    "strategy": {"kind": "watermark", "column": "updated_at"},
    "write": "merge",
}
EPOCH = datetime(2025, 1, 1)  # noqa: DTZ001 - a column without zone


@dataclass
class Loads:
    """One project that loads again and again, and what its table should hold."""

    kind: str
    workspace: Workspace
    shop: SqliteShop
    spark: Any
    orders: dict = field(default_factory=dict)
    _clock: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def configure(self, **stream: Any) -> None:
        lake = {"format": self.kind} if self.kind == "delta" else {}
        self.workspace.write(
            {"orders": {**STREAM, **stream}},
            connections={"shop": {"url": self.shop.url}},
            lakes={"lake": lake},
            spark={"conf": QUICK},
        )

    def change(self, *ids: int) -> None:
        """These orders are there and have changed."""
        for number in ids:
            at = EPOCH + timedelta(hours=next(self._clock))
            amount = f"a{next(self._clock)}"
            self.orders[number] = amount
            self.shop.sql(f"insert or replace into orders values ({number}, '{amount}', '{at}.000000')")

    def change_many(self, ids: range) -> None:
        """The same of many orders, in one transaction."""
        from sqlite3 import connect

        at = EPOCH + timedelta(hours=next(self._clock))
        rows = [(number, f"a{number}", f"{at}.000000") for number in ids]
        with connect(self.shop.path) as connection:
            connection.executemany("insert or replace into orders values (?, ?, ?)", rows)
        connection.close()
        self.orders |= {number: amount for number, amount, _ in rows}

    def run(self, **options: Any) -> Any:
        return self.workspace.run("orders", spark=self.spark, **options).streams[0]

    def load(self, *ids: int) -> Any:
        self.change(*ids)
        outcome = self.run()
        assert outcome.outcome == "loaded", outcome.error
        return outcome

    def maintain(self, **options: Any) -> Any:
        with self.project() as project:
            report = project.maintain("orders", **options)
        assert report.exit_code == 0, report.to_dict()
        return report.streams[0]

    def command(self, *words: str) -> tuple[int, dict]:
        """The command line on the Spark that is there; its exit code and its document."""
        from io import StringIO

        from tidegate.cli.app import main

        said = StringIO()
        with redirect_stdout(said):
            code = main([*words, "--json", "--project", str(self.workspace.folder)])
        return code, json.loads(said.getvalue())

    def project(self) -> Project:
        return self.workspace.project(self.spark)

    def state(self) -> Any:
        with self.project() as project:
            stream = project.streams("orders")[0]
            return stream.format.state(stream.target, stream.uid)

    def rows(self) -> dict:
        """What PyIceberg or delta-rs reads."""
        rows = delta_rows(self.location) if self.kind == "delta" else self.workspace.rows("shop.orders")
        found = {row["id"]: row["amount"] for row in rows}
        assert len(found) == len(rows), "a key is there twice"
        return found

    @property
    def location(self) -> str:
        return f"file://{self.folder}"

    @property
    def folder(self) -> Path:
        return self.workspace.folder / "warehouse" / "shop" / "orders"

    def steps(self, upkeep: Any) -> list[str]:
        return [str(done.step) for done in upkeep.tables[0].steps]


@pytest.fixture(params=["iceberg", "delta"])
def loads(request: pytest.FixtureRequest, spark: Any, tmp_path: Path) -> Loads:
    shop = SqliteShop(path=tmp_path / "shop.db")
    shop.sql("create table orders (id integer primary key, amount text, updated_at timestamp)")
    found = Loads(kind=request.param, workspace=Workspace(folder=tmp_path), shop=shop, spark=spark)
    found.configure()
    return found
