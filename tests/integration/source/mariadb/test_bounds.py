"""Up to where a window of a MariaDB table may reach, and when nobody can tell."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

import pymysql
import pytest

from integration.source.places import Place, at
from tidegate.core.bounds import Clock, SequenceBound, TimeBound
from tidegate.core.changes import SafeBound
from tidegate.core.ids import Connection
from tidegate.core.slices import Everything
from tidegate.dialects.mariadb import safe_bounds as edges
from tidegate.dialects.mariadb.session import BEGIN
from tidegate.errors import ConfigError, EdgeUnknown, SourceMoved, SourceRefused
from tidegate.sources.database import Database

if TYPE_CHECKING:
    from support.mariadb import MariadbServer

pytestmark = pytest.mark.slow
ORDERS = """
CREATE TABLE orders (
  id bigint AUTO_INCREMENT PRIMARY KEY, name text NOT NULL, updated_at timestamp(6) NOT NULL DEFAULT now(6)
)
"""
INSERT = "INSERT INTO orders (name) VALUES ('{}')"
LAGGING = {"clock": Clock.APPLICATION, "lag": timedelta(minutes=1)}
Ask = Callable[..., SafeBound]


@dataclass(kw_only=True)
class Writers:
    """A database with a table of orders, and sessions that write it."""

    server: MariadbServer
    database: str
    sessions: list[pymysql.Connection] = field(default_factory=list)

    @property
    def url(self) -> str:
        return self.server.url(self.database)

    def session(self) -> Callable[[str], tuple]:
        connection = self.server.connect(self.database)
        self.sessions.append(connection)

        def execute(sql: str) -> tuple:
            with connection.cursor() as cursor:
                cursor.execute(sql)
                return cursor.fetchall()

        return execute


@pytest.fixture
def shop(mariadb: MariadbServer, maria_database: str) -> Iterator[Writers]:
    mariadb.run(ORDERS, database=maria_database)
    shop = Writers(server=mariadb, database=maria_database)
    yield shop
    for session in shop.sessions:
        if session.open:
            session.close()


def source(url: str, **values: str) -> Database:
    return Database(connection=Connection(name="server", url=url), **values)


def safe_time_bound(url: str, column: str = "updated_at", table: str = "orders", **options) -> SafeBound:
    with source(url, table=table).probe(bound=TimeBound(column=column, **options)) as probe:
        return probe.edge()


def safe_sequence_bound(url: str, table: str = "orders", **options) -> SafeBound:
    with source(url, table=table).probe(bound=SequenceBound(column="id", **options)) as probe:
        return probe.edge()


BOTH: tuple[Ask, ...] = (safe_time_bound, safe_sequence_bound)


def moment(text: str | None) -> datetime:
    assert text is not None
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def until(fulfilled: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not fulfilled():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_time_edge_is_a_second_before_the_clock_or_below_who_writes(shop: Writers) -> None:
    before = datetime.now(UTC)
    edge = safe_time_bound(shop.url)
    assert before - timedelta(seconds=3) <= moment(edge.upto) <= datetime.now(UTC) - timedelta(seconds=1)
    assert edge.held_by == ()
    writer = shop.session()
    writer("BEGIN")
    writer(INSERT.format("open"))
    ((started, thread),) = writer("SELECT updated_at, connection_id() FROM orders")
    started = (started + timedelta(hours=5)).replace(tzinfo=UTC)  # as the server's own zone shows it
    until(lambda: safe_time_bound(shop.url).held_by)
    edge = safe_time_bound(shop.url)
    assert started - timedelta(seconds=2) < moment(edge.upto) < started
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
    began, writer = datetime.now(UTC), shop.session()
    running = threading.Thread(target=writer, args=("INSERT INTO orders (name) SELECT sleep(6)",))
    running.start()
    until(lambda: safe_time_bound(shop.url).held_by)
    assert moment(safe_time_bound(shop.url).upto) < began
    running.join()


@pytest.fixture
def prepared(shop: Writers) -> Iterator[Callable[[], None]]:
    """A transaction that has written, and what prepares it and ends its session."""
    writer = shop.session()
    for statement in ("XA START 'two phases'", INSERT.format("x"), "XA END 'two phases'"):
        writer(statement)

    def prepare() -> None:
        writer("XA PREPARE 'two phases'")
        shop.sessions[0].close()

    yield prepare

    def rolled_back() -> bool:
        with suppress(pymysql.err.OperationalError):  # while its session ends
            shop.session()("XA ROLLBACK 'two phases'")
            return True
        return False

    until(rolled_back)


def test_prepared_transaction_stops_and_is_named(shop: Writers, prepared) -> None:
    prepared()
    with pytest.raises(EdgeUnknown, match="two phases") as stopped:
        safe_time_bound(shop.url)
    assert "XA COMMIT" in stopped.value.hint
    assert "two phases" in safe_sequence_bound(shop.url).held_by[0]


def test_writer_that_is_prepared_while_it_is_waited_for_holds_the_sequence_edge(shop: Writers, prepared) -> None:
    shop.session()(INSERT.format("closed"))
    preparing = threading.Timer(0.2, prepared)
    preparing.start()
    edge = safe_sequence_bound(shop.url, wait=timedelta(seconds=2))
    preparing.join()
    assert edge.upto is None
    assert "two phases" in edge.held_by[0]


def test_user_who_sees_no_transactions_is_told_what_to_grant(shop: Writers) -> None:
    admin = shop.session()
    admin("CREATE USER reader@localhost IDENTIFIED BY 'p@ss:w/rd'")
    admin(f"GRANT SELECT ON {shop.database}.* TO reader@localhost")
    url = shop.server.url(shop.database, user="reader", password="p@ss:w/rd")
    try:
        for edge in BOTH:
            with pytest.raises(EdgeUnknown, match="may not see") as stopped:
                edge(url)
            assert "GRANT PROCESS" in stopped.value.hint
        assert safe_time_bound(url, **LAGGING).upto
        admin("GRANT PROCESS ON *.* TO reader@localhost")
        assert safe_time_bound(url).upto
        wrong = source(url.replace("w%2Frd", "wrong"), table="orders")
        with pytest.raises(SourceRefused, match="refused the login") as refused, wrong.probe():
            pass
        assert "wrong" not in f"{refused.value}{refused.value.hint}"
    finally:
        admin("DROP USER reader@localhost")


def test_read_only_server_stops(shop: Writers) -> None:
    admin = shop.session()
    admin("SET GLOBAL read_only = 1")
    try:
        for edge in BOTH:
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
    bound, far = TimeBound(column="updated_at"), ("far", "seen", "around")
    assert [table for table in ("orders", "near", *far) if not safe_time_bound(shop.url, table=table).upto] == []
    monkeypatch.setattr(edges, "LISTED", edges.LISTED - {"aria"})
    stops = "far, a table of the engine Aria"
    for table in far:
        with pytest.raises(EdgeUnknown, match=f"{stops}, and it is not known here") as stopped:
            safe_time_bound(shop.url, table=table)
        assert "clock: application" in stopped.value.hint
        assert safe_time_bound(shop.url, table=table, **LAGGING).upto
    assert all(safe_time_bound(shop.url, table=table).upto for table in ("orders", "near"))
    with source(shop.url, query="SELECT x.updated_at FROM orders x").probe(bound=bound) as probe:
        assert probe.edge().upto
    query = source(shop.url, query="SELECT x.updated_at FROM (SELECT * FROM far WHERE id > 1) x")
    with pytest.raises(EdgeUnknown, match=stops), query.probe(bound=bound):
        pass


def test_columns_without_zone_need_one_that_says_enough(shop: Writers) -> None:
    shop.session()("CREATE TABLE local_times (at datetime, day date)")
    with pytest.raises(ConfigError, match="is ambiguous"):
        safe_time_bound(shop.url, "at", "local_times")
    found = datetime.fromisoformat(safe_time_bound(shop.url, "at", "local_times", time_zone="Asia/Tokyo").upto or "")
    assert timedelta(hours=8, minutes=59) < found - datetime.now(UTC).replace(tzinfo=None) < timedelta(hours=9)
    yesterday = datetime.now(UTC).date() - timedelta(days=1)
    assert date.fromisoformat(safe_time_bound(shop.url, "day", "local_times", time_zone="UTC").upto or "") == yesterday


TOKYO = (
    "INSERT IGNORE INTO mysql.time_zone VALUES (4711, 'N')",
    "INSERT IGNORE INTO mysql.time_zone_name VALUES ('Asia/Tokyo', 4711)",
    "INSERT IGNORE INTO mysql.time_zone_transition_type VALUES (4711, 0, 32400, 0, 'JST')",
    "SET GLOBAL time_zone = 'Asia/Tokyo'",
)


def test_a_default_or_trigger_that_writes_utc_stops_where_the_server_is_in_another_zone(shop: Writers) -> None:
    admin = shop.session()
    admin("CREATE TABLE filled (id int, made datetime(6) DEFAULT now(6), at datetime(6) DEFAULT utc_timestamp(6))")
    admin("CREATE TABLE touched (id int, at datetime(6))")
    admin("CREATE TRIGGER t BEFORE UPDATE ON touched FOR EACH ROW SET NEW.at = utc_timestamp(6)")
    for statement in TOKYO:
        admin(statement)
    try:
        for table in ("filled", "touched"):
            with pytest.raises(
                ConfigError, match="which is not in the time zone of the database, Asia/Tokyo"
            ) as stopped:
                safe_time_bound(shop.url, "at", table)
            assert "time_zone: UTC" in stopped.value.hint
            assert safe_time_bound(shop.url, "at", table, time_zone="UTC").upto
        assert safe_time_bound(shop.url, "made", "filled").upto
    finally:
        admin("SET GLOBAL time_zone = 'SYSTEM'")


def test_sequence_edge_is_the_greatest_number_once_nobody_writes(shop: Writers) -> None:
    """The last generated number falls with a TRUNCATE and not with a DELETE."""
    assert safe_sequence_bound(shop.url) == SafeBound(upto=None, generated=0)
    writer, admin = shop.session(), shop.session()
    writer("BEGIN")
    writer(INSERT.format("open"))
    admin(INSERT.format("closed"))
    edge = safe_sequence_bound(shop.url, wait=timedelta(milliseconds=100))
    assert edge.upto is None
    assert "of user root" in edge.held_by[0]
    committing = threading.Timer(0.5, writer, ["COMMIT"])
    committing.start()
    assert safe_sequence_bound(shop.url, wait=timedelta(seconds=60)) == SafeBound(upto="2", generated=2)
    committing.join()
    admin("BEGIN")
    admin("SELECT * FROM orders")
    assert safe_sequence_bound(shop.url).upto == "2"
    admin("COMMIT")
    admin("DELETE FROM orders WHERE id > 1")
    edge = safe_sequence_bound(shop.url)
    assert (edge.upto, edge.generated) == ("1", 2)
    admin("TRUNCATE orders")
    assert safe_sequence_bound(shop.url) == SafeBound(upto=None, generated=0)


def test_numbers_that_do_not_grow_are_refused(shop: Writers) -> None:
    admin = shop.session()
    admin("CREATE TABLE plain (id bigint PRIMARY KEY)")
    admin("CREATE TABLE aria (id bigint AUTO_INCREMENT PRIMARY KEY) ENGINE = Aria")
    for table, word in (("plain", "not AUTO_INCREMENT"), ("aria", "Aria")):
        with pytest.raises(EdgeUnknown, match=word):
            safe_sequence_bound(shop.url, table)


FILL = "INSERT INTO {} (name) SELECT seq FROM seq_1_to_{}"
WAYS = {
    "emptied and filled": ("TRUNCATE orders", FILL.format("orders", 7)),
    "swapped": (
        *("DROP TABLE IF EXISTS stale", "CREATE TABLE fresh LIKE orders", FILL.format("fresh", 7)),
        "RENAME TABLE orders TO stale, fresh TO orders",
    ),
    "rewritten": ("DELETE FROM orders", FILL.format("orders", 7), "ALTER TABLE orders FORCE, ALGORITHM=COPY"),
}


@at("mariadb")
@pytest.mark.parametrize("way", WAYS)
def test_what_is_replaced_between_the_snapshot_and_its_first_row_is_not_read(place: Place, way: str) -> None:
    """The new table has no rows for an older snapshot, but the server says so instead of showing none."""
    place.run(ORDERS, FILL.format("orders", 3), "CREATE VIEW seen AS SELECT id, name FROM orders")
    for there in (place.source("orders"), place.source("seen"), place.source(query="SELECT id, name FROM orders")):
        with there.probe() as probe:
            ask = probe.session.outside_rows

            def outside_rows(sql: str, ask=ask) -> list:
                found = ask(sql)
                if sql == BEGIN:
                    place.run(*WAYS[way])
                return found

            probe.session.outside_rows = outside_rows
            with pytest.raises(SourceMoved) as refused:
                probe.count(Everything())
            assert refused.value.retryable
