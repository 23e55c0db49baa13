"""Columns read as text and columns left out: the same values in the database's answers and in Spark's rows."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import duckdb
import psycopg
import pytest

from tidegate.core.ids import Connection
from tidegate.core.slices import Everything, Keys
from tidegate.dialects.duckdb import Duckdb
from tidegate.dialects.mariadb import Mariadb
from tidegate.dialects.spark import Spark
from tidegate.errors import SchemaRefused, TidegateError
from tidegate.sources.database import Database
from tidegate.spark import dataframe_ops
from tidegate.spark.jars import resolve

pytest_plugins = ["support.mariadb"]
pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def spark_with_drivers(spark):
    for path in resolve((*Duckdb.jars, *Mariadb.jars)):
        spark.sql(f"ADD JAR '{path}'")
    return spark


def source(url: str, **options) -> Database:
    return Database(connection=Connection(name="shop", url=url), table="things", **options)


def rows(spark, there: Database) -> list[tuple]:
    """What Spark reads, of which the database says the same."""
    with there.probe() as probe:
        schema = probe.schema()
        frame = there.read(spark, probe, [Everything()], schema)
        assert dataframe_ops.fingerprint(frame, Spark().steps(schema.columns)) == probe.fingerprint(Everything())
        key = Keys(columns=(schema.names[1],), values=tuple((row[1],) for row in frame.collect() if row[1]))
        assert probe.count(key) == len(key.values)
        return sorted((tuple(row) for row in frame.collect()), key=str)


def texts(names: Sequence[str]) -> dict[str, str]:
    return dict.fromkeys(names, "text")


@pytest.mark.postgres
def test_postgresql(spark_with_drivers, pg_url: str) -> None:
    with psycopg.connect(pg_url, autocommit=True) as shop:
        shop.execute(f"ALTER DATABASE {pg_url.rsplit('/', 1)[1]} SET timezone = 'Europe/Berlin'")
        shop.execute(f"ALTER DATABASE {pg_url.rsplit('/', 1)[1]} SET intervalstyle = 'iso_8601'")
        shop.execute(f"ALTER DATABASE {pg_url.rsplit('/', 1)[1]} SET datestyle = 'German'")
        shop.execute("CREATE TYPE pair AS (a int, at timestamptz)")
        shop.execute(
            "CREATE TABLE things (id int PRIMARY KEY, at timestamptz, span interval, during tstzrange, cost money, "
            "many timestamptz[], twin pair, yes boolean, raw bytea, ratio float8, host inet, secret text, other text)"
        )
        shop.execute(
            "INSERT INTO things VALUES (1, '2025-07-01 12:00+02', '1 day 2:03', '[2025-07-01 12:00+02,infinity)', "
            "1234.5, ARRAY['2025-07-01 12:00+02'::timestamptz], ROW(1, '2025-07-01 12:00+02')::pair, true, "
            "decode('00ff', 'hex'), 0.1, '10.0.0.1', 's', 'o')"
        )
        shop.execute("INSERT INTO things (id, at) VALUES (2, 'infinity')")
    names = ("at", "span", "during", "cost", "many", "twin", "yes", "raw", "ratio", "host")
    there = source(pg_url, columns=texts(names), exclude=("secret", "oth*"))
    first, second = rows(spark_with_drivers, there)
    at = "2025-07-01 10:00:00+00"
    assert first == (
        *(1, at, "1 day 02:03:00", f'["{at}",infinity)', "$1,234.50", f'{{"{at}"}}'),
        *(f'(1,"{at}")', "true", "\\x00ff", "0.1", "10.0.0.1"),
    )
    assert second == (2, "infinity", *(None,) * 9)
    with source(pg_url).probe() as probe, pytest.raises(SchemaRefused, match=r"'span' .*'during' .*'cost' .*'twin'"):
        probe.schema()


def test_duckdb(spark_with_drivers, tmp_path: Path) -> None:
    file = tmp_path / "shop.duckdb"
    with duckdb.connect(str(file)) as shop:
        shop.execute(
            "CREATE TABLE things (id int PRIMARY KEY, moment timestamptz, span interval, "
            "pair STRUCT(a int, b varchar[]), m MAP(varchar, int), ratio double, secret varchar)"
        )
        shop.execute(
            "INSERT INTO things VALUES (1, '2025-07-01 12:00:00+02', INTERVAL 26 HOUR, {'a': 1, 'b': ['x', NULL]}, "
            "MAP {'k': 1}, 0.1, 's'), (2, 'infinity', NULL, NULL, NULL, NULL, NULL)"
        )
    names = ("moment", "span", "pair", "m", "ratio")
    first, second = rows(spark_with_drivers, source(f"duckdb:///{file}", columns=texts(names), exclude=("secret",)))
    assert first == (1, "2025-07-01 10:00:00+00", "26:00:00", "{'a': 1, 'b': [x, NULL]}", "{k=1}", "0.1")
    assert second == (2, "infinity", None, None, None, None)


def test_mariadb(spark_with_drivers, mariadb, maria_database: str) -> None:
    mariadb.run(
        "CREATE TABLE things (id int PRIMARY KEY, at timestamp NULL, local datetime, place point, flags bit(9), "
        "small float, name varchar(20) CHARACTER SET latin1, raw varbinary(9), wide decimal(60,20), secret text)",
        "SET time_zone = '+00:00'",
        "INSERT INTO things VALUES (1, '2025-07-01 10:00:00', '2025-07-01 10:00:00', POINT(1, 2.5), 257, 0.5, "
        "'\u00e4', 'ab', 1.5, 's')",
        "SET sql_mode = ''",
        "INSERT INTO things (id, local) VALUES (2, '0000-00-00')",
        database=maria_database,
    )
    names = ("at", "local", "place", "flags", "small", "name", "raw", "wide")
    there = source(mariadb.url(maria_database), columns=texts(names), exclude=("secret",))
    first, second = rows(spark_with_drivers, there)
    stamp = "2025-07-01 10:00:00"
    assert first == (1, stamp, stamp, "POINT(1 2.5)", "257", "0.5", "\u00e4", "ab", "1.50000000000000000000")
    assert second == (2, None, "0000-00-00 00:00:00", *(None,) * 6)
    mariadb.run("UPDATE things SET raw = x'ff' WHERE id = 1", database=maria_database)
    with there.probe() as probe, pytest.raises(TidegateError, match="raw"):
        probe.fingerprint(Everything())


def test_sqlite(spark_with_drivers, tmp_path: Path) -> None:
    file = tmp_path / "shop.db"
    with closing(sqlite3.connect(file)) as shop, shop:
        shop.execute("CREATE TABLE things (id INTEGER PRIMARY KEY, loose MONEY, bare, at TIMESTAMP, secret TEXT)")
        shop.execute("INSERT INTO things VALUES (1, 0.1, '007', 'later', 's'), (2, 7, 2.0, '', NULL)")
        shop.execute("INSERT INTO things VALUES (3, 0.30000000000000004, NULL, NULL, NULL)")
    there = source(f"sqlite:///{file}", columns=texts(("loose", "bare", "at")), exclude=("secret",))
    assert rows(spark_with_drivers, there) == [
        (1, "0.1", "007", "later"),
        (2, "7", "2.0", ""),
        (3, "0.30000000000000004", None, None),
    ]
    with closing(sqlite3.connect(file)) as shop, shop:
        shop.execute("UPDATE things SET bare = x'00' WHERE id = 1")
    with there.probe() as probe, pytest.raises(SchemaRefused, match="bare"):
        probe.fingerprint(Everything())


def test_a_unique_column_that_is_left_out_cuts_no_slice(spark_with_drivers, tmp_path: Path) -> None:
    file = tmp_path / "shop.db"
    with closing(sqlite3.connect(file)) as shop, shop:
        shop.execute("CREATE TABLE things (id BIGINT, name TEXT, secret BIGINT NOT NULL)")
        shop.execute("CREATE UNIQUE INDEX secrets ON things (secret)")
        shop.execute("INSERT INTO things VALUES (7, 'a', 1), (8, 'b', 2), (9, 'c', 3)")
    there = source(f"sqlite:///{file}", exclude=("secret",), slices=3)
    assert rows(spark_with_drivers, there) == [(7, "a"), (8, "b"), (9, "c")]
