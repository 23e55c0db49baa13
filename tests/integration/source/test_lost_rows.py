"""Every known way of losing a row, played by two sessions: the usual load loses it, ours does not.

A scenario is a generator that acts as the writing sessions and yields wherever a load runs. Random writers of every
kind, of every database, are those of `tests/matrix/bounds`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import psycopg
import pytest

from integration.source.loading import Careful, Naive, Shop
from tidegate.core.ports.strategy import Strategy
from tidegate.strategies.sequence import Sequence
from tidegate.strategies.watermark import Watermark

pytestmark = [pytest.mark.postgres, pytest.mark.usefixtures("no_settling")]
Scenario = Callable[[Shop, psycopg.Connection, psycopg.Connection], Iterator[None]]
INSERT = "INSERT INTO orders (name) VALUES ('{}')"
WATERMARK, SEQUENCE = Watermark(column="updated_at"), Sequence(column="id")


def _commits_last(*work: str, commit: str = "COMMIT") -> Scenario:
    """An old transaction does its work, a new one commits before it."""

    def scenario(_: Shop, old: psycopg.Connection, new: psycopg.Connection) -> Iterator[None]:
        for statement in ("BEGIN", *work[:-1]):
            old.execute(statement)
        if commit == "COMMIT":
            old.execute(work[-1])
        new.execute(INSERT.format("new"))
        if commit != "COMMIT":
            old.execute(work[-1])
        yield
        old.execute(commit)
        yield

    return scenario


def writes_later(_: Shop, old: psycopg.Connection, new: psycopg.Connection) -> Iterator[None]:
    old.execute("BEGIN")
    old.execute("SELECT 1")  # no xid yet: bounds by xid do not see it
    new.execute(INSERT.format("new"))
    yield
    old.execute(INSERT.format("old"))
    old.execute("COMMIT")
    yield


def takes_its_number_before(_: Shop, old: psycopg.Connection, new: psycopg.Connection) -> Iterator[None]:
    old.execute("BEGIN")
    taken = old.execute("SELECT nextval(pg_get_serial_sequence('orders', 'id'))").fetchone()
    new.execute(INSERT.format("new"))
    yield
    old.execute("INSERT INTO orders (id, name) VALUES (%s, 'old')", taken)
    old.execute("COMMIT")
    yield


def updates_a_loaded_row(_: Shop, old: psycopg.Connection, new: psycopg.Connection) -> Iterator[None]:
    new.execute(INSERT.format("first"))
    yield
    old.execute("BEGIN")
    old.execute("UPDATE orders SET name = 'changed', updated_at = now()")
    new.execute(INSERT.format("second"))
    yield
    old.execute("COMMIT")
    yield


def leaves_a_cursor_open(_: Shop, old: psycopg.Connection, new: psycopg.Connection) -> Iterator[None]:
    old.execute("BEGIN")
    old.execute("DECLARE c CURSOR FOR SELECT * FROM orders")
    new.execute(INSERT.format("new"))
    yield
    old.execute("FETCH c")
    old.execute(INSERT.format("old"))
    yield
    old.execute("COMMIT")
    yield


def _within_one_second(column: str) -> Scenario:
    def scenario(_: Shop, old: psycopg.Connection, new: psycopg.Connection) -> Iterator[None]:
        new.execute(f"ALTER TABLE orders ALTER updated_at {column}")
        # Without it, rows of second 5 alone might be of a clock that is cut down to five seconds, and would wait.
        new.execute("INSERT INTO orders (name, updated_at) VALUES ('older', '2025-01-01 00:00:01Z')")
        time.sleep(1.05 - time.time() % 1)  # a second has just begun, and does not end before the load
        new.execute(INSERT.format("new"))
        old.execute("BEGIN")
        old.execute(INSERT.format("old"))
        yield
        old.execute("COMMIT")
        yield
        time.sleep(2.1 - time.time() % 1)  # which it then has

    return scenario


OLD = INSERT.format("old")
ANY: dict[str, Scenario] = {
    "older commits last": _commits_last(OLD),
    "older one has a subtransaction": _commits_last("SAVEPOINT inner_one", OLD, "RELEASE inner_one"),
    "older one is prepared": _commits_last(OLD, "PREPARE TRANSACTION 'later'", commit="COMMIT PREPARED 'later'"),
}
CASES: list[tuple[str, Strategy, Scenario]] = [
    *((name, strategy, scenario) for name, scenario in ANY.items() for strategy in (WATERMARK, SEQUENCE)),
    ("older one writes later", WATERMARK, writes_later),
    ("older one updates a loaded row", WATERMARK, updates_a_loaded_row),
    ("older one leaves a cursor open", WATERMARK, leaves_a_cursor_open),
    ("older one takes its number before", SEQUENCE, takes_its_number_before),
    ("the column keeps whole seconds", WATERMARK, _within_one_second("TYPE timestamptz(0)")),
    ("the time is cut to seconds", WATERMARK, _within_one_second("SET DEFAULT date_trunc('second', now())")),
]


@pytest.mark.parametrize(
    ("strategy", "scenario"),
    [
        pytest.param(strategy, scenario, id=f"{name}, {strategy.kind}", marks=[pytest.mark.slow] * ("second" in name))
        for name, strategy, scenario in CASES
    ],
)
def test_no_row_is_lost_that_the_greatest_value_would_lose(shop: Shop, strategy: Strategy, scenario: Scenario) -> None:
    ours = Careful(url=shop.url, strategy=strategy)
    usual = Naive(url=shop.url, column=strategy.cursor[0])
    for _ in scenario(shop, shop.session(), shop.session()):
        ours.load()
        usual.load()
    ours.load()
    usual.load()
    assert ours.rows == shop.rows()
    assert usual.rows != shop.rows()
