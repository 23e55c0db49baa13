"""Up to where a window of a MariaDB table may reach, and when nobody can tell."""

from __future__ import annotations

import threading
import time
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from integration.source.mariadb.orders import INSERT, Writers, source
from tidegate.core.bounds import Clock, SequenceBound, TimeBound
from tidegate.core.changes import SafeBound
from tidegate.dialects.mariadb import safe_bounds as edges
from tidegate.errors import (
    ConfigError,
    EdgeUnknown,
    SourceRefused,
)

if TYPE_CHECKING:
    from support.mariadb import MariadbServer

pytest_plugins = ["support.mariadb"]


def safe_time_bound(url: str, column: str = "updated_at", table: str = "orders", **options) -> SafeBound:
    with source(url, table).probe(bound=TimeBound(column=column, **options)) as probe:
        return probe.edge()


def safe_sequence_bound(url: str, table: str = "orders", **options) -> SafeBound:
    with source(url, table).probe(bound=SequenceBound(column="id", **options)) as probe:
        return probe.edge()


def moment(text: str | None) -> datetime:
    assert text is not None
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def test_time_edge_is_a_second_before_the_clock_or_below_who_writes(shop: Writers) -> None:
    before = datetime.now(UTC)
    edge = safe_time_bound(shop.url)
    assert before - timedelta(seconds=3) <= moment(edge.upto) <= datetime.now(UTC) - timedelta(seconds=1)
    assert edge.held_by == ()
    writer = shop.session()
    writer("BEGIN")
    writer(INSERT, ["open"])
    ((started, thread),) = writer("SELECT updated_at, connection_id() FROM orders")
    started = started + timedelta(hours=5)  # as the server's own zone shows it
    time.sleep(2.1)
    edge = safe_time_bound(shop.url)
    assert started.replace(tzinfo=UTC) - timedelta(seconds=2) < moment(edge.upto) < started.replace(tzinfo=UTC)
    assert f"connection {thread} of user root" in edge.held_by[0]


def test_others_who_ask_at_the_same_pace_hide_no_transaction(shop: Writers) -> None:
    """A server renews its list of transactions only when nobody has looked at it for a tenth of a second."""
    ended = threading.Event()
    watcher = shop.session()

    def watch() -> None:
        while not ended.wait(0.15):
            watcher("SELECT count(*) FROM information_schema.innodb_trx")

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        for _ in range(6):
            assert safe_time_bound(shop.url).upto is not None
            time.sleep(0.03)
    finally:
        ended.set()
        watching.join()


def test_statement_that_runs_holds_the_edge_before_it_has_a_transaction(shop: Writers) -> None:
    """Its NOW() is its start, and no transaction of it is listed while it waits."""
    began = datetime.now(UTC)
    writer = shop.session()
    running = threading.Thread(target=writer, args=("INSERT INTO orders (name) SELECT sleep(3.5)",))
    running.start()
    time.sleep(2.5)
    edge = safe_time_bound(shop.url)
    running.join()
    assert moment(edge.upto) < began
    assert edge.held_by


def test_prepared_transaction_stops_and_is_named(shop: Writers) -> None:
    writer = shop.session()
    for statement in ("XA START 'two phases'", "INSERT INTO orders (name) VALUES ('x')", "XA END 'two phases'"):
        writer(statement)
    writer("XA PREPARE 'two phases'")
    shop.sessions[0].close()
    try:
        with pytest.raises(EdgeUnknown, match="two phases") as stopped:
            safe_time_bound(shop.url)
        assert "XA COMMIT" in stopped.value.hint
        assert "two phases" in safe_sequence_bound(shop.url).held_by[0]
    finally:
        time.sleep(0.2)
        shop.session()("XA ROLLBACK 'two phases'")


def test_user_who_sees_no_transactions_is_told_what_to_grant(shop: Writers) -> None:
    admin = shop.session()
    admin("CREATE USER reader@localhost IDENTIFIED BY 'p@ss:w/rd'")
    admin(f"GRANT SELECT ON {shop.database}.* TO reader@localhost")
    url = shop.server.url(shop.database, user="reader", password="p@ss:w/rd")
    try:
        for edge in (safe_time_bound, safe_sequence_bound):
            with pytest.raises(EdgeUnknown, match="may not see") as stopped:
                edge(url)
            assert "GRANT PROCESS" in stopped.value.hint
        assert safe_time_bound(url, clock=Clock.APPLICATION, lag=timedelta(minutes=1)).upto
        admin("GRANT PROCESS ON *.* TO reader@localhost")
        assert safe_time_bound(url).upto
        with pytest.raises(SourceRefused, match="refused the login") as refused:
            source(url.replace("w%2Frd", "wrong"), "orders").probe().__enter__()
        assert "wrong" not in f"{refused.value}{refused.value.hint}"
    finally:
        admin("DROP USER reader@localhost")


def test_read_only_server_stops(shop: Writers) -> None:
    admin = shop.session()
    admin("SET GLOBAL read_only = 1")
    try:
        for edge in (safe_time_bound, safe_sequence_bound):
            with pytest.raises(EdgeUnknown, match="replica"):
                edge(shop.url)
    finally:
        admin("SET GLOBAL read_only = 0")


def test_old_list_of_transactions_is_not_believed(shop: Writers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edges, "OPEN", f"SELECT * FROM ({edges.OPEN}) AS kept WHERE trx_mysql_thread_id = 0")
    monkeypatch.setattr(edges, "FRESH_TRIES", 2)
    with pytest.raises(EdgeUnknown, match="not up to date"):
        safe_time_bound(shop.url)


def test_tables_whose_writers_are_not_listed_stop(shop: Writers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Aria stands for FEDERATED and the like, which the server has only by plugins."""
    admin = shop.session()
    admin("CREATE TABLE far (id bigint PRIMARY KEY, updated_at timestamp(6) NOT NULL DEFAULT now(6)) ENGINE = Aria")
    admin("INSERT INTO far (id) VALUES (1), (2), (3)")
    admin("CREATE VIEW seen AS SELECT o.name, f.updated_at FROM orders o JOIN far f ON f.id = o.id")
    admin("CREATE VIEW around AS SELECT * FROM seen")
    admin("CREATE VIEW near AS SELECT o.id, o.updated_at FROM orders o")
    queries = [
        source(shop.url, query=f"SELECT x.updated_at FROM {text} x")
        for text in ("orders", "(SELECT * FROM far WHERE id > 1)")
    ]
    every = ("orders", "far", "seen", "around", "near")
    assert all(safe_time_bound(shop.url, table=table).upto for table in every)
    monkeypatch.setattr(edges, "LISTED", edges.LISTED - {"aria"})
    for table in ("far", "seen", "around"):
        with pytest.raises(EdgeUnknown, match="far, a table of the engine Aria, and it is not known here") as stopped:
            safe_time_bound(shop.url, table=table)
        assert "clock: application" in stopped.value.hint
        assert safe_time_bound(shop.url, table=table, clock=Clock.APPLICATION, lag=timedelta(minutes=1)).upto
    for table in ("orders", "near"):
        assert safe_time_bound(shop.url, table=table).upto
    bound = TimeBound(column="updated_at")
    with queries[0].probe(bound=bound) as probe:
        assert probe.edge().upto
    with pytest.raises(EdgeUnknown, match="far, a table of the engine Aria"), queries[1].probe(bound=bound):
        pass


def test_columns_without_zone_need_one_that_says_enough(mariadb: MariadbServer, shop: Writers) -> None:
    shop.session()("CREATE TABLE local_times (at datetime, day date)")
    with pytest.raises(ConfigError, match="is ambiguous"):
        safe_time_bound(shop.url, "at", "local_times")
    found = datetime.fromisoformat(safe_time_bound(shop.url, "at", "local_times", time_zone="Asia/Tokyo").upto or "")
    assert timedelta(hours=8, minutes=59) < found - datetime.now(UTC).replace(tzinfo=None) < timedelta(hours=9)
    yesterday = datetime.now(UTC).date() - timedelta(days=1)
    assert date.fromisoformat(safe_time_bound(shop.url, "day", "local_times", time_zone="UTC").upto or "") == yesterday


def test_sequence_edge_waits_for_exactly_those_who_write(shop: Writers) -> None:
    assert safe_sequence_bound(shop.url) == SafeBound(upto=None, generated=0)
    writer, follower = shop.session(), shop.session()
    writer("BEGIN")
    writer(INSERT, ["open"])
    shop.session()(INSERT, ["closed"])
    edge = safe_sequence_bound(shop.url, wait=timedelta(milliseconds=100))
    assert edge.upto is None
    assert "of user root" in edge.held_by[0]

    def end() -> None:
        time.sleep(0.5)
        follower("BEGIN")
        follower(INSERT, ["later"])  # a new writer, whom nobody has to wait for
        writer("COMMIT")

    ending = threading.Thread(target=end)
    ending.start()
    edge = safe_sequence_bound(shop.url, wait=timedelta(seconds=20))
    ending.join()
    assert edge == SafeBound(upto="2", generated=3)


def test_last_generated_number_falls_with_a_truncate_and_not_with_a_delete(shop: Writers) -> None:
    admin = shop.session()
    admin("INSERT INTO orders (name) VALUES ('a'), ('b'), ('c')")
    admin("DELETE FROM orders WHERE id > 1")
    edge = safe_sequence_bound(shop.url)
    assert edge.upto == "1"
    assert edge.generated >= 3
    admin("TRUNCATE orders")
    assert safe_sequence_bound(shop.url) == SafeBound(upto=None, generated=0)


def test_writer_that_is_prepared_while_it_is_waited_for_holds_the_sequence_edge(shop: Writers) -> None:
    writer = shop.session()
    for statement in ("XA START 'late'", "INSERT INTO orders (name) VALUES ('x')", "XA END 'late'"):
        writer(statement)
    shop.session()(INSERT, ["closed"])

    def prepare() -> None:
        time.sleep(0.2)
        writer("XA PREPARE 'late'")
        shop.sessions[0].close()

    preparing = threading.Thread(target=prepare)
    preparing.start()
    try:
        edge = safe_sequence_bound(shop.url, wait=timedelta(seconds=2))
        assert edge.upto is None
        assert "late" in edge.held_by[0]
    finally:
        preparing.join()
        time.sleep(0.2)
        shop.session()("XA ROLLBACK 'late'")


def test_readers_hold_no_sequence_edge(shop: Writers) -> None:
    reader = shop.session()
    reader(INSERT, ["row"])
    reader("BEGIN")
    reader("SELECT * FROM orders")
    assert safe_sequence_bound(shop.url).upto == "1"


def test_numbers_that_do_not_grow_are_refused(shop: Writers) -> None:
    admin = shop.session()
    admin("CREATE TABLE plain (id bigint PRIMARY KEY)")
    admin("CREATE TABLE aria (id bigint AUTO_INCREMENT PRIMARY KEY) ENGINE = Aria")
    for table, word in (("plain", "not AUTO_INCREMENT"), ("aria", "Aria")):
        with pytest.raises(EdgeUnknown, match=word):
            safe_sequence_bound(shop.url, table)
