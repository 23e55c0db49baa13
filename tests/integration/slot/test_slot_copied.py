"""A slot behind the table's position goes on only where its log is the one that was loaded."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from integration.slot.conftest import SlotShop, write_ahead
from support.postgres import PostgresServer
from tidegate.errors import HistoryGone
from tidegate.sources.change_log.slot import log
from tidegate.sources.change_log.slot.events import number

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

CAREFUL = {"fsync": "on", "synchronous_commit": "on", "autovacuum": "off", "checkpoint_timeout": "1h"}
ORDERS = "create table orders (id bigint primary key, name text)"
INSERT = "insert into orders select i, 'n' || i from generate_series({}, {}) i"


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    made = PostgresServer.new(**CAREFUL)
    made.create_database("shop")
    yield made
    made.drop()


@contextmanager
def shop_of(server: PostgresServer, folder: Path) -> Iterator[SlotShop]:
    with psycopg.connect(server.url("shop"), autocommit=True) as session:
        yield SlotShop(url=server.url("shop"), folder=folder, session=session)


def copied(server: PostgresServer) -> None:
    server.stop("fast")
    subprocess.run(["cp", "-a", str(server.data), str(server.folder / "copy")], check=True)
    server.start(**CAREFUL)


def restored(server: PostgresServer) -> None:
    server.stop("fast")
    shutil.rmtree(server.data)
    (server.folder / "copy").rename(server.data)
    server.start(**CAREFUL)


def grown(shop: SlotShop, position: str) -> None:
    """The restored server has other transactions in the log's place, and ends after the position."""
    first = 1000
    while shop.rows("select (pg_current_wal_flush_lsn() - '0/0')::bigint")[0][0] < number(position):
        shop.sql(INSERT.format(first, first + 999), "select pg_switch_wal()")
        first += 1000
    shop.sql(INSERT.format(first, first))


def refused(shop: SlotShop, state: dict) -> None:
    before = shop.confirmed()
    for _ in range(2):
        with pytest.raises(HistoryGone, match="restored from an older copy"):
            shop.acknowledge(state)
        with pytest.raises(HistoryGone, match="restored from an older copy"):
            shop.after(state)
    assert shop.confirmed() == before


@pytest.mark.parametrize("loads", [1, 2])
def test_a_copy_whose_log_has_grown_past_the_position_is_not_read_on(server, tmp_path, loads):
    with shop_of(server, tmp_path) as shop:
        shop.sql(ORDERS, INSERT.format(1, 5))
        state = shop.begun()
    copied(server)
    with shop_of(server, tmp_path) as shop:
        for number_ in range(loads):
            shop.sql(INSERT.format(10 * number_ + 10, 10 * number_ + 14))
            span, events = shop.read(state)
            assert len(events) == 5
            state = span.state
            shop.acknowledge(state)
    restored(server)
    with shop_of(server, tmp_path) as shop:
        grown(shop, state["lsn"])
        refused(shop, state)


def test_a_copy_is_found_also_where_the_table_stood_still(server, tmp_path):
    """The position moved without an event: whatever the copy has in between was never loaded."""
    with shop_of(server, tmp_path) as shop:
        shop.sql(ORDERS, "create table lines (body text)")
        shop.claim()
        state = shop.after(None).state
    copied(server)
    with shop_of(server, tmp_path) as shop:
        write_ahead(shop.session, log.QUIET_BYTES)
        span, events = shop.read(state)
        assert (span.events, events) == (0, [])
        state = span.state
        shop.acknowledge(state)
    restored(server)
    with shop_of(server, tmp_path) as shop:
        shop.sql(INSERT.format(1, 5))
        write_ahead(shop.session, log.QUIET_BYTES + 2**25)
        refused(shop, state)


def test_a_copy_is_found_that_has_the_last_transaction_and_others_after_it(server, tmp_path):
    with shop_of(server, tmp_path) as shop:
        shop.sql(ORDERS, INSERT.format(1, 5))
        state = shop.begun()
        shop.sql(INSERT.format(6, 9))
    copied(server)
    with shop_of(server, tmp_path) as shop:
        write_ahead(shop.session, 2**25)
        span, events = shop.read(state)
        assert len(events) == 4
        shop.acknowledge(span.state)
    restored(server)
    with shop_of(server, tmp_path) as shop:
        shop.sql(INSERT.format(100, 104))
        write_ahead(shop.session, 2**26)
        refused(shop, span.state)


@pytest.mark.parametrize("confirmed", [True, False])
def test_a_confirmation_lost_in_a_crash_is_no_restore(server, tmp_path, confirmed):
    with shop_of(server, tmp_path) as shop:
        shop.sql(ORDERS, INSERT.format(1, 5))
        state = shop.begun()
        shop.sql("checkpoint", INSERT.format(6, 7))
        shop.sql(INSERT.format(8, 9), "create table others (id int)", "update orders set name = 'x' where id = 1")
        state = shop.after(state).state
        if confirmed:
            shop.acknowledge(state)
    server.stop("immediate")
    server.start(**CAREFUL)
    with shop_of(server, tmp_path) as shop:
        assert number(shop.confirmed()) < number(state["lsn"])
        shop.sql(INSERT.format(20, 21))
        span, events = shop.read(state)
        assert [event.values[0] for event in events] == ["20", "21"]
        shop.acknowledge(state)
        shop.acknowledge(span.state)
        assert shop.confirmed() == span.state["lsn"]
