"""A slot of a real server, read without Spark, against a fold of its events in Python and the table itself."""

import subprocess
import time

import psycopg
import pytest

from integration.slot.conftest import write_ahead
from support.postgres import binaries
from tidegate.errors import ConfigError, HistoryGone, SchemaRefused, SourceError, SourceUnavailable
from tidegate.sources.change_log.slot import log, slot
from tidegate.sources.change_log.slot.events import lsn, number

pytestmark = pytest.mark.postgres

ORDERS = "create table orders (id bigint primary key, name text, big text)"


def fold(events, rows: dict) -> dict:
    """The rows once the events are applied, in their order: what a writer does, in five lines."""
    columns = ("id", "name", "big")
    for event in sorted(events, key=lambda event: event.order):
        assert event.refused is None
        if event.clears:
            rows.clear()
        elif event.deleted:
            rows.pop(event.values[0], None)
        else:
            old = rows.get(event.values[0], (None,) * 3)
            named = zip(columns, event.values, old, strict=True)
            rows[event.values[0]] = tuple(was if name in event.unknown else value for name, value, was in named)
    return rows


def table(shop) -> dict:
    return {row[0]: row for row in shop.rows("select id::text, name, big from orders")}


def test_every_kind_of_change_in_every_kind_of_transaction(shop):
    shop.sql(ORDERS, "create table lines (id int primary key)", "insert into orders values (1, 'a', 'x')")
    big = "(select string_agg(md5(i::text), '') from generate_series(1, 400) i)"  # 12 kB that do not compress
    shop.claim()
    shop.sql(f"insert into orders values (2, 'between slot and snapshot', {big})")
    first = shop.after(None)
    assert first.bulk
    rows = table(shop)
    with psycopg.connect(shop.url) as late:
        late.execute("insert into orders values (3, 'begins first', 'x')")
        shop.sql("insert into orders values (4, 'commits first', 'x')", "insert into lines values (1)")
        late.execute("update orders set name = 'commits last' where id = 3")
        late.commit()
        late.execute("insert into orders values (5, 'rolled back', 'x')")
        late.rollback()
        late.execute("savepoint a")
        late.execute("insert into orders values (6, 'of a savepoint', 'x')")
        late.execute("savepoint b")
        late.execute("insert into orders values (7, 'rolled back to it', 'x')")
        late.execute("rollback to b")
        late.execute("update orders set id = 60 where id = 6")
        late.commit()
    shop.sql(
        "update orders set name = 'big stays' where id = 2",
        "update orders set id = 20 where id = 2",
        "update orders set id = 21 where id = 20",
        "update orders set big = 'small' where id = 4",
        "delete from orders where id = 1",
        "insert into orders values (1, null, '')",
        "begin; delete from orders where id = 1; insert into orders values (1, 'in one', 'y'); commit",
    )
    with shop.session.cursor().copy("copy orders from stdin") as copy:
        for number_ in range(100, 600):
            copy.write_row((number_, "copied", "z"))
    span, events = shop.read(first.state)
    assert fold(events, dict(rows)) == table(shop)
    assert any(event.unknown == ("big",) for event in events)
    assert len({event.order for event in events}) == len(events)
    copied = [event.order for event in events if event.values[1] == "copied"]
    assert len({order[:33] for order in copied}) < len(copied), "some rows of one COPY share their place in the log"
    again = shop.read(first.state)[1]
    assert [event.order for event in again if event in events] == [event.order for event in events]
    shop.sql("truncate orders", "insert into orders values (9, 'after', 'x')")
    assert fold(shop.read(span.state)[1], fold(events, rows)) == table(shop)


def test_a_load_takes_whole_transactions_and_goes_on_where_it_stopped(shop):
    shop.sql(ORDERS)
    state = shop.begun()
    shop.sql(*(f"insert into orders select {k} * 1000 + i, 'n', 'b' from generate_series(1, 40) i" for k in range(5)))
    sizes, rows = [], {}
    while (found := shop.read(state, most=50))[0].slices:
        span, events = found
        assert span.events == len(events)
        sizes.append((len(events), span.behind > 0))
        state = span.state
        fold(events, rows)
        shop.acknowledge(state)
    assert sizes == [(80, True), (80, True), (40, False)]
    assert rows == table(shop)


def test_a_slot_tells_what_lies_behind_a_position_and_for_how_long(shop):
    shop.sql(ORDERS)
    state = shop.begun()
    with shop.log() as log:
        assert (log.lag(None).events, log.lag(state).events, log.lag(state).seconds) == (None, 0, 0)
    shop.sql("insert into orders select i, 'a' from generate_series(1, 60) i", "create table beside (id int)")
    shop.sql("insert into beside select i from generate_series(1, 9) i", "update orders set name = 'b' where id < 3")
    with shop.log() as log:
        lag = log.lag(state)
        assert (lag.events, 0 <= lag.seconds < 60) == (62, True)
        span = log.after(state, most=20)
        assert (span.events, span.taken > 0, span.behind > 0) == (60, True, True)
        assert log.lag(span.state).events == 2
    after = shop.after(span.state)
    assert (after.events, after.behind) == (2, 0)


def test_what_was_not_confirmed_is_passed_over(shop):
    shop.sql(ORDERS)
    shop.claim()
    first = shop.after(None).state
    shop.sql("insert into orders select i, 'n', 'b' from generate_series(1, 40) i")
    loaded = shop.after(first).state
    assert not shop.after(loaded, most=1).events
    shop.sql("insert into orders values (99, 'new', 'b')")
    span, events = shop.read(loaded, most=1)
    assert [event.values[0] for event in events] == ["99"]
    assert number(span.state["lsn"]) > number(loaded["lsn"])


def test_the_first_load_of_the_log_reaches_the_snapshot_of_the_rows(shop):
    """Or a row that was deleted before the snapshot came back, for one load, without what is stored apart."""
    shop.sql(ORDERS)
    shop.claim()
    shop.sql(*(f"insert into orders values ({k}, 'n', 'b')" for k in range(8)), "delete from orders where id < 7")
    first = shop.after(None)
    rows = table(shop)
    shop.sql("insert into orders values (100, 'later', 'b')")
    span, events = shop.read(first.state, most=1)
    assert number(span.state["lsn"]) >= number(first.state["through"])
    assert fold(events, rows) == table(shop)


def test_what_is_confirmed_is_what_was_loaded_and_never_more(shop):
    shop.sql(ORDERS)
    shop.claim()
    first = shop.after(None)
    assert shop.confirmed() == first.state["lsn"]
    shop.sql("insert into orders values (1, 'a', 'x')")
    span = shop.after(first.state)
    assert shop.confirmed() == first.state["lsn"]
    shop.acknowledge(span.state)
    assert shop.confirmed() == span.state["lsn"]
    shop.acknowledge(span.state)
    shop.acknowledge(first.state)
    assert shop.confirmed() == span.state["lsn"]
    shop.claim()
    assert shop.confirmed() == span.state["lsn"], "a slot that is there is not made anew"


def test_what_others_write_moves_a_quiet_table_only_now_and_then(shop):
    shop.sql(ORDERS, "create table lines (body text)")
    shop.claim()
    state = shop.after(None).state
    shop.sql("insert into lines select repeat('x', 1000) from generate_series(1, 500)")
    assert not shop.after(state).slices
    write_ahead(shop.session, log.QUIET_BYTES)
    span, events = shop.read(state)
    assert (span.events, events) == (0, [])
    shop.acknowledge(span.state)
    shop.sql("insert into orders values (1, 'a', 'x')")
    assert [event.values[0] for event in shop.read(span.state)[1]] == ["1"]


def test_a_log_that_is_gone_stops_the_load(shop):
    shop.sql(ORDERS)
    shop.claim()
    state = shop.after(None).state
    shop.sql("insert into orders values (1, 'a', 'x')")
    with pytest.raises(HistoryGone, match="ends at"):
        shop.after({**state, "lsn": lsn(number(state["lsn"]) + 2**40)})
    with pytest.raises(HistoryGone, match="now names"):
        shop.after({**state, "slot": "another"})
    shop.sql("select pg_drop_replication_slot('tidegate_orders')")
    with pytest.raises(HistoryGone, match="no longer exists"):
        shop.after(state)
    shop.sql("select pg_create_logical_replication_slot('tidegate_orders', 'pgoutput')")
    with pytest.raises(HistoryGone, match="recreated"):
        shop.after(state)
    shop.claim()
    anew = shop.after(None)
    shop.sql("insert into orders values (2, 'a', 'x')")
    assert [event.values[0] for event in shop.read(anew.state)[1]] == ["2"]


def test_a_slot_that_somebody_else_moved_stops_the_load(shop):
    shop.sql(ORDERS)
    shop.claim()
    state = shop.after(None).state
    shop.sql("insert into orders values (1, 'a', 'x')")
    shop.rows(
        "select count(*) from pg_logical_slot_get_binary_changes("
        "'tidegate_orders', null, null, 'proto_version', '1', 'publication_names', 'tidegate_orders')"
    )
    with pytest.raises(HistoryGone, match="read by another client"):
        shop.after(state)


def test_a_table_that_was_out_of_its_publication_stops_the_load(shop):
    shop.sql(ORDERS)
    shop.claim()
    state = shop.after(None).state
    shop.sql("create table lines (id int)", "alter publication tidegate_orders set table lines")
    with pytest.raises(ConfigError, match="does not include"):
        shop.after(state)
    shop.sql("insert into orders values (1, 'nobody tells', 'x')", "alter publication tidegate_orders set table orders")
    with pytest.raises(HistoryGone, match="all the time"):
        shop.after(state)


def test_a_publication_that_leaves_something_out_is_refused(shop):
    shop.publication = "mine"
    shop.sql(ORDERS)
    for partly in ("with (publish = 'insert')", "where (id > 5)", "(id, name)"):
        shop.sql("drop publication if exists mine", f"create publication mine for table orders {partly}")
        with pytest.raises(ConfigError, match="omits"):
            shop.claim()
    assert not shop.rows("select 1 from pg_replication_slots where database = current_database()")
    shop.sql("drop publication mine", "create publication mine for all tables")
    shop.claim()


@pytest.mark.parametrize(
    ("statements", "reason"),
    [
        (("create table orders (id bigint)",), "REPLICA IDENTITY FULL"),
        ((ORDERS, "alter table orders replica identity nothing"), "REPLICA IDENTITY FULL"),
        (("create table orders (id int primary key, two int generated always as (id * 2) stored)",), "exclude: [two]"),
        (("create view orders as select 1 as id",), "only tables"),
    ],
    ids=["no key", "nothing", "generated", "view"],
)
def test_a_table_whose_log_does_not_tell_its_rows_is_refused(shop, statements, reason):
    shop.sql(*statements)
    with pytest.raises(SchemaRefused) as refused:
        shop.claim()
    assert reason in f"{refused.value.message} {refused.value.hint}"


def test_a_key_that_the_log_does_not_tell_is_refused(shop):
    """An update of it would leave the row of the old key behind, for ever."""
    shop.sql("create table orders (id bigint primary key, name text unique not null, big text)")
    with pytest.raises(ConfigError, match="identifies changed rows by id") as refused:
        shop.claim("name")
    assert "USING INDEX" in refused.value.hint
    assert shop.options.retained().exists is False
    shop.sql("alter table orders replica identity using index orders_name_key")
    shop.claim("name")
    state = shop.after(None).state
    shop.sql("insert into orders values (1, 'a', 'x')", "update orders set name = 'b'", "delete from orders")
    assert [(event.deleted, event.values[1]) for event in shop.read(state)[1]] == [
        (False, "a"),
        (True, "a"),
        (False, "b"),
        (True, "b"),
    ]
    shop.sql("alter table orders replica identity default")
    with pytest.raises(HistoryGone, match="by columns other than"):
        shop.after(state)


@pytest.mark.parametrize(
    "made",
    [
        (
            "create table orders (id bigint unique not null, name text, big text)",
            "alter table orders replica identity full",
        ),
        (
            "create table orders (id bigint primary key, name text, big text) partition by range (id)",
            "create table low partition of orders for values from (0) to (100)",
            "create table high partition of orders for values from (100) to (200)",
        ),
    ],
    ids=["full identity", "partitions"],
)
def test_tables_without_a_primary_key_and_partitions_are_told_alike(shop, made):
    shop.sql(*made)
    shop.claim()
    state = shop.after(None).state
    shop.sql("insert into orders values (1, 'a', 'x'), (150, 'b', 'y')", "update orders set id = 160 where id = 1")
    shop.sql("delete from orders where id = 150")
    assert fold(shop.read(state)[1], {}) == table(shop)


def test_odd_names(shop):
    shop.sql('create schema "o""dd"', 'create table "o""dd"."t a.b" ("k""1" int primary key, "é" text)')
    shop.table = '"o""dd"."t a.b"'
    shop.claim('k"1')
    state = shop.after(None).state
    shop.sql('insert into "o""dd"."t a.b" values (1, \'ü\')')
    assert [tuple(event.values) for event in shop.read(state)[1]] == [("1", "ü")]


def test_a_user_who_may_not_is_told_what_to_grant(shop, postgres):
    shop.sql(ORDERS, "drop role if exists reader", "create role reader login", "grant select on orders to reader")
    own, shop.url = shop.url, postgres.url(shop.url.rsplit("/", 1)[1], user="reader")
    with pytest.raises(SourceError, match="publish") as refused:
        shop.claim()
    assert "CREATE PUBLICATION" in refused.value.hint
    shop.sql("create publication tidegate_orders for table orders")
    with pytest.raises(SourceError, match="may not use") as refused:
        shop.claim()
    assert "REPLICATION" in refused.value.hint
    shop.sql("alter role reader replication")
    shop.claim()
    shop.options.release()
    assert shop.rows("select pubname from pg_publication") == [("tidegate_orders",)], "not the reader's to drop"
    shop.url = own
    shop.sql("drop owned by reader", "drop role reader")


def test_a_slot_that_somebody_reads_now_is_worth_another_try(shop, postgres):
    shop.sql(ORDERS)
    state = shop.begun()
    reader = subprocess.Popen(
        [
            *(str(binaries() / "pg_recvlogical"), "-d", shop.url, "-S", "tidegate_orders", "--start", "-f", "-"),
            *("-o", "proto_version=1", "-o", "publication_names=tidegate_orders"),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        while not shop.options.retained().active:
            assert reader.poll() is None
            time.sleep(0.05)
        with pytest.raises(SourceUnavailable, match="another client is reading slot tidegate_orders"):
            shop.after(state)
    finally:
        reader.kill()
        reader.wait()


@pytest.mark.slow
def test_a_slot_that_has_to_wait_too_long_is_not_left_half_made(shop):
    shop.sql(ORDERS)
    with psycopg.connect(shop.url) as writer:
        writer.execute("insert into orders values (1, 'open', 'x')")
        with pytest.raises(SourceUnavailable, match="transactions are open"):
            shop.claim()
        assert shop.options.retained().exists is False
        writer.commit()
    shop.claim()
    assert shop.after(None).state["lsn"] == shop.confirmed()


def test_texts_of_a_database_that_is_not_in_utf8(shop, postgres):
    shop.sql("drop database if exists latin")
    shop.sql("create database latin encoding 'LATIN1' template template0 locale 'C'")
    shop.url = postgres.url("latin")
    with psycopg.connect(shop.url, autocommit=True) as session:
        session.execute("set synchronous_commit = on")
        session.execute(ORDERS)
        shop.claim()
        state = shop.after(None).state
        session.execute("insert into orders values (1, 'café', '£')")
        assert [tuple(event.values) for event in shop.read(state)[1]] == [("1", "café", "£")]
    postgres.drop_database("latin")


def test_what_is_kept_is_told_and_dropped(shop):
    shop.sql(ORDERS)
    assert shop.options.retained().exists is False
    shop.claim()
    shop.sql("insert into orders select i, 'n', repeat('x', 100) from generate_series(1, 5000) i")
    found = shop.options.retained()
    assert (found.name, found.where, found.exists, found.active, found.status) == (
        "tidegate_orders",
        "shop",
        True,
        False,
        "reserved",
    )
    assert found.bytes >= found.behind > 500_000
    assert found.warning is None
    write_ahead(shop.session, slot.KEPT_BYTES)
    assert "slot tidegate_orders retains" in shop.options.retained().warning
    with shop.log() as log:
        log.after(None, most=None)
        assert "write-ahead log" in log.notes()[0]
    shop.options.release()
    assert not shop.rows("select 1 from pg_replication_slots where database = current_database()")
    assert not shop.rows("select 1 from pg_publication")
