"""The same project by every way that Spark is reached, into every kind of catalog."""

import pytest

from support.shops import STREAMS, change, sqlite_shop, texts
from support.workspace import SqliteShop, Workspace
from tidegate.api import Project
from tidegate.core.outcome import Result


@pytest.fixture
def shop(tmp_path) -> SqliteShop:
    return sqlite_shop(tmp_path)


def load_twice(project: Project, shop: SqliteShop, read) -> None:
    """First load, increment, nothing; `read` gives the rows of a table by an independent reader."""
    first = project.run("orders", "events")
    assert [stream.error for stream in first.streams] == [None, None]
    change(shop, "sqlite")
    second = project.run("orders", "events")
    assert [stream.error for stream in second.streams] == [None, None]
    assert [stream.rows_read for stream in second.streams] == [51, 70]
    assert all(stream.verified for stream in second.streams)
    for table in ("orders", "events"):
        source = texts(row[:2] for row in shop.rows(f"select * from {table}"))
        assert texts(list(row.values())[:2] for row in read(table)) == source
    assert [stream.outcome for stream in project.run("orders", "events").streams] == [Result.UNCHANGED] * 2


def values(shop: SqliteShop, **rest) -> dict:
    return {"connections": {"shop": {"url": shop.url}}, "streams": STREAMS, **rest}


@pytest.mark.spark
def test_a_session_of_the_caller_stays_as_it_was(tmp_path, shop, spark):
    mine = spark.newSession()
    mine.conf.set("spark.sql.session.timeZone", "America/New_York")
    mine.conf.set("spark.sql.ansi.enabled", "false")
    before = {row.key: row.value for row in mine.sql("set").collect()}
    with Project.from_dict(values(shop), folder=tmp_path, spark=mine) as project:
        load_twice(project, shop, lambda table: Workspace(folder=tmp_path).rows(f"shop.{table}"))
    assert {row.key: row.value for row in mine.sql("set").collect()} == before
    assert mine.sql("select 1").collect()[0][0] == 1


@pytest.mark.spark
def test_a_connect_server_by_its_url(tmp_path, shop, connect_server):
    with Project.from_dict(values(shop, spark={"remote": connect_server}), folder=tmp_path) as project:
        load_twice(project, shop, lambda table: Workspace(folder=tmp_path).rows(f"shop.{table}"))


@pytest.mark.spark
def test_a_connect_session_of_the_caller(tmp_path, shop, connect_server):
    from pyspark.sql.connect.session import SparkSession

    session = SparkSession.builder.remote(connect_server).create()
    with Project.from_dict(values(shop), folder=tmp_path, spark=session) as project:
        load_twice(project, shop, lambda table: Workspace(folder=tmp_path).rows(f"shop.{table}"))
    assert session.sql("select 1").collect()[0][0] == 1
    session.stop()


@pytest.mark.spark
@pytest.mark.postgres
def test_a_catalog_and_a_registry_in_postgresql(tmp_path, shop, spark, pg_url, postgres):
    lakes, registry = {"lake": {"catalog": {"type": "postgresql", "uri": pg_url}}}, postgres.create_database()
    with Project.from_dict(values(shop, lakes=lakes, registry=registry), folder=tmp_path, spark=spark) as project:
        load_twice(project, shop, lambda table: rows_of(project, table))
        assert {entry.stream: entry.sequence for entry in project.status()} == {"events": 2, "orders": 2, "regions": 0}


@pytest.mark.spark
@pytest.mark.servers
def test_a_rest_catalog(tmp_path, shop, spark, rest_catalog):
    lakes = {"lake": {"catalog": {"type": "rest", "uri": rest_catalog}}}
    with Project.from_dict(values(shop, lakes=lakes), folder=tmp_path, spark=spark) as project:
        load_twice(project, shop, lambda table: rows_of(project, table))


def rows_of(project: Project, table: str) -> list[dict]:
    """What PyIceberg reads through the same catalog."""
    from pyiceberg.catalog import load_catalog

    catalog = load_catalog("lake", **project.lakes["lake"]._where.pyiceberg())
    try:
        return catalog.load_table(("shop", table)).scan().to_arrow().to_pylist()
    finally:
        catalog.close()
