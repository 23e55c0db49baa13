"""The same shop and project on each database."""

from pathlib import Path

import pytest

from support.shops import STREAMS, PostgresShop, Shop, fill, sqlite_shop
from support.workspace import Workspace


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def engine(request) -> str:
    return request.param


@pytest.fixture
def shop(engine: str, tmp_path: Path, request) -> Shop:
    if engine == "sqlite":
        return sqlite_shop(tmp_path)
    shop = PostgresShop(url=request.getfixturevalue("pg_url"))
    fill(shop, engine)
    return shop


@pytest.fixture
def workspace(tmp_path: Path, shop: Shop) -> Workspace:
    workspace = Workspace(folder=tmp_path)
    workspace.write(STREAMS, connections={"shop": {"url": shop.url}})
    return workspace
