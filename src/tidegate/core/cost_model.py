"""Estimates the cost of a load from earlier loads of the same stream.

A guess is never presented as a measurement.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from statistics import median

CHOICE = "choice"
"""The key of a position's state that tells which way was gone, and of how many rows."""

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
    """Seconds that a load takes whatever it moves, and seconds for a million rows more."""

    fixed: float
    a_million: float

    def seconds(self, rows: int) -> float:
        """Of a load of so many rows.

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
"""What is assumed of a way that this stream has not gone yet: a small server, loads of ten columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one load took.

    Args:
        rows: that the way has to look at: those that changed for `incremental`, those of the table for the others.
    """

    way: LoadMethod
    rows: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What a load would take.

    Args:
        measured: the last load that went this way; None when none did, so that `seconds` is a guess.
    """

    way: LoadMethod
    rows: int
    seconds: float
    measured: Cost | None = None

    def __str__(self) -> str:
        text = f"{self.way}: about {self.seconds:.1f} s for {self.rows} rows"
        if self.measured is None:
            return f"{text} (a guess: not measured yet)"
        return f"{text} (the last one took {self.measured.seconds:.1f} s for {self.measured.rows} rows)"


@dataclass(frozen=True, slots=True, kw_only=True)
class CostHistory:
    """What is known of a stream's earlier loads.

    Args:
        costs: newest first.
        proven_at: when the whole table was last compared with its source and equal, by `tidegate verify`.
    """

    costs: tuple[Cost, ...] = ()
    proven_at: datetime | None = None

    def estimate(self, way: LoadMethod, rows: int) -> Estimate:
        """What going this way would take: by the median rate of the last loads that did, else by a guess.

        Example:
            >>> known = CostHistory(costs=(Cost(way=LoadMethod.FULL, rows=2_000_000, seconds=22.0),))
            >>> known.estimate(LoadMethod.FULL, 1_000_000).seconds
            12.0
        """
        found = [cost for cost in self.costs if cost.way is way][:RECENT]
        if not found:
            return Estimate(way=way, rows=rows, seconds=GUESSES[way].seconds(rows))
        # No load is quicker than the quickest one of no rows would be.
        fixed = min(GUESSES[way].fixed, *(cost.seconds for cost in found))
        rate = Rate(fixed=fixed, a_million=median((c.seconds - fixed) * MILLION / max(c.rows, 1) for c in found))
        return Estimate(way=way, rows=rows, seconds=rate.seconds(rows), measured=found[0])
