"""The code of the page about other engines reads the rows of a table that a load made, and Trino's settings do."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support.trino import documented_catalog, running
from support.workspace import SqliteShop, Workspace

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

PAGE = Path(__file__).parents[3] / "docs" / "lakes" / "readers.md"
BLOCKS = dict(re.findall(r"^## (\w+)\n\n```python test-lake\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL))
ROWS = [(1, "a"), (2, "b"), (3, None)]


def loaded(folder: Path, spark: Any, **lake: Any) -> Workspace:
    shop = SqliteShop(path=folder / "shop.db")
    shop.sql("create table orders (id integer primary key, v text)")
    shop.sql("insert into orders values (1, 'a'), (2, 'old'), (3, null)")
    workspace = Workspace(folder=folder)
    stream = {"source": {"connection": "shop", "table": "orders"}, "target": "lake.shop.orders", "key": ["id"]}
    stream |= {"strategy": "snapshot_diff", "write": "merge"}
    workspace.write({"orders": stream}, connections={"shop": {"url": shop.url}}, lakes={"lake": lake})
    for change in ("select 1", "update orders set v = 'b' where id = 2"):  # the second one leaves a file of deletes
        shop.sql(change)
        done = workspace.run("orders", spark=spark).streams[0]
        assert done.error is None, done.error
    return workspace


def test_each_example_reads_the_rows(spark, tmp_path, monkeypatch):
    assert set(BLOCKS) == {"PyIceberg", "Spark", "DuckDB", "Polars"}
    loaded(tmp_path, spark)
    monkeypatch.chdir(tmp_path)
    for engine, code in BLOCKS.items():
        if engine == "Spark":
            rows = read_by_spark(spark.newSession(), code, tmp_path)
        else:
            names: dict[str, Any] = {}
            exec(code, names)
            rows = pa.table(names["rows"])
        assert sorted((row["id"], row["v"]) for row in rows.to_pylist()) == ROWS, engine


def read_by_spark(session: Any, code: str, folder: Path) -> pa.Table:
    """The example in a session of its own, whose JVM works in another folder."""
    for name, value in re.findall(r'config\("(spark\.sql[^"]*)", "([^"]*)"\)', code):
        session.conf.set(name, value.replace(":.tidegate", f":{folder}/.tidegate"))
    read = re.search(r"rows = spark\.(.*)", code)
    assert read is not None
    found: pa.Table = eval(f"session.{read[1]}", {"session": session})
    return found


@pytest.mark.servers
@pytest.mark.postgres
def test_trino_reads_the_catalog_in_postgresql(spark, tmp_path, pg_url):
    loaded(tmp_path, spark, catalog={"type": "postgresql", "uri": pg_url})
    with running(catalogs={"lake": documented_catalog(pg_url, tmp_path)}) as server:
        assert sorted(map(tuple, server.run("SELECT id, v FROM lake.shop.orders"))) == ROWS
