"""How late rows arrive, computed from the lookbacks of earlier loads for `status --late`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.core.display import Shown

Histogram = Iterable[Sequence[int]]
"""Seconds that rows lay behind the position at most, 0 for those after it, and how many rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lateness(Shown):
    """How far behind the position rows were on arrival: upper bounds, at the lookback's resolution.

    Units: seconds. `p50`, `p95` and `p99` over all rows; `lookback` is the smallest that would
    have caught every row seen. None without rows.
    """

    loads: int
    rows: int
    late_rows: int
    p50: int | None
    p95: int | None
    p99: int | None
    lookback: int | None

    @classmethod
    def of(cls, loads: Iterable[Histogram]) -> Lateness:
        """Combines the histograms of some loads.

        Example:
            >>> told = Lateness.of([[(0, 97), (86400, 2)], [(0, 0), (259200, 1)]])
            >>> told.rows, told.late_rows, told.p95, told.p99, told.lookback
            (100, 3, 0, 86400, 259200)
        """
        found: Counter[int] = Counter()
        count = 0
        for count, load in enumerate(loads, start=1):  # noqa: B007 - how many there were
            for seconds, rows in load:
                found[seconds] += rows
        steps = sorted((seconds, rows) for seconds, rows in found.items() if rows)
        total = sum(rows for _, rows in steps)
        return cls(
            loads=count,
            rows=total,
            late_rows=total - found[0],
            p50=_percentile(steps, total, 50),
            p95=_percentile(steps, total, 95),
            p99=_percentile(steps, total, 99),
            lookback=_percentile(steps, total, 100),
        )

    def to_dict(self) -> dict[str, Any]:
        """JSON types only."""
        return {name: getattr(self, name) for name in self.__slots__}


def _percentile(steps: list[tuple[int, int]], total: int, percent: int) -> int | None:
    """The least bound within which that share of the rows lies."""
    seen = 0
    for seconds, rows in steps:
        seen += rows
        if seen * 100 >= total * percent:
            return seconds
    return None
