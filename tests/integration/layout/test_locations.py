"""Tables that lie where their stream says: made there, found there again, and alone there."""

import os
import time
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from support.lake import QUICK, delta_rows
from support.workspace import SqliteShop, Workspace

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


class Placed:
    """A stream whose table lies in a folder of its own."""

    def __init__(self, spark: Any, folder: Path, kind: str) -> None:
        self.spark, self.kind, self.folder = spark, kind, folder
        self.workspace = Workspace(folder=folder)
        self.shop = SqliteShop(path=folder / "shop.db")
        self.shop.sql("create table orders (id integer primary key, v text)", "insert into orders values (1, 'a')")
        self.place("elsewhere/orders")

    def place(self, location: str | None) -> None:
        target = "lake.shop.orders" if location is None else {"table": "lake.shop.orders", "location": location}
        source = {"connection": "shop", "table": "orders"}
        stream = {"source": source, "target": target, "key": ["id"], "strategy": "snapshot_diff", "write": "merge"}
        self.workspace.write(
            {"orders": stream},
            connections={"shop": {"url": self.shop.url}},
            lakes={"lake": {"format": self.kind}},
            spark={"conf": QUICK},
        )

    def run(self) -> Any:
        return self.workspace.run("orders", spark=self.spark).streams[0]

    def load(self, number: int) -> None:
        self.shop.sql(f"insert into orders values ({number}, 'a')")
        done = self.run()
        assert done.error is None, done.error

    def ids(self, location: str = "elsewhere/orders") -> list[int]:
        if self.kind == "delta":
            rows = delta_rows(f"file://{self.folder / location}")
        else:
            table = self.workspace.table("shop.orders")
            assert table.location().removeprefix("file:").lstrip("/") == str(self.folder / location).lstrip("/")
            rows = table.scan().to_arrow().to_pylist()
        return sorted(row["id"] for row in rows)


@pytest.mark.parametrize("kind", ["iceberg", "delta"])
def test_a_table_lies_where_its_stream_says(spark, tmp_path, kind):
    placed = Placed(spark, tmp_path, kind)
    placed.load(2)
    placed.load(3)
    assert placed.ids() == [1, 2, 3]
    assert not (tmp_path / "warehouse" / "shop" / "orders").exists()

    beside = tmp_path / "elsewhere" / "orders__other" / "part.parquet"
    beside.parent.mkdir()
    old = time.time() - 90 * 86400
    for file in (beside, tmp_path / "elsewhere" / "other.parquet"):
        file.write_text("somebody else's")
        os.utime(file, (old, old))
    with placed.workspace.project(spark) as project:
        done = project.maintain("orders", force=True).streams[0]
        assert done.error is None
        assert project.show("orders").location.endswith(f"{tmp_path}/elsewhere/orders")
        (found,) = project.verify("orders", level="rows").streams
        assert found.equal
        (status,) = project.status()
        assert status.problem is None
    assert beside.read_text() == (tmp_path / "elsewhere" / "other.parquet").read_text() == "somebody else's"
    if kind == "delta":
        assert DeltaTable(str(tmp_path / "elsewhere" / "orders")).version() >= 2

    placed.place("elsewhere/moved")
    error = placed.run().error
    if kind == "iceberg":
        assert error.code == "config"
        assert f"{tmp_path}/elsewhere/orders, but" in error.message
    else:
        assert error.code == "position_moved"  # the registry knows that it was loaded, and the new place is empty
    assert not (tmp_path / "elsewhere" / "moved").exists()
    placed.place("elsewhere/orders")
    placed.load(4)
    assert placed.ids() == [1, 2, 3, 4]


@pytest.mark.parametrize("kind", ["iceberg", "delta"])
def test_a_place_with_other_files_or_beside_the_loaded_table_is_refused(spark, tmp_path, kind):
    placed = Placed(spark, tmp_path, kind)
    there = tmp_path / "elsewhere" / "orders" / "notes.txt"
    there.parent.mkdir(parents=True)
    there.write_text("mine")
    error = placed.run().error
    told = "is not empty (notes.txt), and maintenance would delete what is not the table's"
    assert (error.code, told in error.message) == (("config", True) if kind == "iceberg" else ("write", False))
    assert [path.name for path in there.parent.iterdir()] == ["notes.txt"]
    there.unlink()
    placed.place(None)
    assert placed.run().error is None
    placed.workspace.forget_registry()
    placed.place("elsewhere/orders")
    error = placed.run().error
    assert error.code == "config"
    assert f"{tmp_path}/warehouse/shop/orders, but" in error.message
