"""Whole certifications on real servers, and what they leave behind."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from support.certify import certify, command, environment, named
from tidegate.errors import ConfigError
from tidegate_scenarios.run import certify as certify_here
from tidegate_scenarios.run import place_of

if TYPE_CHECKING:
    from support.mariadb import MariadbServer
    from support.snowflake import SnowflakeServer
    from support.trino import TrinoServer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]  # the whole kit
CDC = "cdc"
LOST, LOGIN = "a connection that is lost while a load reads", "a wrong login is refused, and not shown"
OPEN = "a transaction that is open during a load"


def certified(folder: Path, url: str, *words: str) -> set[str]:
    """Nothing failed, and nothing is left; the cases that are not supported."""
    code, document = certify(folder, url, "--yes", *words)
    assert named(document, "failed") == set(), document["cases"]
    assert (code, document["left"], document["counts"]["failed"]) == (0, [], 0)
    return named(document, "not supported")


def uncovered(*types: str, by: tuple[str, ...] = ("checksum",)) -> set[str]:
    return {f"{each}: a change is found by {how}" for each in types for how in by}


@pytest.mark.postgres
@pytest.mark.slow
@pytest.mark.spark
def test_postgresql(pg_url: str, tmp_path: Path) -> None:
    types = ("c_real", "c_double", "c_integers", "c_texts", "c_booleans")
    assert certified(tmp_path, pg_url) == uncovered(*types, by=("checksum", "prefilter"))
    with psycopg.connect(pg_url) as server:
        assert server.execute("SELECT count(*) FROM pg_namespace WHERE nspname = 'tidegate_certify'").fetchone() == (0,)
        assert server.execute("SELECT count(*) FROM pg_replication_slots").fetchone() == (0,)
        assert server.execute("SELECT count(*) FROM pg_publication").fetchone() == (0,)


@pytest.mark.slow
@pytest.mark.spark
def test_mariadb(mariadb: MariadbServer, maria_database: str, tmp_path: Path) -> None:
    url = mariadb.url(maria_database)
    assert certified(tmp_path, url, "--schema", maria_database) == {*uncovered("c_float", "c_double"), CDC}
    assert place_of(url, maria_database).left == ()
    assert not place_of(url, maria_database).missing, "a schema that was there before stays"


@pytest.mark.slow
@pytest.mark.spark
def test_sqlite(tmp_path: Path) -> None:
    assert certified(tmp_path, "sqlite:///new.db") == {*uncovered("c_real"), CDC, LOST, LOGIN}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.spark
def test_duckdb(tmp_path: Path) -> None:
    types = ("c_float", "c_double", "c_integers", "c_texts")
    assert certified(tmp_path, "duckdb:///new.duckdb") == {*uncovered(*types), CDC, LOST, LOGIN, OPEN}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.servers
@pytest.mark.spark
def test_trino(trino_server: TrinoServer, tmp_path: Path) -> None:
    url = f"trino://tester@127.0.0.1:{trino_server.port}/iceberg"
    unsafe = {"watermark", "smart_column", "sequence", CDC, OPEN, LOST, LOGIN}
    absent = {"c_ipaddress", "c_json"}  # of Iceberg
    types = ("c_real", "c_double", "c_integers", "c_texts")
    assert certified(tmp_path, url) == {*uncovered(*types), *unsafe, *absent}
    with pytest.raises(ConfigError, match="cannot be inserted, updated and deleted"):
        certify_here(place_of(url.replace("iceberg", "memory")), lambda _: None, lambda _: None)
    assert place_of(url.replace("iceberg", "memory")).missing


@pytest.mark.slow
@pytest.mark.spark
def test_snowflake(snowflake_server: SnowflakeServer, tmp_path: Path) -> None:
    """On fakesnow, which knows no more than its protocol and most of its words."""
    unsafe = {"watermark", "smart_column", "sequence", CDC, LOST}
    assert certified(tmp_path, snowflake_server.url) == {*uncovered("c_float"), *unsafe}


@pytest.mark.postgres
def test_a_schema_with_a_table_is_refused_and_untouched(pg_url: str, tmp_path: Path) -> None:
    with psycopg.connect(pg_url, autocommit=True) as server:
        server.execute("CREATE SCHEMA sales")
        server.execute("CREATE TABLE sales.orders AS SELECT 1 AS id")
        server.execute("CREATE TABLE sales.tidegate_orders (id int)")
        for words in (["--yes"], ["--clean", "--yes"], []):
            code, document = certify(tmp_path, pg_url, "--schema", "sales", *words)
            assert code == 2
            assert document["error"]["message"] == "schema sales is not empty: it has orders and 1 more"
        assert server.execute("SELECT * FROM sales.orders").fetchall() == [(1,)]
        assert server.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'sales'").fetchone() == (2,)


@pytest.mark.postgres
def test_without_yes_it_says_what_it_would_create_and_creates_nothing(pg_url: str, tmp_path: Path) -> None:
    code, document = certify(tmp_path, pg_url)
    assert code == 2
    message = document["error"]["message"]
    assert "tidegate_types" in message
    assert "schema tidegate_certify, which does not exist yet" in message
    assert message.endswith("; it also makes a replication slot and a publication, if the login may")
    assert place_of(pg_url).missing


def started(folder: Path, url: str, case: str = "") -> subprocess.Popen[str]:
    """A certification at work: of which that case has ended, or the first one."""
    process = subprocess.Popen(
        command(folder, url, "--yes"),
        cwd=folder,
        text=True,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        env=environment(),
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("passed") and case in line:
            return process
    raise AssertionError("it ended before that case")


@pytest.mark.postgres
@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_everything_is_removed_after_an_interruption(pg_url: str, tmp_path: Path, number: signal.Signals) -> None:
    process = started(tmp_path, pg_url)
    process.send_signal(number)
    _, rest = process.communicate(timeout=240)
    assert process.returncode == 130
    assert "nothing is left in schema tidegate_certify" in rest
    assert place_of(pg_url).missing


@pytest.mark.postgres
@pytest.mark.slow
@pytest.mark.spark
def test_what_a_kill_leaves_is_named_and_removed_when_asked(pg_url: str, tmp_path: Path) -> None:
    process = started(tmp_path, pg_url, "cdc: first load")
    process.kill()
    process.communicate(timeout=240)
    assert slots(pg_url) == 1
    code, document = certify(tmp_path, pg_url, "--yes")
    assert code == 2
    assert "tidegate_orders" in document["error"]["message"]
    assert "--clean --yes" in document["error"]["hint"]
    assert certify(tmp_path, pg_url, "--clean")[0] == 2
    assert place_of(pg_url).left
    code, document = certify(tmp_path, pg_url, "--clean", "--yes")
    assert (code, document["left"]) == (0, [])
    assert place_of(pg_url).missing
    assert slots(pg_url) == 0


def slots(url: str) -> int:
    with psycopg.connect(url) as server:
        ((found,),) = server.execute(
            "SELECT count(*) FROM pg_replication_slots WHERE database = current_database()"
        ).fetchall()
        return int(found)


def test_a_variable_of_the_url_that_is_absent_is_named() -> None:
    with pytest.raises(ConfigError, match="TIDEGATE_ABSENT"):
        place_of("postgresql://me:${TIDEGATE_ABSENT}@127.0.0.1/shop")
