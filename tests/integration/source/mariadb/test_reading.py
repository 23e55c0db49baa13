"""Windows of MariaDB tables while others write, hostile names, addresses and logins that are refused."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pymysql
import pytest

from integration.source.loading import Careful
from integration.source.mariadb.orders import INSERT, Writers, source
from tidegate.core.batch import Latest
from tidegate.core.ids import Connection
from tidegate.core.slices import Everything, Range
from tidegate.dialects.mariadb import Mariadb
from tidegate.errors import (
    ColumnMissing,
    ConfigError,
    SchemaRefused,
    SourceMoved,
    SourceUnavailable,
)
from tidegate.sources.database.source import dialect_of, table_facts
from tidegate.strategies.sequence import Sequence
from tidegate.strategies.watermark import Watermark

if TYPE_CHECKING:
    from support.mariadb import MariadbServer

pytest_plugins = ["support.mariadb"]


def test_borders_split_a_range_evenly(shop: Writers) -> None:
    shop.session()("INSERT INTO orders (name) SELECT seq FROM seq_1_to_90")
    part = Range(cursor=("id",), after="0", upto="90")
    with source(shop.url, "orders").probe() as probe:
        assert probe.session.rows(probe.statements.borders(part, 3)) == [("30",), ("60",), ("90",)]
        assert probe.session.estimate(probe._relation, probe.condition(part)) > 0


@pytest.mark.spark
@pytest.mark.parametrize("slices", [1, 3])
def test_hostile_names(
    mariadb: MariadbServer, maria_database: str, maria_url: str, spark_with_driver, slices: int
) -> None:
    names = ["a.b", 'q"uote', "sel`ect", "x DESC NULLS LAST", "x y", "${v}", "c0", "select", "%s", "b\\n"]
    quoted = [Mariadb().quote(name) for name in names]
    mariadb.run(
        f"CREATE TABLE `odd.na``me` ({', '.join(f'{name} int NOT NULL' for name in quoted)}, UNIQUE ({quoted[4]}))",
        f"INSERT INTO `odd.na``me` VALUES ({', '.join(map(str, range(10)))})",
        f"INSERT INTO `odd.na``me` VALUES ({', '.join(map(str, range(10, 20)))})",
        database=maria_database,
    )
    there = source(maria_url, f'"{maria_database}"."odd.na`me"', slices=slices)
    with there.probe() as probe:
        latest = Latest(key=("a.b",), order=("x DESC NULLS LAST", "b\\n"))
        assert probe.count(Everything(), latest=latest) == 2
        assert probe.unique(["x y"])
        rows = there.read(spark_with_driver, probe, [Everything()], probe.schema())
        assert rows.columns == names
        assert sorted(map(tuple, rows.collect())) == [tuple(range(10)), tuple(range(10, 20))]


def test_names_and_texts_never_become_syntax(maria_url: str) -> None:
    dialect, hostile = Mariadb(), ["it's", "\\", "\\' OR 1=1 -- ", '"', "a\0b", "`", "🚢\n"]
    with source(maria_url, query="SELECT 1 AS x").probe() as probe:
        for text in hostile:
            assert probe.session.rows(f"SELECT CAST({dialect.string(text)} AS BINARY)") == [(text,)]


def older_commits_last(shop: Writers) -> Iterator[None]:
    old, new = shop.session(), shop.session()
    old("BEGIN")
    old(INSERT, ["old"])
    new(INSERT, ["new"])
    yield
    old("COMMIT")
    yield


def begins_now_and_writes_later(shop: Writers) -> Iterator[None]:
    old, new = shop.session(), shop.session()
    old("BEGIN")
    old("SELECT count(*) FROM orders")
    new(INSERT, ["new"])
    yield
    old(INSERT, ["old"])
    old("COMMIT")
    yield


def older_updates_a_loaded_row(shop: Writers) -> Iterator[None]:
    old, new = shop.session(), shop.session()
    new(INSERT, ["first"])
    time.sleep(1.1)
    yield
    old("BEGIN")
    old("UPDATE orders SET name = 'changed', updated_at = now(6) WHERE id = 1")
    new(INSERT, ["second"])
    time.sleep(1.1)
    yield
    old("COMMIT")
    yield


@pytest.mark.slow
@pytest.mark.usefixtures("no_settling")
@pytest.mark.parametrize(
    ("strategy", "scenario"),
    [
        (Watermark(column="updated_at"), older_commits_last),
        (Watermark(column="updated_at"), begins_now_and_writes_later),
        (Watermark(column="updated_at"), older_updates_a_loaded_row),
        (Sequence(column="id"), older_commits_last),
        (Sequence(column="id"), begins_now_and_writes_later),
    ],
)
def test_no_row_is_lost(shop: Writers, strategy, scenario: Callable[[Writers], Iterator[None]]) -> None:
    loader = Careful(url=shop.url, strategy=strategy)
    for _ in scenario(shop):
        time.sleep(1.1)  # the bound has whole seconds
        loader.load()
    time.sleep(1.1)
    loader.load()
    assert loader.stopped == ""
    assert {key: row[1] for key, row in loader.rows.items()} == shop.rows()


def test_change_while_reading_is_noticed_and_a_quiet_table_is_not_asked_again(shop: Writers) -> None:
    writer = shop.session()
    writer(INSERT, ["row"])
    time.sleep(1.1)
    with source(shop.url, "orders").probe() as probe:
        assert not probe.has_snapshot()
        probe.fingerprint(Everything())
        asked: list[str] = []
        ask = probe.session.outside_rows
        probe.session.outside_rows = lambda sql: asked.append(sql) or ask(sql)
        probe.verify_unchanged()
        assert not any("MD5" in sql for sql in asked)
        writer("UPDATE orders SET name = 'another'")
        assert probe.fingerprint(Everything()) == probe.fingerprint(Everything())
        with pytest.raises(SourceMoved):
            probe.verify_unchanged()


def test_rows_beyond_the_slice_move_nothing(shop: Writers) -> None:
    writer = shop.session()
    writer(INSERT, ["row"])
    with source(shop.url, "orders").probe() as probe:
        probe.fingerprint(Range(cursor=("id",), after=None, upto="1"))
        writer(INSERT, ["later"])
        probe.verify_unchanged()


def test_alter_waits_for_the_probe(shop: Writers) -> None:
    with source(shop.url, "orders").probe() as probe:
        probe.schema()
        writer = shop.session()
        writer("SET lock_wait_timeout = 1")
        with pytest.raises(pymysql.err.OperationalError, match="1205"):
            writer("ALTER TABLE orders ADD COLUMN more int")
        assert probe.count(Everything()) == 0


def test_identity_clock_keys_and_size(shop: Writers) -> None:
    admin = shop.session()
    admin("CREATE TABLE keys_of (a int PRIMARY KEY, b int UNIQUE, c int NOT NULL, d int NOT NULL, UNIQUE (c, d))")
    with source(shop.url, "keys_of").probe() as probe:
        answers = {key: probe.unique(key.split()) for key in ("a", "b", "c", "c d", "a b", "")}
        first, began = probe.identity(), probe.clock()
        assert probe.session.row_bytes(probe._relation) > 0
    assert answers == {"a": True, "b": False, "c": False, "c d": True, "a b": False, "": False}
    admin("INSERT INTO keys_of VALUES (1, 1, 1, 1)")
    with source(shop.url, "keys_of").probe() as probe:
        assert probe.identity() == first
        assert (probe.clock() or 0) > (began or 0) > 0
    with source(shop.url, "orders").probe() as probe:
        assert probe.identity() != first
    (facts,) = (each for each in table_facts(Connection(name="c", url=shop.url), f"{shop.database}.keys_of"))
    assert (facts.primary_key, facts.indexes) == (("a",), (("b",), ("c", "d")))
    assert facts.columns.names == ("a", "b", "c", "d")


def test_unreachable_missing_and_wrong(shop: Writers) -> None:
    with pytest.raises(SourceUnavailable, match="cannot be reached"), source("mariadb://a:b@127.0.0.1:1/x").probe():
        pass
    with pytest.raises(SourceUnavailable, match="no such database"), source(shop.url + "_not").probe():
        pass
    with pytest.raises(ConfigError, match="no database"), source("mariadb://a@127.0.0.1").probe():
        pass
    with source(shop.url, "nowhere").probe() as probe, pytest.raises(ColumnMissing, match="nowhere"):
        probe.schema()
    with source(shop.url, "orders", columns={"name": "date"}).probe() as probe, pytest.raises(SchemaRefused):
        probe.schema()
    assert dialect_of(Connection(name="c", url=shop.url.replace("mariadb:", "mysql:"))).kind == "mariadb"


def test_connection_that_is_cut_may_be_tried_again(shop: Writers) -> None:
    with source(shop.url, "orders").probe() as probe:
        shop.session()(f"KILL {probe.session.thread}")
        with pytest.raises(SourceUnavailable) as cut:
            probe.count(Everything())
        assert cut.value.retryable
