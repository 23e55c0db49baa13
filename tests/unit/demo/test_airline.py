"""The demo's source: a database that one day after the other changes."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime

import pytest

from tidegate.errors import HistoryGone
from tidegate_demo import airline, flights

OPENING = datetime(2013, 1, 3, 5, tzinfo=UTC)


@pytest.fixture
def database(tmp_path, january):
    file = tmp_path / "airline.db"
    airline.create(file, january, at=OPENING)
    return file


def rows(file, query):
    with closing(sqlite3.connect(file)) as connection:
        return connection.execute(query).fetchall()


def test_the_source_holds_what_was_known_at_the_opening(database, january):
    columns = ", ".join(flights.FLIGHT_COLUMNS)
    expected = list(flights.flights(january, after=None, until=OPENING))
    assert rows(database, f"SELECT {columns} FROM flights ORDER BY id") == expected
    assert rows(database, "SELECT count(*) FROM airlines") == [(16,)]


def test_the_next_day_is_counted_as_it_happened(database, january):
    before = dict(rows(database, "SELECT id, status FROM flights"))
    day = airline.next_day(database, january)
    after = dict(rows(database, "SELECT id, status FROM flights"))
    assert day.scheduled == len(after) - len(before)
    assert day.cancelled == sum(after[i] == "cancelled" != status for i, status in before.items())
    stamps = rows(database, f"SELECT count(*) FROM flights WHERE updated_at > '{OPENING:%Y-%m-%d %H:%M:%S}'")
    assert stamps == [(day.flights,)]
    assert day.corrected
    assert day.weather == 3 * 24, "each hour at three airports"


def test_days_lead_to_the_same_rows_as_one_jump(database, january):
    for _ in range(3):
        day = airline.next_day(database, january)
    assert rows(database, "SELECT * FROM flights ORDER BY id") == list(
        flights.flights(january, after=None, until=day.until)
    )


def test_the_year_ends(tmp_path, january):
    file = tmp_path / "airline.db"
    airline.create(file, january, at=airline.END)
    with pytest.raises(HistoryGone):
        airline.next_day(file, january)
