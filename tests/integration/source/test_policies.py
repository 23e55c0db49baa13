"""A login that sees a part of a table by a row-level security policy never takes the part for the whole."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest

from support.postgres import PostgresServer
from tidegate.core.ids import Connection
from tidegate.core.slices import Everything
from tidegate.errors import SourceError
from tidegate.sources.database import Database

pytestmark = pytest.mark.postgres

ROWS, SEEN = 10, 5
STATEMENTS = (
    "CREATE ROLE keeper LOGIN",
    "CREATE ROLE reader LOGIN",
    "CREATE ROLE auditor LOGIN BYPASSRLS",
    "GRANT CREATE, USAGE ON SCHEMA public TO keeper",
    "SET ROLE keeper",
    "CREATE TABLE orders (id int PRIMARY KEY, tenant int NOT NULL)",
    f"INSERT INTO orders SELECT n, n % 2 FROM generate_series(1, {ROWS}) n",
    "CREATE POLICY own ON orders FOR SELECT TO reader USING (tenant = 1)",
    "CREATE VIEW all_orders AS SELECT * FROM orders",
    "CREATE VIEW some_orders AS SELECT * FROM orders WHERE tenant = 1",
    "GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader, auditor",
    "RESET ROLE",
    "CREATE VIEW borrowed AS SELECT * FROM orders",
    "ALTER VIEW borrowed OWNER TO reader",
)


@pytest.fixture
def shop(postgres: PostgresServer) -> Iterator[str]:
    """A database with a table that has a policy, which is not switched on."""
    name = postgres.create_database().rpartition("/")[2]
    with postgres.connect(name) as admin:
        for statement in STATEMENTS:
            admin.execute(statement)
    yield name
    with postgres.connect(name) as admin:
        admin.execute("DROP OWNED BY keeper, reader, auditor CASCADE")
        admin.execute("DROP ROLE keeper, reader, auditor")
    postgres.drop_database(name)


def alter(postgres: PostgresServer, shop: str, *changes: str) -> None:
    with postgres.connect(shop) as admin:
        for change in changes:
            admin.execute(f"ALTER TABLE orders {change}")


def rows(url: str, **source: str) -> int:
    """How many rows a probe counts."""
    with Database(connection=Connection(name="shop", url=url), **source).probe() as probe:
        return probe.stats(Everything()).rows


def rows_of_a_part(url: str) -> int:
    """How many rows a connection sees that is told what those of Spark are told, and nothing else."""
    with Database(connection=Connection(name="shop", url=url), table="all_orders").probe() as probe:
        probe.stats(Everything())
        told = probe.session.jdbc().properties["sessionInitStatement"]
        with closing(psycopg.connect(url)) as other:
            other.execute(told)
            return other.execute("SELECT count(*) FROM orders").fetchone()[0]


@pytest.mark.parametrize(
    "source", [{"table": "orders"}, {"query": "SELECT id FROM orders WHERE id > 0"}, {"table": "borrowed"}]
)
def test_what_a_policy_would_cut_is_refused(postgres: PostgresServer, shop: str, source: dict[str, str]) -> None:
    assert rows(postgres.url(shop, user="reader"), **source) == ROWS
    alter(postgres, shop, "ENABLE ROW LEVEL SECURITY")
    with psycopg.connect(postgres.url(shop, user="reader")) as plain:
        assert plain.execute("SELECT count(*) FROM orders").fetchone()[0] == SEEN
    with pytest.raises(SourceError, match="row-level security policy for table") as refused:
        rows(postgres.url(shop, user="reader"), **source)
    assert "would read a part of the rows" in refused.value.message
    assert "`ALTER ROLE reader BYPASSRLS`" in refused.value.hint


def test_who_sees_every_row_is_not_affected(postgres: PostgresServer, shop: str) -> None:
    """A view of the owner has the same rows for everybody."""
    alter(postgres, shop, "ENABLE ROW LEVEL SECURITY")
    for user, table, expected in (
        *((user, "orders", ROWS) for user in ("postgres", "keeper", "auditor")),
        ("reader", "all_orders", ROWS),
        ("reader", "some_orders", SEEN),
    ):
        assert rows(postgres.url(shop, user=user), table=table) == expected, user
    alter(postgres, shop, "FORCE ROW LEVEL SECURITY")
    with pytest.raises(SourceError, match="row-level security"):
        rows(postgres.url(shop, user="keeper"), table="orders")


def test_connections_of_spark_are_refused_as_well(postgres: PostgresServer, shop: str) -> None:
    alter(postgres, shop, "ENABLE ROW LEVEL SECURITY")
    assert rows_of_a_part(postgres.url(shop, user="auditor")) == ROWS
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
        rows_of_a_part(postgres.url(shop, user="reader"))
