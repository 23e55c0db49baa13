"""What a default or a trigger says of the zone of a column without one, against what the server's sessions have."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tidegate.core.bounds import TimeBound
from tidegate.core.ids import Connection
from tidegate.core.schema import TIMESTAMP, Column
from tidegate.dialects.shared.written_zones import assigned, must_be_written_in
from tidegate.errors import ConfigError
from tidegate.sources.database import Database

SUMMER = datetime(2025, 7, 1, tzinfo=UTC)
WINTER = datetime(2025, 1, 1, tzinfo=UTC)
AT = Column(name="at", type=TIMESTAMP)


@pytest.fixture
def far_from_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("text", "where", "hint"),
    [
        ("timezone('utc'::text, now())", "Asia/Tokyo", "time_zone: UTC"),
        ("(now() AT TIME ZONE 'Europe/Berlin'::text)", "UTC", "time_zone: Europe/Berlin"),
        ("utc_timestamp()", "Europe/London", "time_zone: UTC"),  # in winter they agree
        ("utc_timestamp(6)", "Asia/Tokyo", "time_zone: UTC"),
        ("datetime('now')", "America/New_York", "time_zone: UTC"),
    ],
)
@pytest.mark.parametrize("now", [SUMMER, WINTER])
def test_an_expression_that_writes_another_zone_is_refused_with_the_option(text, where, hint, now):
    with pytest.raises(ConfigError, match="has no time zone and is filled by") as refused:
        must_be_written_in(where, ["", text], AT, now)
    assert hint in refused.value.hint


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("now()", "Asia/Tokyo"),
        ("current_timestamp()", "Asia/Tokyo"),
        ("timezone('utc'::text, now())", "Etc/UTC"),
        ("timezone('Asia/Tokyo', now())", "Japan"),
        ("timezone('Mars/Olympus', now())", "Asia/Tokyo"),
        ("timezone('Asia/Tokyo', timezone('utc', timezone('utc', now())))", "Asia/Tokyo"),
        ("'utc_timestamps'::text", "Asia/Tokyo"),
    ],
)
def test_what_says_nothing_or_the_same_is_left_alone(text, where):
    must_be_written_in(where, [text], AT, SUMMER)


def test_what_a_trigger_assigns_to_the_column_counts_and_nothing_else_in_it():
    body = "BEGIN NEW.made := now(); new.\"at\" = timezone('utc', now()); NEW.other := 1; RETURN NEW; END"
    assert assigned([body, "BEGIN RETURN NEW; END"], "at") == [" timezone('utc', now())"]
    assert assigned(["SET NEW.`at` = utc_timestamp()"], "at") == [" utc_timestamp()"]


@pytest.mark.usefixtures("far_from_utc")
def test_a_default_of_sqlite_in_the_time_of_the_machine_stops_until_the_zone_is_stated(tmp_path: Path):
    """SQLite's own CURRENT_TIMESTAMP is UTC; west of it, rows that commit late would lie below the position."""
    file = tmp_path / "till.db"
    with sqlite3.connect(file) as till:
        till.execute("CREATE TABLE t (id INTEGER, at TIMESTAMP DEFAULT (datetime('now', 'localtime')), ok TIMESTAMP)")
    source = Database(table="t", connection=Connection(name="till", url=f"sqlite:///{file}"))
    with pytest.raises(ConfigError, match="filled by") as stopped, source.probe(bound=TimeBound(column="at")):
        pass
    assert "time_zone" in stopped.value.hint
    for bound in (TimeBound(column="ok"), TimeBound(column="at", time_zone="America/New_York")):
        with source.probe(bound=bound) as probe:
            assert probe.edge().upto
