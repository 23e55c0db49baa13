"""The city that the example loads: 15 garages, of which each reports every minute how many spaces are free.

Pure: what the garages report is a function of the minute, so every run of the example sees the same city. As in a real
one, sensors fail for a while, some readings arrive late, and some are sent twice.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from zlib import crc32

BEGIN = datetime(2025, 9, 2, 8, 0, tzinfo=UTC)
HISTORY = timedelta(days=8)
FINE = timedelta(hours=12)  # older readings are kept by the hour
MINUTE = timedelta(minutes=1)
SLOWEST = timedelta(minutes=10)  # the longest way of a reading, and of its repetition
LATE, TWICE, OUTAGE = 40, 60, 90  # one reading, and one half an hour, of so many
NAMES = ("Harbour", "Cathedral", "Station", "Market", "Theatre", "Arena", "Hospital", "University", "Old Town")
NAMES += ("Lake", "Museum", "Court", "Ferry", "Stadium", "Airport")


@dataclass(frozen=True, slots=True, kw_only=True)
class Garage:
    """One of the garages, and where it is in degrees."""

    garage_id: int
    name: str
    capacity: int
    latitude: float
    longitude: float


GARAGES = tuple(
    Garage(
        garage_id=number,
        name=name,
        capacity=120 + 40 * (number % 7),
        latitude=round(58.97 + 0.004 * (number % 5), 4),
        longitude=round(5.73 + 0.006 * (number // 5), 4),
    )
    for number, name in enumerate(NAMES, 1)
)


@dataclass(slots=True)
class City:
    """The garages at a moment, which `step` moves on.

    Args:
        extra: garage, minute and number of cars that came at once: a concert, a closed bridge.
    """

    now: datetime = BEGIN
    extra: list[tuple[int, datetime, int]] = field(default_factory=list)

    def step(self, minutes: int = 1) -> None:
        """Lets so many minutes pass."""
        self.now += minutes * MINUTE

    def arrive(self, garage_id: int, cars: int) -> None:
        """So many cars enter (a negative number: leave) a garage now, and stay."""
        self.extra.append((garage_id, self.now, cars))

    def free(self, garage: Garage, at: datetime) -> int | None:
        """Free spaces at a minute; None while the garage's sensor is out of order."""
        if out_of_order(garage.garage_id, at):
            return None
        taken = usual(garage, at)
        taken += sum(cars for number, since, cars in self.extra if number == garage.garage_id and since <= at)
        return max(0, min(garage.capacity, garage.capacity - taken))

    def garages(self) -> list[Mapping[str, object]]:
        """One record for each garage as it is now: the whole answer of `/garages`."""
        return [self._record(garage) for garage in GARAGES]

    def readings(self, since: datetime) -> list[Mapping[str, object]]:
        """What garages have reported from then until now, in the order of arrival: the answer of `/readings`.

        A reading that was sent twice has one `reading_id` and two `reported_at`.
        """
        found = [each for at in self._minutes(since - SLOWEST) for each in self._reported(at)]
        begin, end = stamp(since), stamp(self.now)
        found = [each for each in found if begin <= str(each["reported_at"]) <= end]
        return sorted(found, key=lambda each: (str(each["reported_at"]), str(each["reading_id"])))

    def _record(self, garage: Garage) -> Mapping[str, object]:
        free = self.free(garage, self.now)
        return {
            "garage_id": garage.garage_id,
            "name": garage.name,
            "latitude": garage.latitude,
            "longitude": garage.longitude,
            "capacity": garage.capacity,
            "free": free,
            "status": "outage" if free is None else "open",
            "measured_at": stamp(self.now),
        }

    def _minutes(self, since: datetime) -> Iterator[datetime]:
        at = BEGIN - HISTORY
        while at <= self.now:
            if at >= since:
                yield at
            at += MINUTE if at >= BEGIN - FINE else 60 * MINUTE

    def _reported(self, at: datetime) -> Iterator[Mapping[str, object]]:
        for garage in GARAGES:
            if (free := self.free(garage, at)) is None:
                continue
            luck = noise(garage.garage_id, at)
            delay = 1 + luck % 9 if luck % LATE == 0 else 0
            reading = {
                "reading_id": f"{garage.garage_id}-{at:%Y%m%d%H%M}",
                "garage_id": garage.garage_id,
                "free": free,
                "capacity": garage.capacity,
                "measured_at": stamp(at),
                "reported_at": stamp(at + delay * MINUTE),
            }
            yield reading
            if luck % TWICE == 1:
                yield {**reading, "reported_at": stamp(at + (delay + 1) * MINUTE)}


def usual(garage: Garage, at: datetime) -> int:
    """Cars that usually are in a garage at a minute: full by day, half as full at weekends, a few more or less."""
    hour = at.hour + at.minute / 60
    by_day = 0.25 + 0.6 * math.exp(-(((hour - 13) / 4) ** 2))
    share = by_day * (0.55 if at.weekday() >= 5 else 1.0)
    return round(garage.capacity * share) + noise(garage.garage_id, at) % 3


def out_of_order(garage_id: int, at: datetime) -> bool:
    """Whether a garage's sensor fails in this half hour."""
    half_hour = at.replace(minute=at.minute // 30 * 30)
    return noise(garage_id + 1000, half_hour) % OUTAGE == 0


def noise(seed: int, at: datetime) -> int:
    """A number that looks random and is the same every time."""
    return crc32(f"{seed}@{stamp(at)}".encode())


def stamp(at: datetime) -> str:
    """A time as the API writes it; texts sort as the times do."""
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
