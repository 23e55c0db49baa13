"""The safe upper bound of a cursor that a strategy requests from a source before its snapshot is taken."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from enum import StrEnum

DAY_LENGTH = 10
HOUR, QUARTER = timedelta(hours=1), timedelta(minutes=15)
STEPS = tuple(
    timedelta(microseconds=each)
    for each in (
        *(3_600_000_000 * hours for hours in (24, 12, 6, 1)),
        *(60_000_000 * minutes for minutes in (15, 10, 5, 1)),
        *(1_000_000 * seconds for seconds in (30, 15, 10, 5, 1)),
        *(10**power for power in range(5, -1, -1)),
    )
)
"""Steps to which columns are declared, or clocks cut down: from a day to a microsecond."""


class Clock(StrEnum):
    """Whose clock sets a cursor column."""

    DATABASE = "database"
    APPLICATION = "application"


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeBound:
    """The inclusive safe bound of a timestamp or date column.

    Args:
        lag: stay this much below it.
        fallback: the column of rows in which the first one is NULL.
        time_zone: of the values of a column without zone; None for the server's own.
        lookback: how far the column of a row may go back by a later change; None for any distance.
    """

    column: str
    clock: Clock = Clock.DATABASE
    lag: timedelta = timedelta(0)
    fallback: str | None = None
    time_zone: str | None = None
    lookback: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceBound:
    """The inclusive safe bound of an ever growing integer column.

    Args:
        wait: how long to wait for the writers that could still add a smaller number.
    """

    column: str
    wait: timedelta = timedelta(0)


BoundRequest = TimeBound | SequenceBound


def back(moment: datetime, length: timedelta) -> datetime:
    """The moment this much before another, or the first that there is.

    Example:
        >>> back(datetime(2025, 1, 2), timedelta(days=1)).isoformat(), back(datetime.max, timedelta.max).isoformat()
        ('2025-01-01T00:00:00', '0001-01-01T00:00:00')
    """
    return moment - min(length, moment - datetime.min.replace(tzinfo=moment.tzinfo))


def forward(moment: datetime, length: timedelta) -> datetime:
    """The moment this much after another, or the last that there is.

    Example:
        >>> forward(datetime(2025, 1, 1), timedelta(days=1)).isoformat(), forward(datetime.min, timedelta.max).year
        ('2025-01-02T00:00:00', 9999)
    """
    return moment + min(length, datetime.max.replace(tzinfo=moment.tzinfo) - moment)


def earlier(value: str, length: timedelta) -> str | None:
    """The canonical text of the date or timestamp that lies this much before another; None where there is none.

    Example:
        >>> earlier("2025-01-02", timedelta(hours=1)), earlier("2001", timedelta(hours=1))
        ('2025-01-01', None)
    """
    if value.lstrip("-").isdigit():  # a number has no time
        return None
    try:
        if len(value) == DAY_LENGTH:
            # Part of a day is a day: the whole of it was one value.
            days = -(-length // timedelta(days=1))
            return (date.fromisoformat(value) - timedelta(days=days)).isoformat()
        return (datetime.fromisoformat(value) - length).isoformat(" ", "microseconds")
    except OverflowError:
        return None


def beyond(value: str, upto: str, leeway: timedelta = timedelta(0)) -> bool:
    """Whether a date or timestamp lies above another by more than the leeway, all in canonical texts.

    Example:
        >>> beyond("2025-01-02", "2025-01-01"), beyond("2025-01-02", "2025-01-01", timedelta(days=1))
        (True, False)
    """
    least = earlier(value, leeway)
    return least is not None and least > upto


def step(*values: str) -> timedelta:
    """The greatest usual step of which all these canonical timestamps are multiples: how coarsely they were written.

    Quarters of an hour count as hours, because an hour of India or Nepal begins there in UTC.

    Example:
        >>> step("2025-01-01 12:15:00.000000"), step("2025-01-01 12:15:00.000000", "2025-01-01 12:14:00.000000")
        (datetime.timedelta(seconds=3600), datetime.timedelta(seconds=60))
        >>> step("2025-01-01 12:15:07.123456")
        datetime.timedelta(microseconds=1)
    """
    moments = [datetime.fromisoformat(value) for value in values]
    times = [moment - moment.replace(hour=0, minute=0, second=0, microsecond=0) for moment in moments]
    found = next(each for each in STEPS if not any(time % each for time in times))
    return max(found, HOUR) if found >= QUARTER else found
