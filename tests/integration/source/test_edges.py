"""What the edge of a PostgreSQL table says: the bound, who holds it, and when nobody can know it."""

from __future__ import annotations

import subprocess
import threading
import time
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
from tidegate.errors import ConfigError, EdgeUnknown
from tidegate.sources.database import Database
from tidegate.sources.shared.relation import of_table
from tidegate.strategies.watermark import Watermark

pytestmark = pytest.mark.postgres
INSERT = "INSERT INTO orders (name) VALUES (%s)"
NOW = "SELECT clock_timestamp()"
STAMP = (
    "CREATE FUNCTION stamp() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.updated_at := now(); RETURN NEW; END $$"
)


def moment(text: str | None) -> datetime:
    """The instant of a canonical text."""
    assert text is not None
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def test_bound_is_a_second_before_the_clock(shop: Shop) -> None:
    (before,) = shop.session().execute(NOW).fetchone()
    edge = safe_time_bound(shop.url)
    (after,) = shop.session().execute(NOW).fetchone()
    second = timedelta(seconds=1)
    assert before - second <= moment(edge.upto) <= after - second
    assert edge.held_by == ()


def test_bound_is_just_below_an_open_transaction_which_is_named(shop: Shop) -> None:
    writer = shop.session(application_name="night job")
    writer.execute("BEGIN")
    (since,) = writer.execute("SELECT now()").fetchone()
    time.sleep(1.1)
    edge = safe_time_bound(shop.url)
    assert moment(edge.upto) == since - timedelta(microseconds=1)
    assert len(edge.held_by) == 1
    assert f"pid {writer.info.backend_pid} (night job) of user postgres" in edge.held_by[0]


def test_bound_stays_below_by_the_lag(shop: Shop) -> None:
    (before,) = shop.session().execute(NOW).fetchone()
    edge = safe_time_bound(shop.url, lag=timedelta(hours=1))
    assert timedelta(minutes=59) < before - moment(edge.upto) < timedelta(minutes=61)


def test_transactions_of_other_databases_hold_nothing(shop: Shop, postgres: PostgresServer) -> None:
    with postgres.connect() as other:
        other.execute("BEGIN")
        time.sleep(1.1)
        assert safe_time_bound(shop.url).held_by == ()


def test_bound_is_taken_before_whatever_is_asked_first(shop: Shop) -> None:
    """No order of questions reaches a session that could still be asked for one."""
    late = shop.session()
    late.execute("BEGIN")
    late.execute(INSERT, ["late"])
    time.sleep(1.1)
    bound = TimeBound(column="updated_at")
    with Database(connection=Connection(name="shop", url=shop.url), table="orders").probe(bound=bound) as probe:
        late.execute("COMMIT")
        probe.schema()
        assert probe.stats(Everything()).rows == 1
        assert moment(probe.edge().upto) < next(iter(shop.rows().values()))[2]


@pytest.mark.usefixtures("no_settling")
def test_commit_between_edge_and_snapshot_is_not_lost(shop: Shop) -> None:
    """A bound that is read once the snapshot stands lies above the row, and the snapshot does not hold it."""
    late = shop.session()
    late.execute("BEGIN")
    late.execute(INSERT, ["late"])
    bound = TimeBound(column="updated_at")
    with Database(connection=Connection(name="shop", url=shop.url), table="orders").probe(bound=bound) as probe:
        edge = probe.edge()
        hold = probe.session.hold

        def commit_after(relation) -> None:
            hold(relation)
            late.execute("COMMIT")

        probe.session.hold = commit_after
        assert probe.stats(Range(cursor=("updated_at",), after=None, upto=edge.upto)).rows == 0
    loader = Careful(url=shop.url, strategy=Watermark(column="updated_at"))
    loader.load()
    assert loader.rows == shop.rows()
    assert moment(edge.upto) < next(iter(shop.rows().values()))[2]


def test_hidden_transaction_stops_until_it_may_be_seen(shop: Shop, reader: str) -> None:
    writer = shop.session(application_name="app")
    writer.execute("BEGIN")
    writer.execute(INSERT, ["hidden"])
    with pytest.raises(EdgeUnknown, match="hidden") as stopped:
        safe_time_bound(reader)
    assert "GRANT pg_read_all_stats" in stopped.value.hint
    assert str(writer.info.backend_pid) in stopped.value.message
    assert stopped.value.exit_code == 4
    shop.session().execute("GRANT pg_read_all_stats TO reader")
    time.sleep(1.1)
    assert str(writer.info.backend_pid) in safe_time_bound(reader).held_by[0]


def test_own_sessions_of_an_unprivileged_user_are_seen(shop: Shop, reader: str) -> None:
    for session in shop.sessions:
        session.close()
    with psycopg.connect(reader, autocommit=True) as other:
        other.execute("BEGIN")
        time.sleep(1.1)
        assert len(safe_time_bound(reader).held_by) == 1


def test_block_that_commits_on_its_way_holds_the_edge_at_its_beginning(shop: Shop) -> None:
    """Its transactions begin later than the time that `statement_timestamp()` gives to their rows."""
    writer = shop.session(application_name="import")
    loop = "FOR i IN 1..30 LOOP INSERT INTO orders (name, updated_at) VALUES ('row', statement_timestamp()); COMMIT;"
    running = threading.Thread(
        target=writer.execute, args=(f"DO $$ BEGIN {loop} PERFORM pg_sleep(0.1); END LOOP; END $$",)
    )
    running.start()
    time.sleep(2.2)
    edge = safe_time_bound(shop.url)
    running.join()
    assert moment(edge.upto) < min(row[2] for row in shop.rows().values())
    assert "pid" in edge.held_by[0]
    assert "running a statement that commits while it runs since" in edge.held_by[0]


def test_transaction_that_is_prepared_while_the_edge_is_looked_for_stops(shop: Shop) -> None:
    """Whichever list is read first, the transaction is in the other one, or in both."""
    writer = shop.session()
    writer.execute("BEGIN")
    writer.execute(INSERT, ["prepared"])
    time.sleep(1.1)
    session = Postgresql().open(Connection(name="shop", url=shop.url))
    column = Column(name="updated_at", type=TIMESTAMPTZ)
    ask, asked = session.rows, []

    def prepare_after_the_first_look(sql: str) -> list[tuple]:
        found = ask(sql)
        if not asked and ("pg_stat_activity" in sql or "pg_prepared_xacts" in sql):
            asked.append(sql)
            writer.execute("PREPARE TRANSACTION 'meanwhile'")
        return found

    session.rows = prepare_after_the_first_look
    try:
        relation = of_table(Postgresql(), "orders")
        with suppress(EdgeUnknown):
            edge = session.safe_time_bound(relation, column, clock=Clock.DATABASE, lag=timedelta(0), time_zone=None)
            writer.execute("COMMIT PREPARED 'meanwhile'")
            assert moment(edge.upto) < min(row[2] for row in shop.rows().values())
        assert asked
    finally:
        session.close()


def test_walsender_holds_nothing(shop: Shop, postgres: PostgresServer, tmp_path: Path) -> None:
    """It runs one command for ever, and writes nothing."""
    slot = f"w{time.time_ns()}"
    shop.session().execute("SELECT pg_create_logical_replication_slot(%s, 'test_decoding')", [slot])
    command = [binaries() / "pg_recvlogical", "-d", shop.url, "-S", slot, "--start", "-f", tmp_path / "log"]
    streaming = subprocess.Popen(command)
    try:
        walsenders = "SELECT FROM pg_stat_activity WHERE backend_type = 'walsender' AND state = 'active'"
        _until(lambda: shop.session().execute(walsenders).fetchall())
        time.sleep(1.1)
        assert safe_time_bound(shop.url).held_by == ()
    finally:
        streaming.terminate()
        streaming.wait(timeout=30)
        active = "SELECT FROM pg_replication_slots WHERE active AND slot_name = %s"
        _until(lambda: not shop.session().execute(active, [slot]).fetchall())
        shop.session().execute("SELECT pg_drop_replication_slot(%s)", [slot])


def test_table_that_a_subscription_fills_stops(shop: Shop, reader: str) -> None:
    """Its times are the publisher's, and older than their rows are here."""
    admin = shop.session()
    admin.execute("GRANT pg_read_all_stats TO reader")
    assert safe_time_bound(shop.url).upto
    admin.execute("CREATE VIEW seen AS SELECT * FROM orders")
    admin.execute("CREATE SUBSCRIPTION nobody CONNECTION 'dbname=x' PUBLICATION p WITH (connect = false)")
    admin.execute("INSERT INTO pg_subscription_rel SELECT oid, 'orders'::regclass, 'r' FROM pg_subscription")
    try:
        for table in ("orders", "seen"):
            with pytest.raises(EdgeUnknown, match="subscription") as stopped:
                safe_time_bound(shop.url, table=table)
            assert "ENABLE ALWAYS" in stopped.value.hint
        with pytest.raises(EdgeUnknown, match="subscription"):
            safe_time_bound(reader)
        with pytest.raises(EdgeUnknown, match="subscription"):
            safe_sequence_bound(shop.url)
        assert safe_time_bound(shop.url, clock=Clock.APPLICATION, lag=timedelta(minutes=1)).upto
        admin.execute(STAMP)
        admin.execute("CREATE TRIGGER stamp BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION stamp()")
        with pytest.raises(EdgeUnknown, match="subscription"):
            safe_time_bound(shop.url)
        admin.execute("ALTER TABLE orders ENABLE ALWAYS TRIGGER stamp")
        assert safe_time_bound(shop.url).upto
    finally:
        admin.execute("ALTER SUBSCRIPTION nobody SET (slot_name = NONE)")
        admin.execute("DROP SUBSCRIPTION nobody")


def test_partitions_of_a_table_that_a_subscription_fills_stop(shop: Shop) -> None:
    """The catalog knows the partitioned table alone; its rows come by a view, a query or a partition, too."""
    admin = shop.session()
    admin.execute(
        "CREATE TABLE sales (id bigint GENERATED BY DEFAULT AS IDENTITY, updated_at timestamptz DEFAULT now()) "
        "PARTITION BY RANGE (updated_at)"
    )
    admin.execute("CREATE TABLE sales_now PARTITION OF sales DEFAULT PARTITION BY LIST (id)")
    admin.execute("CREATE TABLE sales_rest PARTITION OF sales_now DEFAULT")
    admin.execute("CREATE VIEW seen AS SELECT * FROM sales")
    admin.execute("CREATE VIEW seen_rest AS SELECT * FROM sales_rest")
    everywhere = ("sales", "sales_now", "sales_rest", "seen", "seen_rest")
    assert all(safe_time_bound(shop.url, table=table).upto for table in everywhere)
    admin.execute("CREATE SUBSCRIPTION nobody CONNECTION 'dbname=x' PUBLICATION p WITH (connect = false)")
    admin.execute("INSERT INTO pg_subscription_rel SELECT oid, 'sales'::regclass, 'r' FROM pg_subscription")
    query = Database(connection=Connection(name="shop", url=shop.url), query="SELECT * FROM sales")
    try:
        for table in everywhere:
            with pytest.raises(EdgeUnknown, match="sales is filled by a subscription"):
                safe_time_bound(shop.url, table=table)
        with pytest.raises(EdgeUnknown, match="subscription"), query.probe(bound=TimeBound(column="updated_at")):
            pass
        for table in ("sales", "sales_now", "sales_rest"):
            with pytest.raises(EdgeUnknown, match="filled by a subscription, in the order"):
                safe_sequence_bound(shop.url, table=table)
        admin.execute(STAMP)
        admin.execute("CREATE TRIGGER stamp BEFORE INSERT ON sales FOR EACH ROW EXECUTE FUNCTION stamp()")
        admin.execute("ALTER TABLE sales ENABLE ALWAYS TRIGGER stamp")
        admin.execute("ALTER TABLE sales_rest ENABLE ALWAYS TRIGGER stamp")
        assert all(safe_time_bound(shop.url, table=table).upto for table in everywhere)
        admin.execute("ALTER TABLE sales_rest DISABLE TRIGGER stamp")
        with pytest.raises(EdgeUnknown, match="sales is filled by a subscription"):
            safe_time_bound(shop.url, table="seen")
    finally:
        admin.execute("ALTER SUBSCRIPTION nobody SET (slot_name = NONE)")
        admin.execute("DROP SUBSCRIPTION nobody")


def test_foreign_table_stops(shop: Shop) -> None:
    """Who writes it is known on its own server alone."""
    admin = shop.session()
    admin.execute("CREATE EXTENSION postgres_fdw")
    there = f"host '127.0.0.1', port '{admin.info.port}', dbname '{admin.info.dbname}'"
    admin.execute(f"CREATE SERVER far FOREIGN DATA WRAPPER postgres_fdw OPTIONS ({there})")
    admin.execute("CREATE USER MAPPING FOR CURRENT_USER SERVER far OPTIONS (user 'postgres')")
    columns = "id bigint, updated_at timestamptz"
    admin.execute(f"CREATE FOREIGN TABLE far_orders ({columns}) SERVER far OPTIONS (table_name 'orders')")
    admin.execute("CREATE VIEW mixed AS SELECT id, updated_at FROM orders UNION ALL TABLE far_orders")
    for table in ("far_orders", "mixed"):
        with pytest.raises(EdgeUnknown, match="foreign table far_orders"):
            safe_time_bound(shop.url, table=table)
        assert safe_time_bound(shop.url, table=table, clock=Clock.APPLICATION, lag=timedelta(minutes=1)).upto


def test_materialized_view_stops(shop: Shop) -> None:
    """A transaction that was open during one refresh has its rows in the next, with the time of its beginning."""
    admin = shop.session()
    admin.execute("CREATE MATERIALIZED VIEW summary AS SELECT id, updated_at FROM orders")
    admin.execute("CREATE VIEW around AS SELECT id, updated_at FROM summary")
    for table in ("summary", "around"):
        with pytest.raises(EdgeUnknown, match="materialized view summary, whose rows appear when it is refreshed"):
            safe_time_bound(shop.url, table=table)
        assert safe_time_bound(shop.url, table=table, clock=Clock.APPLICATION, lag=timedelta(minutes=1)).upto


def test_session_without_tracking_stops(shop: Shop) -> None:
    writer = shop.session()
    writer.execute("SET track_activities = off")
    writer.execute("BEGIN")
    writer.execute(INSERT, ["untracked"])
    with pytest.raises(EdgeUnknown, match="hidden"):
        safe_time_bound(shop.url)


def test_prepared_transaction_stops_and_is_named(shop: Shop) -> None:
    writer = shop.session()
    writer.execute("BEGIN")
    writer.execute(INSERT, ["prepared"])
    writer.execute("PREPARE TRANSACTION 'two phases'")
    with pytest.raises(EdgeUnknown, match="two phases") as stopped:
        safe_time_bound(shop.url)
    assert "COMMIT PREPARED" in stopped.value.hint
    writer.execute("ROLLBACK PREPARED 'two phases'")
    assert safe_time_bound(shop.url).upto


def test_standby_stops(postgres: PostgresServer) -> None:
    url = postgres.create_database()
    name = url.rsplit("/", 1)[1]
    with shop_of(url) as shop:
        shop.session().execute(INSERT, ["row"])
        standby = postgres.standby()
        try:
            there = standby.url(name)
            _until(lambda: Shop(url=there).rows() == shop.rows())
            with pytest.raises(EdgeUnknown, match="standby"):
                safe_time_bound(there)
            with pytest.raises(EdgeUnknown, match="standby"):
                safe_sequence_bound(there)
            assert safe_time_bound(there, clock=Clock.APPLICATION, lag=timedelta(minutes=1)).upto
        finally:
            standby.drop()
    postgres.drop_database(name)


def _until(fulfilled) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            if fulfilled():
                return
        except psycopg.Error:
            pass
        time.sleep(0.1)
    raise AssertionError("not fulfilled within 30 s")


def test_column_without_zone_is_in_the_servers_zone(pg_url: str) -> None:
    statements = (
        f"ALTER DATABASE {pg_url.rsplit('/', 1)[1]} SET timezone = 'Asia/Tokyo'",
        "CREATE TABLE orders (id int, updated_at timestamp DEFAULT now())",
    )
    with shop_of(pg_url, *statements):
        here = datetime.now(UTC).replace(tzinfo=None)
        found = datetime.fromisoformat(safe_time_bound(pg_url).upto or "")
        assert timedelta(hours=8, minutes=59) < found - here < timedelta(hours=9)
        found = datetime.fromisoformat(safe_time_bound(pg_url, time_zone="UTC").upto or "")
        assert timedelta(minutes=-1) < found - here < timedelta(0)
        with pytest.raises(ConfigError, match="Mars"):
            safe_time_bound(pg_url, time_zone="Mars/Olympus")


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
    stated = datetime.fromisoformat(safe_time_bound(url, "at", time_zone="UTC").upto or "")
    assert timedelta(seconds=-10) < stated - here < timedelta(0)
    assert timedelta(seconds=-10) < moment(safe_time_bound(url).upto) - here.replace(tzinfo=UTC) < timedelta(0)
    admin.execute(f"ALTER DATABASE {database} SET timezone = 'Asia/Tokyo'")
    there = datetime.fromisoformat(safe_time_bound(url, "at").upto or "")
    assert timedelta(hours=8, minutes=59) < there - here < timedelta(hours=9)


def test_day_of_a_date_column_is_closed_when_it_is_over(pg_url: str) -> None:
    with shop_of(pg_url, "CREATE TABLE orders (id int, day date)"):
        yesterday = (datetime.now(UTC) - timedelta(days=1)).date().isoformat()
        assert safe_time_bound(pg_url, "day").upto == yesterday


def test_watermark_on_a_number_is_refused(shop: Shop) -> None:
    with pytest.raises(ConfigError, match="a watermark needs"):
        safe_time_bound(shop.url, "id")
