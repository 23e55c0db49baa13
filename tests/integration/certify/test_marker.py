"""Only what a marker proves to be the kit's is removed: names prove nothing."""

from __future__ import annotations

import sqlite3
import subprocess
import time
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from support.certify import certify, command, environment
from tidegate.errors import ConfigError
from tidegate_scenarios.marker import NAME, Marker
from tidegate_scenarios.run import clean, place_of

pytestmark = pytest.mark.slow  # processes
PRECIOUS = "CREATE TABLE tidegate_orders (id int, precious text); INSERT INTO tidegate_orders VALUES (1, 'mine')"
SLOW = """
CREATE FUNCTION public.slow() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(120); END';
CREATE EVENT TRIGGER slow ON ddl_command_start WHEN TAG IN ('CREATE TYPE') EXECUTE FUNCTION public.slow()
"""
ENDED = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tidegate certify'"


def refused(folder: Path, url: str, *words: str) -> None:
    """By every command, without a word of `--clean`."""
    for more in ([], ["--yes"], ["--clean"], ["--clean", "--yes"]):
        code, document = certify(folder, url, *words, *more)
        assert code == 2
        assert "is not empty: it has tidegate_orders" in document["error"]["message"]
        assert "--clean" not in document["error"]["hint"]


def mark(url: str, *made: str, schema: str | None = None) -> str:
    """What a certification does first, up to its death."""
    place, marker = place_of(url, schema), Marker()
    with closing(place.kit.open(place.connection, schema)) as scratch:
        if place.missing:
            scratch.create()
        marker.create(place.kit, place.dialect, scratch, schema=place.missing)
        for name in made:
            scratch.execute(f"CREATE TABLE {place.dialect.relation(*scratch.parts(name)).sql} (id int)")
            marker.record(name)
    return marker.name


def execute(path: Path, script: str) -> None:
    with closing(sqlite3.connect(path)) as file:
        file.executescript(script)


def tables(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as file:
        return [name for (name,) in file.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY 1")]


def test_a_file_with_a_table_of_the_kits_name_is_refused_and_untouched(tmp_path: Path) -> None:
    execute(tmp_path / "mine.db", PRECIOUS)
    refused(tmp_path, "sqlite:///mine.db")
    with closing(sqlite3.connect(tmp_path / "mine.db")) as file:
        assert file.execute("SELECT * FROM tidegate_orders").fetchall() == [(1, "mine")]


def test_what_a_marker_names_is_removed_with_the_file_that_was_made_for_it(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'new.db'}"
    marker = mark(url, "tidegate_types", "tidegate_orders")
    place = place_of(url)
    assert place.left == (marker, "tidegate_orders", "tidegate_types")
    assert clean(place) == ()
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_was_there_stays(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'old.db'}"
    execute(tmp_path / "old.db", "")
    mark(url, "tidegate_types")
    assert clean(place_of(url)) == ()
    assert tables(tmp_path / "old.db") == []


def test_after_a_kill_before_the_first_table_a_table_of_its_name_is_not_the_kits(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'new.db'}"
    marker = mark(url)
    place = place_of(url)
    assert place.left == (marker,)
    execute(tmp_path / "new.db", PRECIOUS)
    refused(tmp_path, url)
    assert clean(place) == ("tidegate_orders",), "somebody was faster"
    assert tables(tmp_path / "new.db") == ["tidegate_orders"]


def test_a_marker_stays_as_long_as_what_it_names(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'new.db'}"
    marker = mark(url, "tidegate_orders")
    place = place_of(url)
    execute(tmp_path / "new.db", "DROP TABLE tidegate_orders; CREATE VIEW tidegate_orders AS SELECT 1 AS id")
    assert clean(place) == (marker, "tidegate_orders")
    execute(tmp_path / "new.db", "DROP VIEW tidegate_orders")
    assert clean(place_of(url)) == ()


@pytest.mark.postgres
def test_a_schema_with_a_table_of_the_kits_name_is_refused_and_untouched(pg_url: str, tmp_path: Path) -> None:
    with psycopg.connect(pg_url, autocommit=True) as server:
        server.execute(f"CREATE SCHEMA mine; SET search_path = mine; {PRECIOUS}")
        refused(tmp_path, pg_url, "--schema", "mine")
        assert server.execute("SELECT * FROM mine.tidegate_orders").fetchall() == [(1, "mine")]


@pytest.mark.postgres
def test_a_kill_between_marker_and_first_table(pg_url: str, tmp_path: Path) -> None:
    with psycopg.connect(pg_url, autocommit=True) as server:
        server.execute(SLOW)
        process = subprocess.Popen(
            command(tmp_path, pg_url, "--yes"),
            cwd=tmp_path,
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env=environment(),
        )
        try:
            until = time.monotonic() + 60
            while not (left := place_of(pg_url).left) and time.monotonic() < until:
                time.sleep(0.1)
        finally:
            process.kill()
            process.wait()
        server.execute(ENDED)
        server.execute("DROP EVENT TRIGGER slow")
        (marker,) = left
        assert NAME.fullmatch(marker)
        code, document = certify(tmp_path, pg_url, "--yes")
        assert (code, marker in document["error"]["message"]) == (2, True)
        assert "--clean --yes" in document["error"]["hint"]
        server.execute("CREATE TYPE tidegate_certify.tidegate_mood AS ENUM ('mine')")
        with pytest.raises(ConfigError, match="it has tidegate_mood"):
            place_of(pg_url)
        server.execute("DROP TYPE tidegate_certify.tidegate_mood")
        code, document = certify(tmp_path, pg_url, "--clean", "--yes")
        assert (code, document["removed"], document["left"]) == (0, [marker], [])
        assert place_of(pg_url).missing, "the schema was made for it"


@pytest.mark.postgres
def test_the_sequence_of_a_table_goes_with_it(pg_url: str) -> None:
    place, marker = place_of(pg_url), Marker()
    with closing(place.kit.open(place.connection, None)) as scratch:
        scratch.create()
        marker.create(place.kit, place.dialect, scratch, schema=True)
        scratch.execute(f"CREATE TABLE tidegate_events (id {place.kit.identity})")
        marker.record("tidegate_events")
    place = place_of(pg_url)
    assert place.left == (marker.name, "tidegate_events")
    assert clean(place) == ()
