"""What PostgreSQL refuses for now is told as what it is, with what helps: and that helps."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from support.postgres import PostgresServer
from tidegate.core.ids import Connection
from tidegate.core.slices import Everything
from tidegate.dialects.postgresql import Postgresql
from tidegate.errors import SourceError, SourceUnavailable
from tidegate.sources.database import Database
from tidegate.sources.database.probe import DatabaseProbe
from tidegate.sources.shared.relation import of_table

NARROW = {"max_connections": "12", "max_prepared_transactions": "0"}
PARTITIONS = 800

pytestmark = pytest.mark.postgres


def source(url: str, table: str) -> Database:
    return Database(connection=Connection(name="shop", url=url), table=table)


def rows(probe: DatabaseProbe) -> int:
    return probe.count(Everything())


@pytest.fixture
def narrow() -> Iterator[PostgresServer]:
    """A server of its own, with room for the locks of a few hundred partitions."""
    server = PostgresServer.new(**NARROW, max_locks_per_transaction="10")
    yield server
    server.drop()


def test_a_login_with_all_its_connections_in_use(postgres: PostgresServer, pg_url: str) -> None:
    name = pg_url.rpartition("/")[2]
    with postgres.connect(name) as admin:
        admin.execute("CREATE TABLE berths (id int PRIMARY KEY); INSERT INTO berths VALUES (1), (2)")
        admin.execute("CREATE ROLE single LOGIN CONNECTION LIMIT 1; GRANT SELECT ON berths TO single")
        asked = source(postgres.url(name, user="single"), "public.berths")
        with asked.probe() as first:
            assert rows(first) == 2
            with pytest.raises(SourceUnavailable, match="takes no more connections") as refused, asked.probe():
                pass
            with pytest.raises(SourceUnavailable, match="takes no more connections"):
                first.session.jdbc()  # not taken for a pooler that knows no options
            assert refused.value.hint is not None
            cure = re.search(r"`(ALTER ROLE … CONNECTION LIMIT \d+)`", refused.value.hint)
            assert cure, refused.value.hint
            admin.execute(cure[1].replace("…", "single").encode())
            with asked.probe() as second:
                assert rows(second) == 2
        admin.execute("DROP OWNED BY single; DROP ROLE single")


def test_more_partitions_than_the_server_has_room_for_locks(narrow: PostgresServer) -> None:
    with narrow.connect() as admin:
        admin.execute("CREATE TABLE tides (day int PRIMARY KEY) PARTITION BY LIST (day)")
        for first in range(0, PARTITIONS, 20):  # more in one transaction need as many locks
            admin.execute(
                f"DO $$ BEGIN FOR day IN {first}..{first + 19} LOOP EXECUTE format('CREATE TABLE tides_%s PARTITION "
                "OF tides FOR VALUES IN (%s)', day, day); END LOOP; END $$".encode()
            )
            admin.execute(f"INSERT INTO tides SELECT generate_series({first}, {first + 19})".encode())
    asked = source(narrow.url(), "public.tides")
    with pytest.raises(SourceError, match="no room for the locks") as refused, asked.probe() as probe:
        rows(probe)
    assert not refused.value.retryable
    cure = re.search(r"`(ALTER SYSTEM SET max_locks_per_transaction = \d+)`", refused.value.hint or "")
    assert cure, refused.value.hint
    with narrow.connect() as admin:
        admin.execute(cure[1].encode())
    narrow.stop("fast")
    narrow.start(**NARROW)
    with asked.probe() as probe:
        assert rows(probe) == PARTITIONS


def test_a_standby_that_does_not_wait_for_what_is_read(narrow: PostgresServer) -> None:
    with narrow.connect() as primary:
        primary.execute("CREATE TABLE buoys (id int PRIMARY KEY); INSERT INTO buoys SELECT generate_series(1, 500)")
    standby = narrow.standby(**NARROW, max_standby_streaming_delay="0")
    try:
        asked = source(standby.url(), "public.buoys")
        with asked.probe() as probe, narrow.connect() as primary:
            assert rows(probe) == 500
            primary.execute("DELETE FROM buoys WHERE id > 10")
            primary.execute("VACUUM buoys")
            caught_up(primary, standby)
            with pytest.raises(SourceUnavailable, match="the standby cancelled a statement") as refused:
                probe.session.rows("SELECT count(*) FROM public.buoys")
        cure = re.search(r"`(ALTER SYSTEM SET max_standby_streaming_delay = '1h')`", refused.value.hint or "")
        assert cure, refused.value.hint
        standby.stop("fast")
        standby.start(**NARROW)
        with standby.connect() as admin:
            admin.execute(cure[1].encode())
            admin.execute("SELECT pg_reload_conf()")
        with asked.probe() as probe, narrow.connect() as primary:
            assert rows(probe) == 10
            primary.execute("DELETE FROM buoys")
            primary.execute("VACUUM buoys")
            assert probe.session.rows("SELECT count(*) FROM public.buoys") == [(10,)]
    finally:
        standby.drop()


def test_a_question_that_nobody_waits_for_any_longer_ends(pg_url: str) -> None:
    """As when Spark has died while the source was asked."""
    with psycopg.connect(pg_url, autocommit=True) as admin:
        admin.execute("CREATE TABLE lights (id int)")
    with source(pg_url, "lights").probe() as probe, ThreadPoolExecutor(1) as pool:
        assert rows(probe) == 0
        slow = ["SELECT pg_sleep(600)", "SELECT pg_sleep(601)"]  # each on a connection of its own
        asked = pool.submit(probe.session.parallel, of_table(Postgresql(), "lights"), slow)
        with psycopg.connect(pg_url, autocommit=True) as admin:
            sleeping = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND query LIKE '%(60_)'"
            until = time.monotonic() + 30
            while admin.execute(sleeping).fetchall() != [(2,)] and time.monotonic() < until:
                time.sleep(0.05)
        probe.cancel()
        assert isinstance(asked.exception(timeout=30), SourceUnavailable)


def caught_up(primary: psycopg.Connection, standby: PostgresServer) -> None:
    """Waits until the standby has done what the primary has."""
    ((end,),) = primary.execute("SELECT pg_current_wal_flush_lsn()").fetchall()
    with standby.connect() as there:
        for _ in range(600):
            ((done,),) = there.execute("SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", (end,)).fetchall()
            if done:
                return
            time.sleep(0.05)
    raise AssertionError("the standby does not follow")
