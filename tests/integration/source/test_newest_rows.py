"""A database that was restored and written past the position before the next run is recognized by its newest rows."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import duckdb
import pytest

from integration.source.loading import Careful
from tidegate.errors import HistoryGone
from tidegate.strategies.smart import Smart
from tidegate.strategies.watermark import Watermark

pytest_plugins = ["support.mariadb"]
MAKE = "CREATE TABLE orders (id integer PRIMARY KEY, name varchar(40), updated_at timestamp NOT NULL)"
FIRST = "INSERT INTO orders VALUES (1, 'a', '2025-01-01 00:00:00'), (2, 'b', '2025-01-02 00:00:00')"


@dataclass(frozen=True, kw_only=True)
class Shop:
    url: str
    run: Callable[[str], object]

    def made(self, strategy: object) -> Careful:
        """What has loaded two rows."""
        self.run(MAKE)
        self.run(FIRST)
        loader = Careful(url=self.url, strategy=strategy)
        loader.load()
        assert len(loader.rows) == 2
        return loader


@pytest.fixture(params=["sqlite", "duckdb", "mariadb", "postgresql"])
def shop(request, tmp_path: Path) -> Iterator[Shop]:
    """A new database of each kind."""
    if request.param == "sqlite":
        path = tmp_path / "shop.db"

        def sqlite(sql: str) -> None:
            with closing(sqlite3.connect(path)) as connection, connection:
                connection.execute(sql)

        yield Shop(url=f"sqlite:///{path}", run=sqlite)
    elif request.param == "duckdb":
        path = tmp_path / "shop.duckdb"

        def duck(sql: str) -> None:
            with duckdb.connect(str(path)) as connection:
                connection.execute(sql)

        yield Shop(url=f"duckdb:///{path}", run=duck)
    elif request.param == "mariadb":
        server, name = request.getfixturevalue("mariadb"), request.getfixturevalue("maria_database")
        yield Shop(url=server.url(name), run=lambda sql: server.run(sql, database=name))
    else:
        server, url = request.getfixturevalue("postgres"), request.getfixturevalue("pg_url")

        def postgres(sql: str) -> None:
            with server.connect(url.rsplit("/", 1)[1]) as connection:
                connection.execute(sql)

        yield Shop(url=url, run=postgres)


BACK = "UPDATE orders SET updated_at = '2025-01-01 12:00:00' WHERE id = 2"
LATER = "INSERT INTO orders VALUES (3, 'c', '2025-01-03 00:00:00')"


def test_row_with_an_older_time_than_was_loaded_stops_the_stream(shop):
    loader = shop.made(Watermark(column="updated_at"))
    shop.run(LATER)
    shop.run(BACK)
    with pytest.raises(
        HistoryGone,
        match=r"of the row with id = 2, updated_at was 2025-01-02 .* and is 2025-01-01.*or updated_at was set back",
    ):
        loader.load()


def test_rows_that_were_the_newest_stay_known_through_loads_of_few(shop):
    loader = shop.made(Watermark(column="updated_at"))
    shop.run(LATER)
    loader.load()
    shop.run("INSERT INTO orders VALUES (4, 'd', '2025-01-04 00:00:00')")
    shop.run(BACK)
    with pytest.raises(HistoryGone, match="id = 2"):
        loader.load()


@pytest.mark.parametrize(
    "ordinary",
    [
        "UPDATE orders SET updated_at = '2025-01-05 00:00:00' WHERE id = 2",
        "DELETE FROM orders WHERE id < 3",
        "DELETE FROM orders WHERE id = 2",
        "UPDATE orders SET id = 9, updated_at = '2025-01-06 00:00:00' WHERE id = 1",
        "UPDATE orders SET name = 'other'",
    ],
)
def test_ordinary_work_is_no_older_state(shop, ordinary):
    loader = shop.made(Watermark(column="updated_at"))
    for day in (7, 8):
        shop.run(ordinary)
        shop.run(f"INSERT INTO orders VALUES ({day}, 'new', '2025-01-{day:02} 00:00:00')")
        loader.load()
        assert loader.rows[day][1] == "new"


def test_key_that_is_given_out_again_is_no_older_state(shop):
    loader = shop.made(Watermark(column="updated_at"))
    shop.run("DELETE FROM orders WHERE id = 2")
    shop.run("INSERT INTO orders VALUES (2, 'again', '2025-01-03 00:00:00')")
    loader.load()
    assert loader.rows[2][1] == "again"


def test_column_of_another_type_is_not_compared(shop):
    loader = shop.made(Watermark(column="updated_at", time_zone="UTC"))
    if shop.url.startswith("sqlite"):
        shop.run("DROP TABLE orders")
        shop.run(MAKE.replace("timestamp", "date"))
        shop.run(FIRST.replace(" 00:00:00", ""))
    else:
        altered = "MODIFY updated_at date" if shop.url.startswith("mariadb") else "ALTER updated_at TYPE date"
        shop.run(f"ALTER TABLE orders {altered}")
    assert loader.position is not None
    with loader.source.probe(bound=loader.strategy.bound_request) as probe:
        assert probe.restore_reason(loader.position) is None


@pytest.mark.parametrize(
    "strategy",
    [Watermark(column="updated_at", lookback=timedelta(days=2)), Smart(column="updated_at")],
    ids=["within the lookback", "smart"],
)
def test_time_that_may_go_back_proves_nothing(shop, strategy):
    loader = shop.made(strategy)
    shop.run(LATER)
    shop.run(BACK)
    loader.load()
    assert loader.rows[3][1] == "c"


def test_further_back_than_the_lookback_is_an_older_state(shop):
    loader = shop.made(Watermark(column="updated_at", lookback=timedelta(hours=2)))
    shop.run(LATER)
    shop.run(BACK)
    with pytest.raises(HistoryGone, match="id = 2"):
        loader.load()


def test_keys_of_text_are_not_kept(shop):
    shop.run("CREATE TABLE people (mail varchar(40) PRIMARY KEY, updated_at timestamp NOT NULL)")
    shop.run("INSERT INTO people VALUES ('anna@example.org', '2025-01-01 00:00:00')")
    source = replace(Careful(url=shop.url, strategy=Watermark(column="updated_at")), table="people").source
    with source.probe(bound=Watermark(column="updated_at").bound_request) as probe:
        assert "anna" not in json.dumps(probe.witness(("updated_at",), None))


def test_column_with_a_fallback_goes_back_when_it_becomes_null(shop):
    shop.run(MAKE.replace("NOT NULL", "NULL, created_at timestamp"))
    shop.run("INSERT INTO orders VALUES (1, 'a', '2025-01-02 00:00:00', '2025-01-01 00:00:00')")
    strategy = Watermark(column="updated_at", on_null="fallback", fallback="created_at")
    loader = Careful(url=shop.url, strategy=strategy)
    loader.load()
    assert loader.position is not None
    assert "newest" not in loader.position.witness
    shop.run("UPDATE orders SET updated_at = NULL")
    shop.run("INSERT INTO orders VALUES (2, 'b', '2025-01-03 00:00:00', '2025-01-03 00:00:00')")
    loader.load()
    assert loader.rows[2][1] == "b"
