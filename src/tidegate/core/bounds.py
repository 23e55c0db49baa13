"""What a strategy asks of a source before its snapshot is taken: up to which value of a column nobody writes any more.

Stated by strategies, answered by sources when they are opened. Values only.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum


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
    """

    column: str
    clock: Clock = Clock.DATABASE
    lag: timedelta = timedelta(0)
    fallback: str | None = None
    time_zone: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceBound:
    """The inclusive safe bound of an ever growing integer column.

    Args:
        wait: how long to wait for the writers that could still add a smaller number.
    """

    column: str
    wait: timedelta = timedelta(0)


BoundRequest = TimeBound | SequenceBound
