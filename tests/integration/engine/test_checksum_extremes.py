"""Partitions at the ends of a type, loaded as people load them."""

from pathlib import Path

import pytest

from support.shops import PostgresShop
from support.workspace import SqliteShop, Workspace

pytestmark = [pytest.mark.spark, pytest.mark.slow]

LEAST, GREATEST = -(2**31), 2**31 - 1


def write(workspace: Workspace, url: str, strategy: dict, **stream) -> None:
    source = {"connection": "shop", "table": "sales"} | stream.pop("source", {})
    made = {"source": source, "target": "lake.shop.sales", "strategy": {"kind": "checksum", **strategy}}
    workspace.write({"sales": {**made, "write": "replace", **stream}}, connections={"shop": {"url": url}})


def loaded(workspace: Workspace, shop, spark) -> None:
    """One run; afterwards PyIceberg reads what the source's own driver does."""
    (outcome,) = workspace.run("sales", spark=spark).streams
    assert (outcome.error, outcome.verified) == (None, True)
    found = sorted((row["g"], row["v"]) for row in workspace.rows("shop.sales"))
    assert found == sorted(shop.rows("select g, v from sales"))


def test_steps_at_both_ends(tmp_path: Path, spark) -> None:
    shop, workspace = SqliteShop(path=tmp_path / "shop.db"), Workspace(folder=tmp_path)
    ends = ", ".join(f"({number}, 'a')" for number in (-1, 0, 5, GREATEST - 1, GREATEST))
    shop.sql("create table sales (g int, v text)", f"insert into sales values {ends}")
    write(
        workspace, shop.url, {"method": "by_integer", "column": "g", "modulus": 1000}, source={"columns": {"g": "int"}}
    )
    loaded(workspace, shop, spark)
    shop.sql(f"insert into sales values ({LEAST}, 'b'), ({LEAST}, 'b'), ({LEAST + 1}, 'b')")
    loaded(workspace, shop, spark)
    shop.sql(f"delete from sales where g = {GREATEST}")
    loaded(workspace, shop, spark)
    shop.sql(f"update sales set v = 'c' where g in ({LEAST}, 5)", f"delete from sales where g = {LEAST + 1}")
    loaded(workspace, shop, spark)


@pytest.mark.postgres
@pytest.mark.parametrize("key", [(), ("g",)], ids=["replace", "merge"])
def test_the_range_below_all_others(tmp_path: Path, spark, pg_url: str, key: tuple[str, ...]) -> None:
    shop, workspace = PostgresShop(url=pg_url), Workspace(folder=tmp_path)
    shop.sql(
        "create table sales (g int not null, v text) partition by range (g)",
        "create table sales_low partition of sales for values from (minvalue) to (0)",
        "create table sales_mid partition of sales for values from (0) to (3000)",
        "create table sales_top partition of sales for values from (3000) to (maxvalue)",
        f"insert into sales values (-5000, 'a'), (-7, 'a'), (0, 'a'), (2999, 'a'), (3000, 'a'), ({GREATEST}, 'a')",
    )
    writer = {"key": list(key), "write": "merge"} if key else {}
    write(workspace, pg_url, {"method": "by_range"}, **writer)
    loaded(workspace, shop, spark)
    shop.sql("delete from sales where g = -7", "insert into sales values (-6, 'b')")
    loaded(workspace, shop, spark)
    shop.sql("delete from sales where g < 0")
    loaded(workspace, shop, spark)
    shop.sql(f"insert into sales values ({LEAST}, 'c'), (-1, 'c')")
    loaded(workspace, shop, spark)
    shop.sql(f"update sales set v = 'd' where g in ({LEAST}, {GREATEST})")
    loaded(workspace, shop, spark)
