"""Floating-point numbers, which no fingerprint covers: what a database and Spark say of a change of them."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from integration.source.floats import check_own_fingerprints
from support.shops import PostgresShop
from support.workspace import SqliteShop
from tidegate.core.grouping import Whole
from tidegate.core.ids import Connection
from tidegate.core.schema import DOUBLE, REAL, TEXT, Column
from tidegate.dialects.spark import Spark
from tidegate.sources.database import Database


def test_sqlite(tmp_path: Path) -> None:
    shop = SqliteShop(path=tmp_path / "shop.db")
    shop.sql("create table t (id integer primary key, d double, s real)", "insert into t values (1, 1, 1)")
    source = Database(connection=Connection(name="shop", url=shop.url), table="t")
    check_own_fingerprints(source, lambda column, value: shop.sql(f"update t set {column} = {_sql(value)}"))


def test_duckdb(tmp_path: Path) -> None:
    def put(column: str, value: float | None) -> None:
        with duckdb.connect(str(tmp_path / "t.db")) as connection:
            connection.execute(f"update t set {column} = ?", [value])

    with duckdb.connect(str(tmp_path / "t.db")) as connection:
        connection.execute("create table t (id integer primary key, d double, s float)")
        connection.execute("insert into t values (1, 1, 1)")
    check_own_fingerprints(
        Database(connection=Connection(name="shop", url=f"duckdb:///{tmp_path}/t.db"), table="t"), put
    )


@pytest.mark.postgres
def test_postgresql(pg_url: str) -> None:
    shop = PostgresShop(url=pg_url)
    shop.sql("create table t (id int primary key, d double precision, s real)", "insert into t values (1, 1, 1)")
    source = Database(connection=Connection(name="shop", url=pg_url), table="t")
    check_own_fingerprints(source, lambda column, value: shop.sql(f"update t set {column} = {_sql(value)}"))
    values = ["'-Infinity'", "'Infinity'", "'NaN'", "0"]
    assert len({_own(source, shop, value) for value in values}) == len(values)
    with_array = Database(
        connection=Connection(name="shop", url=pg_url), query="select id, d, '{1}'::int[] as n from t"
    )
    with with_array.probe() as probe:
        assert probe.own_fingerprint() is None, "an array has no exact text"


@pytest.mark.postgres
def test_postgresqls_own_hash_has_one_zero(pg_url: str) -> None:
    shop = PostgresShop(url=pg_url)
    shop.sql("create table t (id int primary key, d double precision)", "insert into t values (1, 0.0)")
    found = []
    for value in ("0", "'-0'", "5e-324"):
        shop.sql(f"update t set d = {value}")
        with Database(connection=Connection(name="shop", url=pg_url), table="t").probe() as probe:
            found += (probe.quick_hashes(Whole()) or {}).values()
    assert found[0] == found[1] != found[2]


@pytest.mark.spark
@pytest.mark.parametrize(("kind", "native"), [(DOUBLE, "double"), (REAL, "float")])
def test_spark_has_one_zero_and_one_nan(spark, kind, native) -> None:
    """As rows are compared: by their hash (strategy snapshot_diff), and value by value where a table is merged."""
    columns = [Column(name="k", type=TEXT), Column(name="v", type=kind)]
    rows = f"SELECT 'a' AS k, CAST(v AS {native}) AS v FROM VALUES ('0'), ('-0'), ('NaN'), ('1e-45') AS t(v)"
    hashes = [row[0] for row in spark.sql(f"SELECT {Spark().row_hash(columns)} FROM ({rows})").collect()]
    assert hashes[0] == hashes[1]
    assert len(set(hashes)) == 3
    (alike,) = spark.sql(f"SELECT CAST('0' AS {native}) <=> CAST('-0' AS {native})").collect()
    assert alike[0] is True


def _own(source: Database, shop: PostgresShop, value: str) -> str | None:
    shop.sql(f"update t set d = {value}")
    with source.probe() as probe:
        return probe.own_fingerprint()


def _sql(value: float | None) -> str:
    return "NULL" if value is None else f"'{value!r}'"
