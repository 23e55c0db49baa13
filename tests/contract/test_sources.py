"""Rows in memory answer as a database does: the suite of sources over both."""

import sqlite3
from contextlib import closing

import pytest

from tidegate.core.ids import Connection
from tidegate.sources.database import Database
from tidegate.testing import MemorySource, SourceContract
from tidegate.testing.contracts.source import COLUMNS

DDL = "CREATE TABLE IF NOT EXISTS orders (id {big} PRIMARY KEY NOT NULL, code {text}, changed timestamp, day date)"


@pytest.mark.spark
class TestMemory(SourceContract):
    @pytest.fixture
    def make(self):
        source = MemorySource(schema=COLUMNS, key=("id",))

        def put(rows):
            source.rows[:] = rows
            return source

        return put


def texts(rows):
    return [tuple(None if value is None else str(value) for value in row.values()) for row in rows]


@pytest.mark.spark
class TestSqlite(SourceContract):
    @pytest.fixture
    def make(self, tmp_path):
        path = tmp_path / "shop.db"

        def put(rows):
            with closing(sqlite3.connect(path)) as database, database:
                database.execute(DDL.format(big="bigint", text="text"))
                database.execute("DELETE FROM orders")
                database.executemany("INSERT INTO orders VALUES (CAST(? AS integer), ?, ?, ?)", texts(rows))
            return Database(connection=Connection(name="shop", url=f"sqlite:///{path}"), table="orders")

        return put


@pytest.mark.spark
class TestDuckdb(SourceContract):
    test_every_answer_is_of_one_moment = None  # a file that is read here is locked against every writer

    @pytest.fixture
    def make(self, tmp_path):
        duckdb = pytest.importorskip("duckdb")
        path = tmp_path / "shop.duckdb"

        def put(rows):
            with duckdb.connect(str(path)) as database:
                database.execute(DDL.format(big="bigint", text="varchar"))
                database.execute("DELETE FROM orders")
                database.executemany("INSERT INTO orders VALUES (?, ?, ?, ?)", texts(rows))
            return Database(connection=Connection(name="shop", url=f"duckdb:///{path}"), table="orders")

        return put


@pytest.mark.spark
@pytest.mark.postgres
class TestPostgresql(SourceContract):
    @pytest.fixture
    def make(self, postgres):
        import psycopg

        url = postgres.create_database()

        def put(rows):
            with psycopg.connect(url, autocommit=True) as database:
                database.execute(DDL.format(big="bigint", text="text"))
                database.execute("DELETE FROM orders")
                with database.cursor() as cursor:
                    cursor.executemany("INSERT INTO orders VALUES (%s, %s, %s, %s)", texts(rows))
            return Database(connection=Connection(name="shop", url=url), table="orders")

        return put
