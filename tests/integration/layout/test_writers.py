"""Every layout that a project can state, with each writer, on both formats: what other readers see is the model."""

import itertools
import re
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
        {},
        {"partition_by": ["region"]},
        *({"partition_by": [f"{word}(at)"]} for word in ("years", "months", "days", "hours")),
        {"partition_by": ["days(day)"]},
        {"partition_by": ["bucket(4, id)"]},
        {"partition_by": ["truncate(2, region)"]},
        {"sort_by": ["region", "at"]},
        {"format_version": 3, "partition_by": ["days(at)"]},
    ],
    "delta": [{}, {"partition_by": ["region"]}, {"partition_by": ["at"]}, {"partition_by": ["day"]}],
}
TOGETHER: dict[str, dict[str, Any]] = {
    "iceberg": {"partition_by": ["days(at)", "truncate(2, region)"], "sort_by": ["at"]},
    "delta": {"partition_by": ["region", "day"], "deletion_vectors": True},
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


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.exhaustive if kind == "delta" else ()) for kind in TOGETHER]
)
def test_a_merge_into_a_table_of_many_partitions(spark, tmp_path, kind):
    table = Table(spark, tmp_path, kind, "merge", TOGETHER[kind])
    check(table.workspace)
    history(table)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("kind", "write"), list(itertools.product(LAYOUTS, WRITERS)))
def test_each_writer_on_each_layout(spark, tmp_path, kind, write):
    for number, layout in enumerate([*LAYOUTS[kind], TOGETHER[kind]]):
        folder = tmp_path / str(number)
        folder.mkdir()
        table = Table(spark, folder, kind, write, layout)
        check(table.workspace)
        history(table)


@pytest.mark.parametrize(
    ("kind", "layout", "told"),
    [
        ("iceberg", {"partition_by": ["days(region)"]}, "transforms a column of type string; days takes"),
        ("iceberg", {"partition_by": ["weeks(at)"]}, "partition_by names 'weeks(at)'|is not understood"),
        ("delta", {"partition_by": ["place"]}, "partition_by names 'place', which is not a column"),
        ("delta", {"partition_by": ["id", "region", "at", "day"]}, "names every column of the table"),
    ],
)
def test_a_layout_that_does_not_fit_the_columns_is_refused_before_a_row_is_read(spark, tmp_path, kind, layout, told):
    table = Table(spark, tmp_path, kind, "replace", layout)
    table.change({1: row(1)})
    with table.workspace.project() as project:
        ((problem,),) = [stream.problems for stream in project.check(source=True)]
        (planned,) = project.plan().streams
    done = table.workspace.run("orders", spark=spark).streams[0]
    for error in (planned.error, done.error):
        assert error.code == "config"
        assert re.search(told, error.message), error.message
    assert re.search(told, problem)
    assert done.seconds["read"] == done.seconds["check"] == 0
    assert not (tmp_path / "warehouse").exists()
