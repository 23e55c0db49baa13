"""What a log depends on is or was otherwise between two loads: the stream stops, or no change is missed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from integration.slot.conftest import SlotShop
from tidegate.errors import ConfigError, HistoryGone, TidegateError

pytestmark = pytest.mark.postgres

ORDERS = "create table orders (id bigint primary key, code text not null, v text)"
KEYLESS = "create table orders (id bigint not null, code text not null, v text)"
FILLED = "insert into orders select i, 'c' || i, 'v' || i from generate_series(1, 5) i"
INSERTED = "insert into orders values (6, 'c6', 'six')"
BY_CODE = "alter table orders replica identity using index by_code"
FULL = "alter table orders replica identity full"
CHANGED = ("update orders set v = 'lost' where id = 1", "delete from orders where id = 2")
MINE = "alter publication mine"
PARTS = (
    "create table parent (id bigint primary key, code text not null, v text) partition by range (id)",
    "create table orders partition of parent for values from (0) to (100)",
)


def followed(shop: SlotShop, *made: str) -> dict:
    """The position after a first load, of a publication of somebody's own where one is made."""
    shop.publication = "mine" if any("publication mine" in each for each in made) else shop.publication
    shop.sql(*made, FILLED)
    shop.claim()
    return shop.after(None).state


@pytest.mark.parametrize(
    ("key", "made", "changes"),
    [
        ("code", [ORDERS, "create unique index by_code on orders (code)", BY_CODE],
         ["alter table orders replica identity default", "update orders set code = 'other' where id = 2", BY_CODE]),
        ("id", [ORDERS, "create unique index by_code on orders (code)"],
         ["alter table orders drop constraint orders_pkey, add primary key (code)",
          "update orders set id = 99 where id = 2",
          "alter table orders drop constraint orders_pkey, add primary key (id)"]),
        ("id", [ORDERS],
         ["alter table orders drop constraint orders_pkey", "insert into orders values (1, 'c', 'twin')", FULL,
          "delete from orders where v = 'v1'", "alter table orders add primary key (id), replica identity default"]),
        ("code", [KEYLESS, FULL, "create unique index by_code on orders (code)"],
         ["drop index by_code", "insert into orders values (7, 'c1', 'twin')", "delete from orders where id = 7",
          "create unique index by_code on orders (code)"]),
    ],
    ids=["index of the identity", "primary key", "no primary key", "index beside the identity"],
)  # fmt: skip
def test_a_row_was_known_by_something_else_for_a_while(shop: SlotShop, key: str, made: list[str], changes: list[str]):
    shop.key = (key,)
    state = followed(shop, *made)
    shop.sql(INSERTED)
    state = shop.read(state)[0].state
    shop.sql(*changes)
    with pytest.raises(HistoryGone):
        shop.read(state)


@pytest.mark.parametrize(
    ("made", "gone", "back"),
    [
        ([ORDERS, "create publication mine for tables in schema public"],
         f"{MINE} drop tables in schema public", f"{MINE} add tables in schema public"),
        ([ORDERS, "create schema attic", "create publication mine for tables in schema public"],
         "alter table orders set schema attic; set search_path = attic",
         "alter table attic.orders set schema public; set search_path = public"),
        ([ORDERS, "create publication mine for table orders"],
         f"{MINE} set table orders where (id > 5)", f"{MINE} set table orders"),
        ([ORDERS, "create publication mine for table orders"],
         f"{MINE} set table orders (id, code)", f"{MINE} set table orders"),
        ([ORDERS, "create publication mine for all tables"],
         "alter table orders set unlogged", "alter table orders set logged"),
        ([*PARTS, "create publication mine for table parent"],
         f"{MINE} drop table parent", f"{MINE} add table parent"),
    ],
    ids=["schema", "out of the schema", "row filter", "column list", "unlogged", "by its parent"],
)  # fmt: skip
def test_a_publication_lacked_something_of_the_table_for_a_while(shop: SlotShop, made: list[str], gone: str, back: str):
    state = followed(shop, *made)
    shop.sql(INSERTED)
    state = shop.read(state)[0].state
    shop.sql(gone, *CHANGED)
    with pytest.raises(TidegateError):
        shop.read(state)
    shop.sql(back, "insert into orders values (7, 'c7', 'seven')")
    with pytest.raises(HistoryGone, match="not in the publication mine all the time"):
        shop.read(state)


def test_what_is_refused_at_first_is_refused_later(shop: SlotShop):
    state = followed(
        shop,
        "create table orders (id bigint not null, code text, v text)",
        FULL,
        "create unique index by_id on orders (id)",
    )
    shop.sql("create table more () inherits (orders)", "insert into more values (8, 'c8', 'eight')")
    with pytest.raises(ConfigError, match=r"more inherits from public\.orders") as refused:
        shop.read(state)
    shop.sql(refused.value.hint.split("`")[1], INSERTED)
    state = shop.read(state)[0].state
    shop.sql("drop index by_id", "insert into orders values (1, 'twin', 'twin')")
    with pytest.raises(ConfigError, match=r"nothing in .* keeps two rows from having the same id"):
        shop.read(state)


@pytest.mark.parametrize(
    "changes",
    [
        ["vacuum full orders", "truncate orders"],
        ["alter table orders drop constraint orders_pkey, add primary key (id)"],
        [FULL, "reindex table concurrently orders", "alter table orders replica identity default"],
        ["alter table orders rename to other", "alter table other rename to orders"],
    ],
    ids=["another file", "another index", "rebuilt", "renamed"],
)
def test_what_takes_nothing_from_the_log_stops_nothing(shop: SlotShop, changes: list[str]):
    state = followed(shop, ORDERS, "create publication mine for all tables")
    shop.sql(*changes, INSERTED)
    assert [event.values[0] for event in shop.read(state)[1] if not event.clears] == ["6"]


@pytest.mark.parametrize(
    ("gone", "back"),
    [
        ("alter publication tidegate_orders drop table orders", "alter publication tidegate_orders add table orders"),
        ("drop publication tidegate_orders", "create publication tidegate_orders for table orders"),
    ],
    ids=["without the table", "dropped"],
)
def test_a_table_that_is_read_again_is_not_told_what_the_log_had_before(shop: SlotShop, gone: str, back: str):
    """Or a row of before came back whose delete nobody told."""
    state = followed(shop, ORDERS)
    shop.sql(INSERTED, gone, "delete from orders where id = 6", back)
    with pytest.raises(HistoryGone):
        shop.read(state)
    confirmed = shop.confirmed()
    shop.claim()
    again = shop.after(None).state
    assert shop.confirmed() == confirmed, "nothing is confirmed before the rows are published"
    shop.sql("insert into orders values (7, 'c7', 'seven')")
    shop.acknowledge(again)
    assert [event.values[0] for event in shop.read(again)[1]] == ["7"]


def test_a_table_is_read_again_once_open_transactions_have_ended(shop: SlotShop):
    """What they commit is in the rows or in the log, whenever they began."""
    followed(shop, ORDERS)
    shop.sql(INSERTED)
    with psycopg.connect(shop.url) as writer, ThreadPoolExecutor() as threads:
        writer.execute("insert into orders values (7, 'c7', 'seven')")
        reading = threads.submit(shop.after, None)
        waiting = "select 1 from pg_stat_activity where query like '%pg_snapshot_xmin%' and pid <> pg_backend_pid()"
        while not shop.rows(waiting):
            assert not reading.done()
        writer.commit()
        state = reading.result().state
    shop.sql("insert into orders values (8, 'c8', 'eight')")
    assert [event.values[0] for event in shop.read(state)[1]] == ["7", "8"]
