"""Layouts that a project can state, with each writer, on both formats: what other readers see is the model.

What a transform holds of every value is in `contract/test_layouts.py`.
"""

from datetime import date, datetime, timedelta
from typing import Any

import pytest

from support.lake import QUICK, delta_rows
from support.workspace import SqliteShop, Workspace

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

START = datetime(2024, 12, 31, 22, 30)  # noqa: DTZ001 - a column without a zone
WRITERS: dict[str, dict[str, Any]] = {
    "append": {"strategy": {"kind": "sequence", "column": "id"}},
    "replace": {"strategy": "full"},
    "merge": {"strategy": "full", "key": ["id"]},
    "scd2": {"strategy": "full", "key": ["id"]},
}
LAYOUTS: dict[str, list[dict[str, Any]]] = {
    "iceberg": [
        {"partition_by": ["days(at)", "truncate(2, region)"], "sort_by": ["at"]},
        {"format_version": 3, "partition_by": ["bucket(4, id)", "region"]},
    ],
    "delta": [{"partition_by": ["region", "day"], "deletion_vectors": True}, {"partition_by": ["at"]}],
}


class Table:
    """A stream of a shop, and what a dictionary says that its table holds."""

    def __init__(self, spark: Any, folder: Any, kind: str, write: str, layout: dict[str, Any]) -> None:
        self.spark, self.kind, self.write = spark, kind, write
        self.shop = SqliteShop(path=folder / "shop.db")
        self.shop.sql("create table orders (id integer primary key autoincrement, region text, at timestamp, day date)")
        self.workspace = Workspace(folder=folder)
        source = {"connection": "shop", "table": "orders"}
        stream = {"source": source, "target": "lake.shop.orders", "write": write, "layout": layout, **WRITERS[write]}
        self.workspace.write(
            {"orders": stream},
            connections={"shop": {"url": self.shop.url}},
            lakes={"lake": {"format": kind}},
            spark={"conf": QUICK},
        )
        self.rows: dict[int, tuple[str, datetime, date]] = {}

    def change(self, rows: dict[int, tuple[str, datetime, date] | None]) -> None:
        for number, row in rows.items():
            self.shop.sql(f"delete from orders where id = {number}")
            self.rows.pop(number, None)
            if row is not None:
                region, at, day = row
                self.shop.sql(f"insert into orders values ({number}, '{region}', '{at}.000000', '{day}')")
                self.rows[number] = row

    def load(self) -> None:
        outcome = self.workspace.run("orders", spark=self.spark, allow_deletes=True).streams[0]
        assert outcome.outcome == "loaded", outcome.error

    def seen(self) -> dict[int, tuple[str, datetime, date]]:
        if self.kind == "delta":
            rows = delta_rows(f"file://{self.workspace.folder}/warehouse/shop/orders")
        else:
            rows = self.workspace.rows("shop.orders")
        current = [row for row in rows if row.get("is_current", True)]
        found = {row["id"]: (row["region"], row["at"], row["day"]) for row in current}
        assert len(found) == len(current), "a key is there twice"
        return found


def row(number: int) -> tuple[str, datetime, date]:
    at = START + timedelta(hours=number)
    return ("north", "north-east", "süd/ost", "x=y")[number % 4], at, at.date()


def history(table: Table) -> None:
    """A load, then rows that come and, where the writer takes them, rows that change, move and go."""
    table.change({number: row(number) for number in range(4)})
    table.load()
    assert table.seen() == table.rows
    table.change({number: row(number) for number in range(4, 6)})
    if table.write != "append":
        table.change({0: row(5), 1: ("north-east", *row(1)[1:]), 2: None})
    table.load()
    assert table.seen() == table.rows


def check(workspace: Workspace) -> None:
    with workspace.project() as project:
        assert [problem for stream in project.check(source=True) for problem in stream.problems] == []


@pytest.mark.parametrize("kind", LAYOUTS)
def test_each_writer_on_each_layout(spark, tmp_path, kind):
    for number, write in enumerate(WRITERS):
        folder = tmp_path / write
        folder.mkdir()
        table = Table(spark, folder, kind, write, LAYOUTS[kind][number % 2])
        check(table.workspace)
        history(table)
