"""MariaDB with a table of orders."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from integration.source.mariadb.orders import ORDERS, Writers
from tidegate.dialects.mariadb import Mariadb
from tidegate.dialects.mariadb import safe_bounds as edges
from tidegate.spark.jars import resolve

if TYPE_CHECKING:
    from support.mariadb import MariadbServer


@pytest.fixture
def shop(mariadb: MariadbServer, maria_database: str) -> Iterator[Writers]:
    mariadb.run(ORDERS, database=maria_database)
    shop = Writers(server=mariadb, database=maria_database)
    yield shop
    for session in shop.sessions:
        if session.open:
            session.close()


@pytest.fixture
def no_settling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes away the second that covers what two machines do at once; here the sessions act one after the other."""
    monkeypatch.setattr(edges, "SETTLE", timedelta(0))


@pytest.fixture(scope="module")
def spark_with_driver(spark):
    for path in resolve(Mariadb.jars):
        spark.sql(f"ADD JAR '{path}'")
    return spark
