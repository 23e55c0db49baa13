"""The demo's source: a SQLite database of an airline's flights, and the changes of each day."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tidegate.errors import HistoryGone
from tidegate_demo import flights as data

OPENING = datetime(2013, 12, 10, 5, tzinfo=UTC)  # midnight in New York; the day after was one of snow
DAY = timedelta(days=1)
END = datetime(2014, 1, 5, 5, tzinfo=UTC)  # the last correction has arrived

TABLES = """
CREATE TABLE airlines (carrier TEXT PRIMARY KEY NOT NULL, name TEXT NOT NULL);
CREATE TABLE airports (
  faa TEXT PRIMARY KEY NOT NULL, name TEXT NOT NULL, lat REAL, lon REAL, alt INTEGER, tz INTEGER, dst TEXT, tzone TEXT
);
CREATE TABLE planes (
  tailnum TEXT PRIMARY KEY NOT NULL, year INTEGER, type TEXT, manufacturer TEXT, model TEXT,
  engines INTEGER, seats INTEGER, speed INTEGER, engine TEXT
);
CREATE TABLE weather (
  id INTEGER PRIMARY KEY AUTOINCREMENT, origin TEXT NOT NULL, observed_at TIMESTAMP NOT NULL,
  temp REAL, dewp REAL, humid REAL, wind_dir REAL, wind_speed REAL, wind_gust REAL,
  precip REAL, pressure REAL, visib REAL
);
CREATE TABLE flights (
  id INTEGER PRIMARY KEY NOT NULL, flight_date DATE NOT NULL, scheduled_at TIMESTAMP NOT NULL,
  carrier TEXT NOT NULL, flight INTEGER NOT NULL, origin TEXT NOT NULL, dest TEXT NOT NULL, distance INTEGER NOT NULL,
  tailnum TEXT, status TEXT NOT NULL, dep_time INTEGER, dep_delay INTEGER, arr_time INTEGER, arr_delay INTEGER,
  air_time INTEGER, updated_at TIMESTAMP NOT NULL
);
CREATE TABLE demo_clock (now TIMESTAMP NOT NULL);
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals:
    """What a stretch of time brought to the source.

    Units: rows; `corrected` counts flights that had been closed before, `weather` new observations.
    """

    until: datetime
    scheduled: int
    closed: int
    cancelled: int
    corrected: int
    weather: int

    @property
    def flights(self) -> int:
        """Rows of flights that are new or changed."""
        return self.scheduled + self.closed + self.cancelled + self.corrected


def create(file: Path, folder: Path, *, at: datetime = OPENING) -> dict[str, int]:
    """Makes the database as it stood at that moment; rows by table."""
    with closing(sqlite3.connect(file)) as database:
        # Nothing of a half made demo is kept, so nothing has to survive a power cut.
        database.execute("PRAGMA synchronous = OFF")
        database.executescript(TABLES)
        with database:
            for name in data.SMALL:
                _put(database, name, data.small(folder, name))
            _put(database, "weather", data.weather(folder, after=None, until=at))
            _put(database, "flights", data.flights(folder, after=None, until=at))
            database.execute("CREATE INDEX flights_updated_at ON flights (updated_at)")
            database.execute("INSERT INTO demo_clock VALUES (?)", (at.isoformat(),))
        return {name: _count(database, name) for name in (*data.SMALL, "weather", "flights")}


def next_day(file: Path, folder: Path) -> Arrivals:
    """Lets one day pass, in one transaction, as any application would change its tables.

    Raises:
        HistoryGone: the recorded year is over.
    """
    with closing(sqlite3.connect(file)) as database, database:
        (stamp,) = database.execute("SELECT now FROM demo_clock").fetchone()
        after = datetime.fromisoformat(stamp)
        if after >= END:
            raise HistoryGone("there are no more recorded flights", hint="Start over: `tidegate demo`.")
        until = after + DAY
        rows = list(data.flights(folder, after=after, until=until))
        first = rows[0][0] if rows else 0
        known = dict(database.execute("SELECT id, status FROM flights WHERE id >= ?", (first,)))
        observed = list(data.weather(folder, after=after, until=until))
        _put(database, "flights", rows)
        _put(database, "weather", observed)
        database.execute("UPDATE demo_clock SET now = ?", (until.isoformat(),))
    return _arrivals(until, rows, known, len(observed))


def _arrivals(until: datetime, rows: list[data.Row], known: dict[int, str], observed: int) -> Arrivals:
    status = data.FLIGHT_COLUMNS.index("status")
    counts = {"scheduled": 0, "closed": 0, "cancelled": 0, "corrected": 0}
    for row in rows:
        before, now = known.get(int(row[0] or 0)), row[status]
        if now == "scheduled":
            counts["scheduled"] += 1
        elif before == now:
            counts["corrected"] += 1
        else:
            counts["cancelled" if now == "cancelled" else "closed"] += 1
    return Arrivals(until=until, weather=observed, **counts)


def _put(database: sqlite3.Connection, table: str, rows: Iterable[data.Row]) -> None:
    width = len(database.execute(f"SELECT * FROM {table} LIMIT 0").description)
    database.executemany(f"INSERT OR REPLACE INTO {table} VALUES ({', '.join('?' * width)})", rows)


def _count(database: sqlite3.Connection, table: str) -> int:
    return int(database.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
