"""Source databases for end-to-end tests: the same shop on SQLite and on PostgreSQL."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import psycopg

from support.workspace import SqliteShop


class Shop(Protocol):
    """A database that tests change and read by its own driver."""

    url: str

    def sql(self, *statements: str) -> None: ...

    def rows(self, query: str) -> list[tuple]: ...


@dataclass(frozen=True, kw_only=True)
class PostgresShop:
    """A database of the test server."""

    url: str

    def sql(self, *statements: str) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)

    def rows(self, query: str) -> list[tuple]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            return connection.execute(query).fetchall()


TABLES = {
    "sqlite": (
        "create table orders (id integer primary key, amount text, updated_at timestamp)",
        "create table events (id integer primary key autoincrement, body text)",
        "create table regions (code text primary key, name text)",
    ),
    "postgresql": (
        "create table orders (id bigint primary key, amount text, updated_at timestamp)",
        "create table events (id bigint generated always as identity primary key, body text)",
        "create table regions (code text primary key, name text)",
    ),
}
NUMBERS = {
    "sqlite": "with recursive n(i) as (select {low} union all select i + 1 from n where i < {high}) ",
    "postgresql": "with n(i) as (select generate_series({low}, {high})) ",
}
STAMP = {
    "sqlite": "printf('2025-01-01 00:00:00.%06d', i)",
    "postgresql": "timestamp '2025-01-01' + i * interval '1 microsecond'",
}
STREAMS = {
    "orders": {
        "source": {"connection": "shop", "table": "orders"},
        "target": "lake.shop.orders",
        "key": ["id"],
        "strategy": {"kind": "watermark", "column": "updated_at"},
        "write": "merge",
    },
    "events": {
        "source": {"connection": "shop", "table": "events"},
        "target": "lake.shop.events",
        "strategy": {"kind": "sequence", "column": "id"},
        "write": "append",
    },
    "regions": {
        "source": {"connection": "shop", "table": "regions"},
        "target": "lake.shop.regions",
        "strategy": {"kind": "full"},
        "write": "replace",
    },
}


def fill(shop: Shop, engine: str) -> None:
    """500 orders, 500 events, 2 regions."""
    numbers = NUMBERS[engine].format(low=1, high=500)
    shop.sql(
        *TABLES[engine],
        f"{_insert(engine, 'orders', numbers)} select i, 'a' || i, {STAMP[engine]} from n",
        f"{_insert(engine, 'events (body)', numbers)} select 'b' || i from n",
        "insert into regions values ('n', 'North'), ('s', 'South')",
    )


def change(shop: Shop, engine: str) -> None:
    """50 orders updated and one added, 70 events added, one region updated and one added."""
    numbers = NUMBERS[engine].format(low=1, high=70)
    shop.sql(
        "update orders set amount = 'changed', updated_at = '2025-02-01 00:00:00.000001' where id between 100 and 149",
        "insert into orders values (501, 'new', '2025-02-01 00:00:00.000002')",
        f"{_insert(engine, 'events (body)', numbers)} select 'c' || i from n",
        "update regions set name = 'Sud' where code = 's'",
        "insert into regions values ('w', 'West')",
    )


def _insert(engine: str, table: str, numbers: str) -> str:
    # SQLite wants the WITH in front of the INSERT, PostgreSQL takes it there too.
    return f"{numbers} insert into {table}"


def sqlite_shop(folder: Path) -> SqliteShop:
    """A filled shop in a file."""
    shop = SqliteShop(path=folder / "shop.db")
    fill(shop, "sqlite")
    return shop


def texts(rows) -> list[tuple[str, ...]]:
    """Rows as sorted texts, for comparing two readers."""
    return sorted(tuple(str(value) for value in row) for row in rows)
