"""A fault that a person has to repair is named, with the command that repairs it; the table is as it was."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from support.lake import QUICK
from support.workspace import SqliteShop, Workspace

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


def stream(kind: str, tmp_path: Path) -> tuple[Workspace, SqliteShop]:
    shop, workspace = SqliteShop(path=tmp_path / "shop.db"), Workspace(folder=tmp_path)
    shop.sql("create table orders (id integer primary key, name text not null)")
    shop.sql(*(f"insert into orders values ({n}, 'n{n}')" for n in range(50)))
    one = {
        "source": {"connection": "shop", "table": "orders"},
        "target": "lake.shop.orders",
        "key": "id",
        "strategy": "checksum",
        "write": "merge",
    }
    workspace.write(
        {"orders": one},
        connections={"shop": {"url": shop.url}},
        lakes={"lake": {"format": kind}},
        spark={"conf": QUICK},
    )
    return workspace, shop


def test_a_catalog_that_another_process_holds_is_said_to_be_locked(spark, tmp_path):
    workspace, shop = stream("iceberg", tmp_path)
    assert workspace.run(spark=spark).streams[0].error is None
    shop.sql("update orders set name = 'new' where id = 7")
    holder = sqlite3.connect(tmp_path / ".tidegate" / "catalog.db")
    holder.execute("begin exclusive")
    try:
        error = workspace.run(spark=spark).streams[0].error
    finally:
        holder.close()
    assert error is not None
    assert "locked by another process" in error.message
    assert "catalog.db" in error.message
    assert workspace.run(spark=spark).streams[0].error is None
