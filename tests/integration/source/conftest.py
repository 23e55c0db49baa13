"""The databases that run here, a table of orders for each test, and bounds that need not wait for the clock."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from integration.source.loading import Shop, shop_of
from integration.source.places import Place, place_of
from support.postgres import PostgresServer
from tidegate.dialects.mariadb import safe_bounds as mariadb_bounds
from tidegate.dialects.postgresql import safe_bounds as postgresql_bounds


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A database of the kind that the test names with `at`."""
    return place_of(request.param, request, tmp_path)


@pytest.fixture
def shop(pg_url: str) -> Iterator[Shop]:
    """The table `orders`, empty."""
    with shop_of(pg_url) as shop:
        yield shop


@pytest.fixture
def no_settling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes away the second that covers what two machines do at once; here the sessions act one after the other."""
    monkeypatch.setattr(mariadb_bounds, "SETTLE", timedelta(0))
    monkeypatch.setattr(postgresql_bounds, "SETTLE", timedelta(0))


@pytest.fixture
def reader(pg_url: str, postgres: PostgresServer) -> Iterator[str]:
    """The URL of a login that may read what it is granted and nothing more."""
    database = pg_url.rsplit("/", 1)[1]
    with postgres.connect(database) as admin:
        admin.execute("CREATE ROLE reader LOGIN")
    yield postgres.url(database, user="reader")
    with postgres.connect(database) as admin:
        admin.execute("DROP OWNED BY reader")
        admin.execute("DROP ROLE reader")
