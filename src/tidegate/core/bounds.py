"""The safe upper bound of a cursor that a strategy requests from a source before its snapshot is taken."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from enum import StrEnum

DAY_LENGTH = 10


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
