"""Every known way of losing a row, played by two sessions: the usual load loses it, ours does not.

A scenario is a generator that acts as the writing sessions and yields wherever a load runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from integration.source.loading import Careful, Loader, Naive, Shop
from tidegate.strategies.sequence import Sequence
from tidegate.strategies.watermark import Watermark

pytestmark = [pytest.mark.postgres, pytest.mark.usefixtures("no_settling")]
Scenario = Callable[[Shop], Iterator[None]]
INSERT = "INSERT INTO orders (name) VALUES (%s)"


def older_transaction_commits_last(shop: Shop) -> Iterator[None]:
    old, new = shop.session(), shop.session()
    old.execute("BEGIN")
    old.execute(INSERT, ["old"])
    new.execute(INSERT, ["new"])
    yield
    old.execute("COMMIT")
    yield


def begins_now_and_writes_later(shop: Shop) -> Iterator[None]:
    old, new = shop.session(), shop.session()
    old.execute("BEGIN")
    old.execute("SELECT 1")  # no xid yet: bounds by xid do not see it
    new.execute(INSERT, ["new"])
    yield
    old.execute(INSERT, ["old"])
    old.execute("COMMIT")
    yield


def older_one_writes_in_a_subtransaction(shop: Shop) -> Iterator[None]:
    old, new = shop.session(), shop.session()
    old.execute("BEGIN")
    old.execute("SAVEPOINT inner_one")
    old.execute(INSERT, ["old"])
    old.execute("RELEASE inner_one")
    new.execute(INSERT, ["new"])
    yield
    old.execute("COMMIT")
    yield


def older_one_is_prepared(shop: Shop) -> Iterator[None]:
    old, new = shop.session(), shop.session()
    old.execute("BEGIN")
    old.execute(INSERT, ["old"])
    new.execute(INSERT, ["new"])
    old.execute("PREPARE TRANSACTION 'later'")
    yield
    old.execute("COMMIT PREPARED 'later'")
    yield


def older_one_updates_a_loaded_row(shop: Shop) -> Iterator[None]:
    old, new = shop.session(), shop.session()
    new.execute(INSERT, ["first"])
    yield
    old.execute("BEGIN")
    old.execute("UPDATE orders SET name = 'changed', updated_at = now()")
    new.execute(INSERT, ["second"])
    yield
    old.execute("COMMIT")
    yield


def a_cursor_left_open(shop: Shop) -> Iterator[None]:
    old, new = shop.session(), shop.session()
    old.execute("BEGIN")
    old.execute("DECLARE c CURSOR FOR SELECT * FROM orders")
    new.execute(INSERT, ["new"])
    yield
    old.execute("FETCH c")
    old.execute(INSERT, ["old"])
    yield
    old.execute("COMMIT")
    yield


def _within_one_second(shop: Shop, column: str) -> Iterator[None]:
    old, new = shop.session(), shop.session()
    new.execute(f"ALTER TABLE orders ALTER updated_at {column}")
    # Without it, rows of second 5 alone might be of a clock that is cut down to five seconds, and would wait as long.
    new.execute("INSERT INTO orders (name, updated_at) VALUES ('older', '2025-01-01 00:00:01Z')")
    time.sleep(1.05 - time.time() % 1)  # a second has just begun, and does not end before the load
    new.execute(INSERT, ["new"])
    old.execute("BEGIN")
    old.execute(INSERT, ["old"])
    yield
    old.execute("COMMIT")
    yield
    time.sleep(2.1 - time.time() % 1)  # which it then has


def the_column_keeps_whole_seconds(shop: Shop) -> Iterator[None]:
    yield from _within_one_second(shop, "TYPE timestamptz(0)")


def the_time_is_cut_down_to_seconds(shop: Shop) -> Iterator[None]:
    yield from _within_one_second(shop, "SET DEFAULT date_trunc('second', now())")


TIMES = [
    older_transaction_commits_last,
    begins_now_and_writes_later,
    older_one_writes_in_a_subtransaction,
    older_one_is_prepared,
    older_one_updates_a_loaded_row,
    a_cursor_left_open,
    the_column_keeps_whole_seconds,
    the_time_is_cut_down_to_seconds,
]


def smaller_id_commits_last(shop: Shop) -> Iterator[None]:
    yield from older_transaction_commits_last(shop)


def smaller_id_is_prepared(shop: Shop) -> Iterator[None]:
    yield from older_one_is_prepared(shop)


def smaller_id_taken_before_the_insert(shop: Shop) -> Iterator[None]:
    old, new = shop.session(), shop.session()
    old.execute("BEGIN")
    taken = old.execute("SELECT nextval(pg_get_serial_sequence('orders', 'id'))").fetchone()
    new.execute(INSERT, ["new"])
    yield
    old.execute("INSERT INTO orders (id, name) VALUES (%s, 'old')", taken)
    old.execute("COMMIT")
    yield


def smaller_id_in_a_subtransaction(shop: Shop) -> Iterator[None]:
    yield from older_one_writes_in_a_subtransaction(shop)


IDS = [
    smaller_id_commits_last,
    smaller_id_is_prepared,
    smaller_id_taken_before_the_insert,
    smaller_id_in_a_subtransaction,
]


def play(shop: Shop, scenario: Scenario, loader: Loader) -> None:
    """The scenario with its loads, and one more when all is quiet."""
    for _ in scenario(shop):
        loader.load()
    loader.load()


@pytest.mark.parametrize("scenario", TIMES)
def test_watermark_loses_nothing(shop: Shop, scenario: Scenario) -> None:
    loader = Careful(url=shop.url, strategy=Watermark(column="updated_at"))
    play(shop, scenario, loader)
    assert loader.rows == shop.rows()


@pytest.mark.parametrize("scenario", TIMES)
def test_greatest_timestamp_loses_a_row(shop: Shop, scenario: Scenario) -> None:
    loader = Naive(url=shop.url, column="updated_at")
    play(shop, scenario, loader)
    assert loader.rows != shop.rows()


@pytest.mark.parametrize("scenario", IDS)
def test_sequence_loses_nothing(shop: Shop, scenario: Scenario) -> None:
    loader = Careful(url=shop.url, strategy=Sequence(column="id"))
    play(shop, scenario, loader)
    assert loader.rows == shop.rows()


@pytest.mark.parametrize("scenario", IDS)
def test_greatest_id_loses_a_row(shop: Shop, scenario: Scenario) -> None:
    loader = Naive(url=shop.url, column="id")
    play(shop, scenario, loader)
    assert loader.rows != shop.rows()
