"""Estimates the cost of a load from earlier loads of the same stream.

A guess is never presented as a measurement.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from statistics import median

from tidegate.core.display import counted

CHOICE = "choice"
"""The key of a position's state that holds the method of the load and its number of rows."""

RECENT = 5
MILLION = 1_000_000


class LoadMethod(StrEnum):
    """How a stream can be brought up to date."""

    INCREMENTAL = "incremental"
    PARTITIONS = "partitions"
    SNAPSHOT_DIFF = "snapshot_diff"
    FULL = "full"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """The fixed seconds of a load, and the additional seconds per million rows."""

    fixed: float
    a_million: float

    def seconds(self, rows: int) -> float:
        """The estimated seconds of a load of so many rows.

        Example:
            >>> Rate(fixed=1, a_million=4).seconds(500_000)
            3.0
        """
        return self.fixed + self.a_million * rows / MILLION


GUESSES: Mapping[LoadMethod, Rate] = {
    LoadMethod.INCREMENTAL: Rate(fixed=1.5, a_million=30),
    LoadMethod.PARTITIONS: Rate(fixed=2, a_million=6),
    LoadMethod.SNAPSHOT_DIFF: Rate(fixed=2, a_million=12),
    LoadMethod.FULL: Rate(fixed=2, a_million=4),
}
"""The assumed rates of methods that this stream has not used yet: a small server, loads of ten columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The time that one load took.

    Args:
        rows: the rows that the method has to look at: the changed ones for `incremental`, all of the table for others.
    """

    way: LoadMethod
    rows: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The time that a load would take.

    Args:
        measured: the last load with this method; None if there was none, so that `seconds` is a guess.
    """

    way: LoadMethod
    rows: int
    seconds: float
    measured: Cost | None = None

    def __str__(self) -> str:
        text = f"{self.way}: about {self.seconds:.1f} s for {counted(self.rows, 'row')}"
        if self.measured is None:
            return f"{text} (a guess: not measured yet)"
        return f"{text} (the last one took {self.measured.seconds:.1f} s for {counted(self.measured.rows, 'row')})"


@dataclass(frozen=True, slots=True, kw_only=True)
class CostHistory:
    """The costs of a stream's earlier loads.

    Args:
        costs: newest first.
        proven_at: the source's time at which the whole table was last found equal by `tidegate verify`, if it descends
            from the version that was compared.
    """

    costs: tuple[Cost, ...] = ()
    proven_at: datetime | None = None

    def estimate(self, way: LoadMethod, rows: int) -> Estimate:
        """The time that this method would take: by the median rate of its last loads, or else by a guess.

        Example:
            >>> known = CostHistory(costs=(Cost(way=LoadMethod.FULL, rows=2_000_000, seconds=22.0),))
            >>> known.estimate(LoadMethod.FULL, 1_000_000).seconds
            12.0
        """
        found = [cost for cost in self.costs if cost.way is way][:RECENT]
        if not found:
            return Estimate(way=way, rows=rows, seconds=GUESSES[way].seconds(rows))
        # No load is faster than the fastest one would be without rows.
        fixed = min(GUESSES[way].fixed, *(cost.seconds for cost in found))
        rate = Rate(fixed=fixed, a_million=median((c.seconds - fixed) * MILLION / max(c.rows, 1) for c in found))
        return Estimate(way=way, rows=rows, seconds=rate.seconds(rows), measured=found[0])
