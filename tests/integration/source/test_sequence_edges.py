"""What the edge of a PostgreSQL sequence says: the greatest number, and who may still add a smaller one."""

from __future__ import annotations

import threading
import time
from datetime import timedelta

import psycopg
import pytest

from integration.source.loading import Careful, Shop, safe_sequence_bound, shop_of
from tidegate.core.bounds import Clock
from tidegate.core.changes import SafeBound
from tidegate.errors import EdgeUnknown, HistoryGone
from tidegate.strategies.sequence import Sequence

pytestmark = pytest.mark.postgres
INSERT = "INSERT INTO orders (name) VALUES (%s)"


def loaded(shop: Shop, rows: int, url: str = "") -> tuple[psycopg.Connection, Careful]:
    """A session of an administrator, and a loader that has loaded so many rows."""
    admin = shop.session()
    admin.execute(f"INSERT INTO orders (name) SELECT 'old' FROM generate_series(1, {rows})")
    loader = Careful(url=url or shop.url, strategy=Sequence(column="id"))
    loader.load()
    assert loader.rows == shop.rows()
    return admin, loader


def test_sequence_edge_is_the_greatest_id(shop: Shop) -> None:
    assert safe_sequence_bound(shop.url) == SafeBound(upto=None, generated=0)
    shop.session().execute("INSERT INTO orders (name) VALUES ('a'), ('b')")
    assert safe_sequence_bound(shop.url) == SafeBound(upto="2", generated=2)
    shop.session().execute("DELETE FROM orders WHERE id = 2")
    assert safe_sequence_bound(shop.url) == SafeBound(upto="1", generated=2)


@pytest.mark.parametrize(
    "changes",
    [
        ("TRUNCATE orders RESTART IDENTITY",),
        ("TRUNCATE orders RESTART IDENTITY", "INSERT INTO orders (name) VALUES ('new')"),
        ("DELETE FROM orders WHERE id > 1", "SELECT setval('orders_id_seq', 1)"),
        ("DELETE FROM orders WHERE id > 1", "SELECT setval('orders_id_seq', 3, false)"),
    ],
)
def test_numbers_that_were_set_back_stop_a_sequence(shop: Shop, changes: tuple[str, ...]) -> None:
    admin, loader = loaded(shop, 3)
    for change in changes:
        admin.execute(change)
    with pytest.raises(HistoryGone, match="numbers were set back") as stopped:
        loader.load()
    assert stopped.value.context["restored"]


def test_numbers_above_the_sequence_stop_it(shop: Shop) -> None:
    """Rows that the sequence numbers later would lie below the position."""
    admin, loader = loaded(shop, 1)
    admin.execute("INSERT INTO orders (id, name) VALUES (10, 'restored')")
    loader.load()
    assert "greatest id is 10, and the last number that the source has generated is 1" in loader.stopped
    admin.execute("SELECT setval('orders_id_seq', (SELECT max(id) FROM orders))")
    admin.execute("INSERT INTO orders (name) VALUES ('next')")
    loader.load()
    assert loader.rows == shop.rows()


def test_deleted_newest_rows_stop_no_sequence(shop: Shop, reader: str) -> None:
    """A login that may not read the sequence is told so, for it cannot tell the two apart."""
    shop.session().execute("GRANT SELECT ON orders TO reader")
    admin, loader = loaded(shop, 3, reader)
    for change in ("DELETE FROM orders WHERE id > 1", "DELETE FROM orders", "INSERT INTO orders (name) VALUES ('new')"):
        admin.execute(change)
        if change.endswith("> 1"):
            with pytest.raises(HistoryGone, match="either its newest rows were deleted") as stopped:
                loader.load()
            admin.execute(stopped.value.hint.split("`")[1])
        loader.load()
    assert set(loader.rows) == {1, 2, 3, 4}


@pytest.fixture
def writer(shop: Shop) -> psycopg.Connection:
    """A session whose transaction has number 1 and is open; number 2 is committed."""
    session = shop.session(application_name="import")
    session.execute("BEGIN")
    session.execute(INSERT, ["open"])
    shop.session().execute(INSERT, ["closed"])
    return session


def test_sequence_edge_waits_for_exactly_those_who_write(shop: Shop, writer) -> None:
    """And names them while they do."""
    edge = safe_sequence_bound(shop.url, wait=timedelta(milliseconds=100))
    assert edge.upto is None
    assert f"pid {writer.info.backend_pid} (import)" in edge.held_by[0]
    follower, found = shop.session(), []
    asking = threading.Thread(target=lambda: found.append(safe_sequence_bound(shop.url, wait=timedelta(seconds=60))))
    asking.start()
    asked = "SELECT FROM pg_stat_activity WHERE query LIKE '%RowExclusiveLock%' AND pid <> pg_backend_pid()"
    while asking.is_alive() and not follower.execute(asked).fetchall():
        time.sleep(0.02)
    follower.execute("BEGIN")
    follower.execute(INSERT, ["later"])  # a new writer, whom nobody has to wait for
    writer.execute("COMMIT")
    asking.join()
    assert found == [SafeBound(upto="2", generated=3)]


def test_writer_that_is_prepared_while_it_is_waited_for_holds_the_sequence_edge(shop: Shop, writer) -> None:
    preparing = threading.Timer(0.2, writer.execute, ["PREPARE TRANSACTION 'two phases'"])
    preparing.start()
    try:
        edge = safe_sequence_bound(shop.url, wait=timedelta(seconds=1))
        assert edge.upto is None
        assert "the prepared transaction" in edge.held_by[0]
    finally:
        preparing.join()
        writer.execute("ROLLBACK PREPARED 'two phases'")


def test_readers_hold_no_sequence_edge(shop: Shop) -> None:
    reader = shop.session()
    reader.execute(INSERT, ["row"])
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM orders FOR UPDATE")
    assert safe_sequence_bound(shop.url).upto == "1"


def test_writer_of_a_partition_holds_the_edge_of_the_table(pg_url: str) -> None:
    statements = (
        "CREATE TABLE orders (id bigint GENERATED BY DEFAULT AS IDENTITY, name text) PARTITION BY RANGE (id)",
        "CREATE TABLE orders_1 PARTITION OF orders FOR VALUES FROM (1) TO (100)",
    )
    with shop_of(pg_url, *statements) as shop:
        writer = shop.session()
        writer.execute("BEGIN")
        writer.execute("INSERT INTO orders_1 (id, name) VALUES (1, 'open')")
        shop.session().execute("INSERT INTO orders (id, name) VALUES (2, 'closed')")
        assert safe_sequence_bound(pg_url).held_by


def test_sequences_that_do_not_grow_with_time_are_refused(pg_url: str) -> None:
    identity = "id bigint GENERATED BY DEFAULT AS IDENTITY"
    cases = {
        f"{identity} (CACHE 20)": "CACHE 20",
        f"{identity} (INCREMENT -1)": "INCREMENT -1",
        f"{identity} (MAXVALUE 9 CYCLE)": "CYCLE",
        "id bigint DEFAULT nextval('s')": "CACHE 5",
        "id bigint": "no sequence",
    }
    for column, word in cases.items():
        made = ("DROP TABLE IF EXISTS orders", "DROP SEQUENCE IF EXISTS s", "CREATE SEQUENCE s CACHE 5")
        with shop_of(pg_url, *made, f"CREATE TABLE orders ({column})"), pytest.raises(EdgeUnknown, match=word):
            safe_sequence_bound(pg_url)
    assert Sequence(column="id", clock=Clock.APPLICATION).problems()
