"""A shop, a project on it, and a terminal."""

from pathlib import Path

import pytest

from integration.cli.terminal import Terminal
from support.workspace import SqliteShop, Workspace

ORDERS = {
    "source": {"connection": "shop", "table": "orders"},
    "target": "lake.shop.orders",
    "key": ["id"],
    "strategy": {"kind": "full"},
    "write": "merge",
}


@pytest.fixture
def shop(tmp_path: Path) -> SqliteShop:
    shop = SqliteShop(path=tmp_path / "shop.db")
    shop.sql(
        "create table orders (id integer primary key not null, amount text)",
        "insert into orders values (1, 'one'), (2, 'two'), (3, 'three')",
    )
    return shop


@pytest.fixture
def workspace(tmp_path: Path, shop: SqliteShop) -> Workspace:
    workspace = Workspace(folder=tmp_path)
    workspace.write({"orders": ORDERS}, connections={"shop": {"url": shop.url}})
    return workspace


@pytest.fixture
def tidegate(workspace: Workspace, capfd) -> Terminal:
    return Terminal(folder=workspace.folder, capfd=capfd)
