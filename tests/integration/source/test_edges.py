"""What the edge of a PostgreSQL table says: the bound, who holds it, and when nobody can know it."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest

from integration.source.loading import Careful, Shop, safe_sequence_bound, safe_time_bound, shop_of
from support.postgres import PostgresServer, binaries
from tidegate.core.bounds import Clock, TimeBound
from tidegate.core.ids import Connection
from tidegate.core.schema import TIMESTAMPTZ, Column
from tidegate.core.slices import Everything, Range
from tidegate.dialects.postgresql import Postgresql
from tidegate.errors import ConfigError, EdgeUnknown, SchemaRefused, SourceMoved
from tidegate.sources.database import Database
from tidegate.sources.shared.relation import of_table
from tidegate.strategies.watermark import Watermark

pytestmark = pytest.mark.postgres
INSERT = "INSERT INTO orders (name) VALUES (%s)"
LAGGING = {"clock": Clock.APPLICATION, "lag": timedelta(minutes=1)}
STAMP = (
    "CREATE FUNCTION stamp() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.updated_at := now(); RETURN NEW; END $$"
)


def moment(text: str | None) -> datetime:
    """The instant of a canonical text."""
    assert text is not None
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def earliest(shop: Shop) -> datetime:
    return min(row[2] for row in shop.rows().values())


def orders_of(url: str) -> Database:
    return Database(connection=Connection(name="shop", url=url), table="orders")


@pytest.fixture
def writer(shop: Shop) -> psycopg.Connection:
    """A session with a transaction that has written a row."""
    session = shop.session(application_name="night job")
    session.execute("BEGIN")
    session.execute(INSERT, ["open"])
    return session


@pytest.fixture
def reader(shop: Shop, reader: str) -> str:
    """A login that may read the table and nothing more."""
    shop.session().execute("GRANT SELECT ON orders TO reader")
    return reader


def test_bound_is_a_second_before_the_clock_and_below_it_by_the_lag(shop: Shop) -> None:
    for lag in (timedelta(0), timedelta(hours=1)):
        (before,) = shop.session().execute("SELECT clock_timestamp()").fetchone()
        edge = safe_time_bound(shop.url, lag=lag)
        (after,) = shop.session().execute("SELECT clock_timestamp()").fetchone()
        below = lag + timedelta(seconds=1)
        assert before - below <= moment(edge.upto) <= after - below
        assert edge.held_by == ()


@pytest.mark.usefixtures("no_settling")
def test_bound_is_just_below_an_open_transaction_which_is_named(shop: Shop, writer, postgres: PostgresServer) -> None:
    with postgres.connect() as other:
        other.execute("BEGIN")  # in another database: it holds nothing
        (since,) = writer.execute("SELECT now()").fetchone()
        edge = safe_time_bound(shop.url)
    assert moment(edge.upto) == since - timedelta(microseconds=1)
    (holder,) = edge.held_by
    assert f"pid {writer.info.backend_pid} (night job) of user postgres" in holder


@pytest.mark.usefixtures("no_settling")
def test_bound_is_taken_before_whatever_is_asked_first(shop: Shop, writer) -> None:
    """No order of questions reaches a session that could still be asked for one."""
    with orders_of(shop.url).probe(bound=TimeBound(column="updated_at")) as probe:
        writer.execute("COMMIT")
        probe.schema()
        assert probe.stats(Everything()).rows == 1
        assert moment(probe.edge().upto) < earliest(shop)


@pytest.mark.usefixtures("no_settling")
def test_commit_between_edge_and_snapshot_is_not_lost(shop: Shop, writer) -> None:
    """A bound that is read once the snapshot stands lies above the row, and the snapshot does not hold it."""
    with orders_of(shop.url).probe(bound=TimeBound(column="updated_at")) as probe:
        edge = probe.edge()
        hold = probe.session.hold

        def commit_after(relation) -> None:
            hold(relation)
            writer.execute("COMMIT")

        probe.session.hold = commit_after
        assert probe.stats(Range(cursor=("updated_at",), after=None, upto=edge.upto)).rows == 0
    loader = Careful(url=shop.url, strategy=Watermark(column="updated_at"))
    loader.load()
    assert loader.rows == shop.rows()
    assert moment(edge.upto) < earliest(shop)


@pytest.mark.usefixtures("no_settling")
def test_hidden_transaction_stops_until_it_may_be_seen(shop: Shop, writer, reader: str) -> None:
    pid = str(writer.info.backend_pid)
    with pytest.raises(EdgeUnknown, match="hidden") as stopped:
        safe_time_bound(reader)
    assert "GRANT pg_read_all_stats" in stopped.value.hint
    assert (pid in stopped.value.message, stopped.value.exit_code) == (True, 4)
    shop.session().execute("GRANT pg_read_all_stats TO reader")
    assert pid in safe_time_bound(reader).held_by[0]
    writer.execute("COMMIT")
    writer.execute("SET track_activities = off")
    writer.execute("BEGIN")
    writer.execute(INSERT, ["untracked"])
    with pytest.raises(EdgeUnknown, match="hidden"):
        safe_time_bound(shop.url)


@pytest.mark.usefixtures("no_settling")
def test_own_sessions_of_an_unprivileged_user_are_seen(shop: Shop, reader: str) -> None:
    shop.close()
    with psycopg.connect(reader, autocommit=True) as other:
        other.execute("BEGIN")
        assert len(safe_time_bound(reader).held_by) == 1


@pytest.mark.slow
def test_block_that_commits_on_its_way_holds_the_edge_at_its_beginning(shop: Shop) -> None:
    """Its transactions begin later than the time that `statement_timestamp()` gives to their rows."""
    writer = shop.session(application_name="import")
    loop = "FOR i IN 1..30 LOOP INSERT INTO orders (name, updated_at) VALUES ('row', statement_timestamp()); COMMIT;"
    block = f"DO $$ BEGIN {loop} PERFORM pg_sleep(0.1); END LOOP; END $$"
    running = threading.Thread(target=writer.execute, args=(block,))
    running.start()
    _until(lambda: safe_time_bound(shop.url).held_by)
    edge = safe_time_bound(shop.url)
    running.join()
    assert moment(edge.upto) < earliest(shop)
    assert "running a statement that commits while it runs since" in edge.held_by[0]


@pytest.mark.usefixtures("no_settling")
def test_transaction_that_is_prepared_while_the_edge_is_looked_for_stops(shop: Shop, writer) -> None:
    """Whichever list is read first, the transaction is in the other one, or in both."""
    session = Postgresql().open(Connection(name="shop", url=shop.url))
    ask, asked = session.rows, []

    def prepare_after_the_first_look(sql: str) -> list[tuple]:
        found = ask(sql)
        if not asked and ("pg_stat_activity" in sql or "pg_prepared_xacts" in sql):
            asked.append(sql)
            writer.execute("PREPARE TRANSACTION 'meanwhile'")
        return found

    session.rows = prepare_after_the_first_look
    try:
        relation, column = of_table(Postgresql(), "orders"), Column(name="updated_at", type=TIMESTAMPTZ)
        edge = None
        with suppress(EdgeUnknown):
            edge = session.safe_time_bound(relation, column, clock=Clock.DATABASE, lag=timedelta(0), time_zone=None)
        writer.execute("COMMIT PREPARED 'meanwhile'")
        assert asked
        assert edge is None or moment(edge.upto) < earliest(shop)
    finally:
        session.close()


def test_prepared_transaction_stops_and_is_named(shop: Shop, writer) -> None:
    writer.execute("PREPARE TRANSACTION 'two phases'")
    with pytest.raises(EdgeUnknown, match="two phases") as stopped:
        safe_time_bound(shop.url)
    assert "COMMIT PREPARED" in stopped.value.hint
    writer.execute("ROLLBACK PREPARED 'two phases'")
    assert safe_time_bound(shop.url).upto


@pytest.mark.slow
@pytest.mark.usefixtures("no_settling")
def test_walsender_holds_nothing(shop: Shop, tmp_path: Path) -> None:
    """It runs one command for ever, and writes nothing."""
    slot, admin = f"w{time.time_ns()}", shop.session()
    admin.execute("SELECT pg_create_logical_replication_slot(%s, 'test_decoding')", [slot])
    command = [binaries() / "pg_recvlogical", "-d", shop.url, "-S", slot, "--start", "-f", tmp_path / "log"]
    streaming = subprocess.Popen(command)
    try:
        walsenders = "SELECT FROM pg_stat_activity WHERE backend_type = 'walsender' AND state = 'active'"
        _until(lambda: admin.execute(walsenders).fetchall())
        assert safe_time_bound(shop.url).held_by == ()
    finally:
        streaming.terminate()
        streaming.wait(timeout=30)
        active = "SELECT FROM pg_replication_slots WHERE active AND slot_name = %s"
        _until(lambda: not admin.execute(active, [slot]).fetchall())
        admin.execute("SELECT pg_drop_replication_slot(%s)", [slot])


def test_tables_that_a_subscription_fills_stop(shop: Shop, reader: str) -> None:
    """Their times are the publisher's, and older than their rows are here.

    The catalog knows a partitioned table alone; its rows come by a view, a query or a partition, too.
    """
    admin = shop.session()
    admin.execute("GRANT pg_read_all_stats TO reader")
    admin.execute(
        "CREATE TABLE sales (id bigint GENERATED BY DEFAULT AS IDENTITY, updated_at timestamptz DEFAULT now()) "
        "PARTITION BY RANGE (updated_at)"
    )
    admin.execute("CREATE TABLE sales_now PARTITION OF sales DEFAULT PARTITION BY LIST (id)")
    admin.execute("CREATE TABLE sales_rest PARTITION OF sales_now DEFAULT")
    for table in ("orders", "sales", "sales_rest"):
        admin.execute(f"CREATE VIEW seen_{table} AS SELECT * FROM {table}")
    partitioned = ("sales", "sales_now", "sales_rest", "seen_sales", "seen_sales_rest")
    plain = ("orders", "seen_orders")
    assert [table for table in (*plain, *partitioned) if not safe_time_bound(shop.url, table=table).upto] == []
    admin.execute("CREATE SUBSCRIPTION nobody CONNECTION 'dbname=x' PUBLICATION p WITH (connect = false)")
    filled = "SELECT oid, '{}'::regclass, 'r' FROM pg_subscription"
    for table in ("orders", "sales"):
        admin.execute(f"INSERT INTO pg_subscription_rel {filled.format(table)}")

    def stops(ask: Callable[[], object], match: str) -> None:
        with pytest.raises(EdgeUnknown, match=match) as stopped:
            ask()
        assert "in the order" in stopped.value.message or "ENABLE ALWAYS" in stopped.value.hint

    try:
        for table in (*plain, *partitioned):
            told = "orders" if table in plain else "sales"
            stops(lambda table=table: safe_time_bound(shop.url, table=table), f"{told} is filled by a subscription")
        stops(lambda: safe_time_bound(reader), "subscription")
        for table in ("orders", "sales", "sales_now", "sales_rest"):
            stops(
                lambda table=table: safe_sequence_bound(shop.url, table=table), "filled by a subscription, in the order"
            )
        query = Database(connection=Connection(name="shop", url=shop.url), query="SELECT * FROM sales")
        stops(query.probe(bound=TimeBound(column="updated_at")).__enter__, "subscription")
        assert safe_time_bound(shop.url, **LAGGING).upto
        admin.execute(STAMP)
        for table in ("orders", "sales"):
            admin.execute(f"CREATE TRIGGER stamp BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION stamp()")
        stops(lambda: safe_time_bound(shop.url), "subscription")
        for table in ("orders", "sales", "sales_rest"):
            admin.execute(f"ALTER TABLE {table} ENABLE ALWAYS TRIGGER stamp")
        assert [table for table in (*plain, *partitioned) if not safe_time_bound(shop.url, table=table).upto] == []
        admin.execute("ALTER TABLE sales_rest DISABLE TRIGGER stamp")
        stops(lambda: safe_time_bound(shop.url, table="seen_sales"), "sales is filled by a subscription")
    finally:
        admin.execute("ALTER SUBSCRIPTION nobody SET (slot_name = NONE)")
        admin.execute("DROP SUBSCRIPTION nobody")


def far_orders(shop: Shop) -> psycopg.Connection:
    """Makes a foreign table of the orders."""
    admin = shop.session()
    admin.execute("CREATE EXTENSION postgres_fdw")
    there = f"host '127.0.0.1', port '{admin.info.port}', dbname '{admin.info.dbname}'"
    admin.execute(f"CREATE SERVER far FOREIGN DATA WRAPPER postgres_fdw OPTIONS ({there})")
    admin.execute("CREATE USER MAPPING FOR CURRENT_USER SERVER far OPTIONS (user 'postgres')")
    columns = "id bigint, updated_at timestamptz"
    admin.execute(f"CREATE FOREIGN TABLE far_orders ({columns}) SERVER far OPTIONS (table_name 'orders')")
    return admin


def test_what_no_snapshot_holds_is_asked_again_on_another_connection(shop: Shop) -> None:
    """Rows of another server, and values of the clock; whatever is of this snapshot stands."""
    admin = far_orders(shop)
    admin.execute(INSERT, ["one"])
    texts = "SELECT id, updated_at, 'now()' AS t FROM orders"
    cases: dict[str, dict[str, str]] = {
        "far": {"table": "far_orders"},
        "clock": {"query": "SELECT id, now() AS at FROM orders"},
        "day": {"query": "SELECT id, updated_at, CURRENT_DATE AS day FROM orders"},
        "filtered": {"query": "SELECT id, updated_at FROM orders WHERE updated_at < now()"},
        "texts": {"query": texts},
        "plain": {"table": "orders"},
    }
    moved = {}
    for name, relation in cases.items():
        there = Database(connection=Connection(name="shop", url=shop.url), **relation)
        with there.probe() as probe:
            probe.fingerprint(Everything())
            admin.execute(INSERT, [name])
            try:
                probe.verify_unchanged()
            except SourceMoved as error:
                moved[name] = error.message
    assert list(moved) == ["far", "clock"]
    assert all("gives each connection other rows or values" in message for message in moved.values())


def test_foreign_tables_and_materialized_views_stop(shop: Shop) -> None:
    """Who writes a foreign table is known on its own server alone.

    A transaction that was open during one refresh has its rows in the next, with the time of its beginning.
    """
    admin = far_orders(shop)
    for statement in (
        "CREATE VIEW mixed AS SELECT id, updated_at FROM orders UNION ALL TABLE far_orders",
        "CREATE MATERIALIZED VIEW summary AS SELECT id, updated_at FROM orders",
        "CREATE VIEW around AS SELECT id, updated_at FROM summary",
    ):
        admin.execute(statement)
    refreshed = "materialized view summary, whose rows appear when it is refreshed"
    cases = {"far_orders": "foreign table far_orders", "mixed": "foreign table far_orders"}
    for table, match in {**cases, "summary": refreshed, "around": refreshed}.items():
        with pytest.raises(EdgeUnknown, match=match):
            safe_time_bound(shop.url, table=table)
        assert safe_time_bound(shop.url, table=table, **LAGGING).upto


@pytest.mark.slow
def test_standby_stops(postgres: PostgresServer) -> None:
    url = postgres.create_database()
    name = url.rsplit("/", 1)[1]
    with shop_of(url) as shop:
        shop.session().execute(INSERT, ["row"])
        standby = postgres.standby()
        try:
            there = standby.url(name)
            _until(lambda: Shop(url=there).rows() == shop.rows())
            for ask in (safe_time_bound, safe_sequence_bound):
                with pytest.raises(EdgeUnknown, match="standby"):
                    ask(there)
            assert safe_time_bound(there, **LAGGING).upto
        finally:
            standby.drop()
    postgres.drop_database(name)


def _until(fulfilled: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with suppress(psycopg.Error):
            if fulfilled():
                return
        time.sleep(0.1)
    pytest.fail("not fulfilled within a minute")


def test_column_without_zone_is_in_the_zone_of_the_database(pg_url: str) -> None:
    statements = (
        f"ALTER DATABASE {pg_url.rsplit('/', 1)[1]} SET timezone = 'Asia/Tokyo'",
        "CREATE TABLE orders (id int, updated_at timestamp DEFAULT now(), day date)",
    )
    with shop_of(pg_url, *statements):
        here = datetime.now(UTC).replace(tzinfo=None)
        found = datetime.fromisoformat(safe_time_bound(pg_url).upto or "")
        assert timedelta(hours=8, minutes=59) < found - here < timedelta(hours=9)
        found = datetime.fromisoformat(safe_time_bound(pg_url, time_zone="UTC").upto or "")
        assert timedelta(minutes=-1) < found - here < timedelta(0)
        yesterday = (datetime.now(UTC) - timedelta(days=1)).date().isoformat()
        assert safe_time_bound(pg_url, "day", time_zone="UTC").upto == yesterday
        for column, zone, match in (("updated_at", "Mars/Olympus", "Mars"), ("id", None, "a watermark needs")):
            with pytest.raises(ConfigError, match=match):
                safe_time_bound(pg_url, column, time_zone=zone)


TOUCH = """
CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN NEW.updated_at := timezone('utc', clock_timestamp()); RETURN NEW; END $$
"""


def refused(url: str) -> None:
    with pytest.raises(ConfigError, match="is not in the time zone of the database, Asia/Tokyo") as stopped:
        safe_time_bound(url)
    assert "time_zone: UTC" in stopped.value.hint


def test_a_default_or_trigger_that_writes_utc_stops_where_the_database_is_in_another_zone(pg_url: str) -> None:
    """East of UTC the bound would lie hours above every row, and one that commits late below the position."""
    statements = (
        f"ALTER DATABASE {pg_url.rsplit('/', 1)[1]} SET timezone = 'Asia/Tokyo'",
        "CREATE TABLE orders (id int, made timestamp DEFAULT now(), updated_at timestamp) PARTITION BY RANGE (id)",
        "ALTER TABLE orders ALTER updated_at SET DEFAULT (now() at time zone 'UTC')",
        "CREATE TABLE first PARTITION OF orders FOR VALUES FROM (0) TO (9)",
    )
    with shop_of(pg_url, *statements) as shop:
        found = datetime.fromisoformat(safe_time_bound(pg_url, time_zone="UTC").upto or "")
        assert abs(found - datetime.now(UTC).replace(tzinfo=None)) < timedelta(minutes=1)
        admin = shop.session()
        refused(pg_url)
        admin.execute("ALTER TABLE orders ALTER updated_at DROP DEFAULT")
        assert safe_time_bound(pg_url).upto
        admin.execute(TOUCH)
        admin.execute("CREATE TRIGGER t BEFORE INSERT ON first FOR EACH ROW EXECUTE FUNCTION touch()")
        refused(pg_url)
        assert safe_time_bound(pg_url, "made").upto


@pytest.mark.parametrize(
    ("statement", "options", "by"),
    [
        ("ALTER ROLE reader SET timezone = 'Asia/Tokyo'", "", "by ALTER ROLE,"),
        ("ALTER ROLE reader IN DATABASE {} SET timezone = 'Asia/Tokyo'", "", "by ALTER ROLE … IN DATABASE,"),
        ("SELECT 1", "?options=-c%20timezone%3DAsia/Tokyo", "by PGTZ, PGOPTIONS or the URL,"),
    ],
)
def test_a_zone_of_the_login_alone_is_not_that_of_the_writers(
    shop: Shop, reader: str, statement: str, options: str, by: str
) -> None:
    """With a zone east of theirs the bound would lie hours in the future, above rows that are still to come."""
    admin, url = shop.session(), f"{reader}{options}"
    database = str(admin.info.dbname)
    admin.execute("GRANT pg_read_all_stats TO reader")
    admin.execute("ALTER TABLE orders ADD at timestamp DEFAULT now(), ADD day date DEFAULT current_date")
    admin.execute(statement.format(database))
    for column in ("at", "day"):
        with pytest.raises(ConfigError, match=f"'Asia/Tokyo' is set for this login alone, {by}") as stopped:
            safe_time_bound(url, column)
        assert "time_zone: UTC" in stopped.value.hint
    here = datetime.now(UTC).replace(tzinfo=None)
    for column, zone in (("at", "UTC"), ("updated_at", None)):
        found = datetime.fromisoformat(safe_time_bound(url, column, time_zone=zone).upto or "")
        assert timedelta(seconds=-10) < found - here < timedelta(0)
    admin.execute(f"ALTER DATABASE {database} SET timezone = 'Asia/Tokyo'")
    there = datetime.fromisoformat(safe_time_bound(url, "at").upto or "")
    assert timedelta(hours=8, minutes=59) < there - here < timedelta(hours=9)


@pytest.mark.parametrize("options", [{}, {"on_null": "fallback", "fallback": "created_at"}])
def test_a_value_that_no_edge_reaches_is_refused_also_as_the_fallback(shop: Shop, options: dict[str, str]) -> None:
    strategy = Watermark(column="updated_at", **options)
    column = "created_at" if options else "updated_at"
    session = shop.session()
    session.execute("ALTER TABLE orders ADD created_at timestamptz DEFAULT now(), ALTER updated_at DROP NOT NULL")
    with orders_of(shop.url).probe(bound=strategy.bound_request) as probe:
        strategy.detect(probe, None)
    session.execute(f"INSERT INTO orders (name, {column}) VALUES ('never', 'infinity')")
    session.execute("UPDATE orders SET updated_at = NULL WHERE name = 'never' AND created_at = 'infinity'")
    with (
        orders_of(shop.url).probe(bound=strategy.bound_request) as probe,
        pytest.raises(SchemaRefused, match="updated_at"),
    ):
        strategy.detect(probe, None)


def test_the_time_of_a_snapshot_is_the_servers_and_lies_before_what_it_does_not_show(shop: Shop) -> None:
    with orders_of(shop.url).probe() as probe:
        before = probe.now()
        known = probe.count(Everything())
        shop.session().execute("INSERT INTO orders (name, updated_at) VALUES ('later', clock_timestamp())")
        assert (probe.count(Everything()), probe.now()) == (known, before)
    assert before < max(row[2] for row in shop.rows().values() if row[1] == "later")
