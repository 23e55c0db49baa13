"""What the source says of its columns is declared in the table, and given up where the source gives it up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import deltalake
import duckdb
import pytest

from support.lake import delta_rows
from support.workspace import Workspace
from tidegate.core.outcome import Result

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

DELTA = {"lakes": {"lake": {"format": "delta"}}}
MERGE = {"key": ["id"], "strategy": "snapshot_diff", "write": "merge"}


class Shop:
    """A DuckDB file, and the stream of its only table."""

    def __init__(self, folder: Path) -> None:
        self.workspace = Workspace(folder=folder)
        self.file = folder / "shop.duckdb"
        self.sql(
            "create table orders (id bigint primary key, name varchar not null, note varchar, code integer not null)",
            "comment on table orders is 'Orders of the shop''s site'",
            "comment on column orders.name is 'Who ordered\nit'",
        )

    def sql(self, *statements: str) -> None:
        with duckdb.connect(str(self.file)) as connection:
            for statement in statements:
                connection.execute(statement)

    def write(self, rest: Any, **stream: Any) -> None:
        orders = {"source": {"connection": "shop", "table": "orders"}, "target": "lake.shop.orders", **MERGE, **stream}
        self.workspace.write({"orders": orders}, connections={"shop": {"url": f"duckdb:///{self.file}"}}, **rest)

    def run(self, spark: Any) -> Any:
        return self.workspace.run("orders", spark=spark).streams[0]

    @property
    def location(self) -> str:
        return str(self.workspace.folder / "warehouse" / "shop" / "orders")


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def test_iceberg_declares_required_columns_comments_and_the_key(shop: Shop, spark: Any) -> None:
    shop.write({}, deletes={"apply": "soft"}, layout={"sort_by": ["name"]})
    shop.sql("insert into orders values (1, 'a', null, 7)")
    assert shop.run(spark).outcome is Result.LOADED
    table = shop.workspace.table("shop.orders")
    required = {field.name: field.required for field in table.schema().fields}
    assert required == {"id": True, "name": True, "note": False, "code": True, "deleted_at": False}
    assert table.schema().find_field("name").doc == "Who ordered\nit"
    assert table.properties["comment"] == "Orders of the shop's site"
    assert table.schema().identifier_field_names() == {"id"}
    # A row that goes is marked, a promise that is withdrawn is withdrawn, and a column that is gone has no value.
    shop.sql("delete from orders", "alter table orders alter name drop not null", "alter table orders drop column code")
    shop.sql("insert into orders values (2, null, 'x')")
    done = shop.run(spark)
    assert (done.outcome, done.error) == (Result.LOADED, None)
    rows = {
        row["id"]: (row["name"], row["code"], row["deleted_at"] is None) for row in shop.workspace.rows("shop.orders")
    }
    assert rows == {1: ("a", 7, False), 2: (None, None, True)}
    table = shop.workspace.table("shop.orders")
    assert {field.name for field in table.schema().fields if field.required} == {"id"}
    assert table.schema().identifier_field_names() == {"id"}


def test_delta_declares_required_columns_and_comments(shop: Shop, spark: Any) -> None:
    shop.write(DELTA)
    shop.sql("insert into orders values (1, 'a', null, 7)")
    assert shop.run(spark).outcome is Result.LOADED
    table = deltalake.DeltaTable(shop.location)
    fields = {field.name: field for field in table.schema().fields}
    assert {name for name, field in fields.items() if not field.nullable} == {"id", "name", "code"}
    assert fields["name"].metadata["comment"] == "Who ordered\nit"
    assert table.metadata().description == "Orders of the shop's site"
    assert table.to_pyarrow_table().num_rows == 1
    shop.sql("alter table orders alter name drop not null", "alter table orders drop column code")
    shop.sql("insert into orders values (2, null, 'x')")
    done = shop.run(spark)
    assert (done.outcome, done.error) == (Result.LOADED, None)
    rows = {row["id"]: (row["name"], row["code"]) for row in delta_rows(shop.location)}
    assert rows == {1: ("a", 7), 2: (None, None)}


@pytest.mark.parametrize("rest", [{}, DELTA], ids=["iceberg", "delta"])
def test_a_contract_that_says_stop_holds_the_promise(shop: Shop, spark: Any, rest: Any) -> None:
    shop.write(rest, contract={"nullability": "stop"})
    shop.sql("insert into orders values (1, 'a', null, 7)")
    shop.run(spark)
    shop.sql("alter table orders alter name drop not null", "insert into orders values (2, null, 'x', 8)")
    done = shop.run(spark)
    assert (done.outcome, done.error.code) == (Result.STOPPED, "schema_refused")
    assert "name: nullability" in done.error.message


@pytest.mark.parametrize("rest", [{}, DELTA], ids=["iceberg", "delta"])
@pytest.mark.parametrize("write", ["replace", "scd2", "merge"])
def test_every_writer_fills_required_columns(shop: Shop, spark: Any, write: str, rest: Any) -> None:
    shop.write(rest, write=write)
    assert shop.run(spark).outcome is Result.LOADED, "created without rows"
    shop.sql("insert into orders values (1, 'a', null, 7), (2, 'b', null, 8)")
    assert shop.run(spark).error is None
    shop.sql("update orders set name = 'c' where id = 1", "delete from orders where id = 2")
    done = shop.run(spark)
    assert (done.outcome, done.error) == (Result.LOADED, None)
    shop.sql("comment on column orders.name is 'Somebody'")
    assert shop.run(spark).outcome is Result.UNCHANGED, "a comment is no change"
