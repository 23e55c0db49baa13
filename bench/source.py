"""Decides what the benchmarks load: one table of ten columns in a PostgreSQL server of their own.

Called by every benchmark. Must never use a server that it did not start.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from support.postgres import PostgresServer

SETTINGS = {"shared_buffers": "1GB", "max_wal_size": "8GB", "maintenance_work_mem": "512MB", "jit": "off"}

TABLE = """
CREATE TABLE orders (
  id bigint PRIMARY KEY, customer_id bigint NOT NULL, status text NOT NULL, amount numeric(12,2) NOT NULL,
  quantity integer NOT NULL, paid boolean NOT NULL, country text NOT NULL, note text,
  created_at timestamp NOT NULL, updated_at timestamptz NOT NULL
)
"""
# Fifty thousand rows a day of `created_at`: one of a hundred days of five million rows.
A_DAY = 50_000
ROWS = """
INSERT INTO orders
SELECT i, (i * 7919) %% 1000003, (ARRAY['new','paid','sent','done'])[1 + i %% 4], (i %% 100000)::numeric / 100 - 50,
  (i %% 12)::int, i %% 3 = 0, (ARRAY['de','fr','it','es','pl'])[1 + i %% 5],
  CASE WHEN i %% 10 = 0 THEN NULL ELSE 'note ' || md5(i::text) END,
  timestamp '2024-01-01' + (i - 1) * interval '1728 milliseconds' + (i %% 1000003) * interval '1 microsecond',
  timestamptz '2024-01-02 00:00:00+00' + i * interval '1 second' + (i %% 999983) * interval '1 microsecond'
FROM generate_series(%s::bigint, %s::bigint) i
"""
COLUMNS = (
    "id",
    "customer_id",
    "status",
    "amount",
    "quantity",
    "paid",
    "country",
    "note",
    "created_at",
    "updated_at",
)

# The same text of every row in PostgreSQL and in Spark, written for this check alone: it shares nothing with the
# product, whose fingerprints are one of the things that are measured.
PG_TEXT = """concat_ws('|', id, customer_id, status, amount, quantity, paid::int, country, coalesce(note, '~'),
  to_char(created_at, 'YYYY-MM-DD HH24:MI:SS.US'),
  to_char(updated_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US'))"""
PG_CHECK = f"""
SELECT count(*), sum(('x' || substr(h, 1, 8))::bit(32)::bigint)::text,
  sum(('x' || substr(h, 9, 8))::bit(32)::bigint)::text
FROM (SELECT md5({PG_TEXT}) AS h FROM orders OFFSET 0) AS hashed
"""
SPARK_TEXT = """concat_ws('|', id, customer_id, status, amount, quantity, cast(paid as int), country,
  coalesce(note, '~'), date_format(created_at, 'yyyy-MM-dd HH:mm:ss.SSSSSS'),
  date_format(updated_at, 'yyyy-MM-dd HH:mm:ss.SSSSSS'))"""

Sums = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """The table `orders` of `rows` rows."""

    url: str
    rows: int

    @property
    def jdbc(self) -> str:
        """The same database as a JDBC driver names it."""
        place = self.url.split("@", 1)[1]
        return f"jdbc:postgresql://{place}?user=postgres"

    def ask(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """One statement in a session of its own."""
        with psycopg.connect(self.url, autocommit=True) as session:
            cursor = session.execute(query, values or None)
            return cursor.fetchall() if cursor.description else []

    def newest(self) -> str:
        """The greatest `updated_at`."""
        return str(self.ask("SELECT max(updated_at)::text FROM orders")[0][0])

    def change(self, first: int, count: int) -> None:
        """Changes `count` neighbouring rows as `change_where` does."""
        self.change_where(f"id >= {first} AND id < {first + count}")

    def change_where(self, condition: str) -> None:
        """Changes the rows of a condition by the database's clock, and waits until they are safe to read."""
        self.ask(
            f"UPDATE orders SET amount = amount + 1, status = 'back', updated_at = clock_timestamp() WHERE {condition}"
        )
        time.sleep(1.5)

    def sums(self, table: str = "orders") -> Sums:
        """The rows as three numbers, of this table or one with the same columns."""
        rows, low, high = self.ask(PG_CHECK.replace("FROM orders", f"FROM {table}"))[0]
        return int(rows), int(low), int(high)


def spark_sums(session: Any, table: str) -> Sums:
    """The same three numbers of a lake table."""
    row = session.sql(
        f"SELECT count(*), sum(cast(conv(substr(h, 1, 8), 16, 10) AS bigint)), "
        f"sum(cast(conv(substr(h, 9, 8), 16, 10) AS bigint)) FROM (SELECT md5({SPARK_TEXT}) AS h FROM {table})"
    ).collect()[0]
    return int(row[0]), int(row[1]), int(row[2])


@contextmanager
def orders(rows: int) -> Iterator[Orders]:
    """A server with the table, ended and removed afterwards."""
    server = PostgresServer.new(**SETTINGS)
    try:
        table = Orders(url=server.create_database("bench"), rows=rows)
        began = time.monotonic()
        table.ask(TABLE)
        for first in range(1, rows + 1, 1_000_000):
            table.ask(ROWS, first, min(first + 999_999, rows))
        table.ask("CREATE INDEX ON orders (updated_at)")
        table.ask("VACUUM ANALYZE orders")
        table.ask("CHECKPOINT")
        print(f"source: {rows:,} rows in PostgreSQL, made in {time.monotonic() - began:.0f} s", flush=True)
        yield table
    finally:
        server.drop()
