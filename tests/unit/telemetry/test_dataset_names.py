"""Names of tables of databases: those of OpenLineage's naming specification, and OpenTelemetry's attributes."""

import pytest

from tidegate.core.ids import Connection
from tidegate.core.origin import DatabaseTable
from tidegate.telemetry.datasets import Name, database_attributes, name_of


def table(url, *parts):
    return DatabaseTable(connection=Connection(name="shop", url=url), parts=parts)


@pytest.mark.parametrize(
    ("url", "parts", "namespace", "name"),
    [
        ("postgresql://u:pw@db.example/shop", ("sales", "orders"), "postgres://db.example:5432", "shop.sales.orders"),
        ("postgresql://u:pw@a.example:1,b.example:2/shop", ("s", "o"), "postgres://a.example:1", "shop.s.o"),
        ("postgresql://u@[2001:db8::7]:6000/shop", ("s", "o"), "postgres://[2001:db8::7]:6000", "shop.s.o"),
        ("mariadb://u@db.example/shop", ("orders",), "mysql://db.example:3306", "shop.orders"),
        ("mariadb://u@db.example/shop", ("other", "orders"), "mysql://db.example:3306", "other.orders"),
        ("trino://u@t.example/hive/shop", ("orders",), "trino://t.example:8080", "hive.shop.orders"),
        ("trino://u@t.example/hive/shop", ("raw", "orders"), "trino://t.example:8080", "hive.raw.orders"),
        ("trino://u@t.example/hive", ("raw", "orders"), "trino://t.example:8080", "hive.raw.orders"),
        ("trino://u:pw@t.example/hive", ("raw", "orders"), "trino://t.example:443", "hive.raw.orders"),
        ("sqlite:////data/shop.db", ("orders",), "sqlite:///data/shop.db", "orders"),
        ("duckdb:////data/shop.db", ("orders",), "duckdb:///data/shop.db", "main.orders"),
        ("duckdb:////data/shop.db", ("raw", "orders"), "duckdb:///data/shop.db", "raw.orders"),
    ],
)
def test_a_table_has_the_name_of_the_specification(url, parts, namespace, name):
    assert name_of(table(url, *parts)) == Name(namespace, name)


def test_a_schema_is_never_guessed():
    assert name_of(table("postgresql://u@db.example/shop", "orders")) is None
    assert name_of(table("trino://u@t.example/hive", "orders")) is None


@pytest.mark.parametrize(
    ("url", "parts", "namespace"),
    [
        ("postgresql://u@[::1]/shop", ("sales", "orders"), "shop|sales"),
        ("postgresql://u@[::1]/shop", ("orders",), "shop"),
        ("mariadb://u@[::1]/shop", ("other", "orders"), "other"),
        ("mariadb://u@[::1]/shop", ("orders",), "shop"),
        ("trino://u@[::1]/hive/shop", ("raw", "orders"), "hive|raw"),
        ("trino://u@[::1]/hive/shop", ("orders",), "hive|shop"),
        ("sqlite:////data/shop.db", ("orders",), "/data/shop.db"),
    ],
)
def test_spans_name_the_database_in_which_the_table_lies(url, parts, namespace):
    found = database_attributes(table(url, *parts))
    assert (found["db.namespace"], found["db.collection.name"]) == (namespace, "orders")
    assert found.get("server.address", "::1") == "::1"


def test_of_a_query_only_the_database_is_known():
    found = database_attributes(table("mariadb://u@db.example/shop"))
    assert (found["db.namespace"], found["db.query.summary"]) == ("shop", "SELECT")
    assert name_of(table("mariadb://u@db.example/shop")) is None
