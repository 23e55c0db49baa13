"""A layout that does not fit the columns is refused by every command before a row is read and before Spark starts."""

import re

import pytest

from support.workspace import SqliteShop, Workspace


@pytest.mark.parametrize(
    ("kind", "layout", "told"),
    [
        ("iceberg", {"partition_by": ["days(region)"]}, "transforms a column of type string; days takes"),
        ("iceberg", {"partition_by": ["weeks(at)"]}, "partition_by names 'weeks(at)'|is not understood"),
        ("delta", {"partition_by": ["place"]}, "partition_by names 'place', which is not a column"),
        ("delta", {"partition_by": ["id", "region", "at"]}, "names every column of the table"),
    ],
)
def test_a_layout_that_does_not_fit_the_columns(no_spark, tmp_path, kind, layout, told):
    shop, workspace = SqliteShop(path=tmp_path / "shop.db"), Workspace(folder=tmp_path)
    shop.sql("create table orders (id integer primary key, region text, at timestamp)")
    stream = {"source": {"connection": "shop", "table": "orders"}, "target": "lake.shop.orders", "layout": layout}
    streams = {"orders": {**stream, "strategy": "full", "write": "replace"}}
    workspace.write(streams, connections={"shop": {"url": shop.url}}, lakes={"lake": {"format": kind}})
    with workspace.project() as project:
        ((problem,),) = [stream.problems for stream in project.check(source=True)]
        (planned,), (done,) = project.plan().streams, project.run().streams
    assert [error.code for error in (planned.error, done.error)] == ["config", "config"]
    assert [text for text in (problem, planned.error.message, done.error.message) if not re.search(told, text)] == []
    assert not (tmp_path / "warehouse").exists()
