"""A database with a table of orders for each test, and edges that need not wait for the clock."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from integration.source.loading import Shop, shop_of
from support.postgres import PostgresServer
from tidegate.dialects.postgresql import safe_bounds as edges


@pytest.fixture
def shop(pg_url: str) -> Iterator[Shop]:
    """The table `orders`, empty."""
    with shop_of(pg_url) as shop:
        yield shop


@pytest.fixture
def no_settling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes away the second that covers what two machines do at once; here the sessions act one after the other."""
    monkeypatch.setattr(edges, "SETTLE", timedelta(0))


@pytest.fixture
def reader(shop: Shop, postgres: PostgresServer) -> Iterator[str]:
    """A user who may read the table and nothing more."""
    database = shop.url.rsplit("/", 1)[1]
    with postgres.connect(database) as admin:
        admin.execute("CREATE ROLE reader LOGIN")
        admin.execute("GRANT SELECT ON orders TO reader")
    yield postgres.url(database, user="reader")
    with postgres.connect(database) as admin:
        admin.execute("DROP OWNED BY reader")
        admin.execute("DROP ROLE reader")
