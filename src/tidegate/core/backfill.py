"""Splits a range of a cursor into chunks, and describes the progress of a backfill.

Pure: never reads rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from datetime import date, datetime, timedelta
from enum import StrEnum
from typing import Any

from tidegate.core.display import Shown
from tidegate.core.schema import Kind

EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - the texts that are counted have no zone
MICROSECOND = timedelta(microseconds=1)
MOST_CHUNKS = 10_000
LEAST_INTEGER = -(2**63)


class Progress(StrEnum):
    """How far a backfill or one of its chunks is."""

    WAITING = "WAITING"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    DONE = "DONE"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


OPEN = (Progress.RUNNING, Progress.PAUSED, Progress.FAILED)
"""Of a backfill that is neither done nor cancelled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """One part of a backfill.

    Args:
        after, upto: exclusive and inclusive bound of the cursor, canonical texts; nothing is below the least value.
        rows: at the source, when the chunk was planned; then those that were read.
    """

    number: int
    after: str | None
    upto: str
    rows: int
    status: Progress = Progress.WAITING
    attempts: int = 0
    seconds: float = 0.0
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Backfill(Shown):
    """One backfill of a stream, as the registry keeps it.

    Args:
        begin, end: the range as it was asked for: `begin` belongs to it, `end` does not.
        parallel: chunks that are read side by side and committed together.
        rate: rows a second that are read of the source at most, on average; None for no limit.
        chunks: as they were planned.
    """

    backfill_id: int
    stream: str
    begin: str
    end: str
    parallel: int
    rate: int | None
    status: Progress
    chunks: tuple[Chunk, ...]
    created_at: datetime

    @property
    def waiting(self) -> tuple[Chunk, ...]:
        """The chunks that are still to be loaded, those that failed not among them."""
        return tuple(chunk for chunk in self.chunks if chunk.status in (Progress.WAITING, Progress.RUNNING))

    @property
    def rows_done(self) -> int:
        return sum(chunk.rows for chunk in self.chunks if chunk.status is Progress.DONE)

    @property
    def seconds_left(self) -> float | None:
        """How long the rest takes at the pace so far; None before anything was loaded."""
        spent = sum(chunk.seconds for chunk in self.chunks if chunk.status is Progress.DONE)
        left = sum(chunk.rows for chunk in self.waiting)
        return round(spent * left / self.rows_done, 1) if self.rows_done else None

    def to_dict(self) -> dict[str, Any]:
        """JSON types only."""
        counted = {status: sum(1 for chunk in self.chunks if chunk.status is status) for status in Progress}
        return {
            **asdict(replace(self, chunks=())),
            "created_at": self.created_at.isoformat(),
            "chunks": [asdict(chunk) for chunk in self.chunks],
            "chunks_total": len(self.chunks),
            "chunks_done": counted[Progress.DONE],
            "chunks_failed": counted[Progress.FAILED],
            "rows_done": self.rows_done,
            "rows_total": sum(chunk.rows for chunk in self.chunks),
            "seconds_left": self.seconds_left,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The values of a cursor as integers (numbers, days or microseconds), so that a range can be split.

    Example:
        >>> Scale(kind=Kind.DATE).text(Scale(kind=Kind.DATE).number("2025-01-31") + 1)
        '2025-02-01'
    """

    kind: Kind

    def number(self, text: str) -> int:
        """Of a canonical text; of a day, where the cursor has a time, its beginning."""
        if self.kind is Kind.INTEGER:
            return int(text)
        if self.kind is Kind.DATE:
            return date.fromisoformat(text[:10]).toordinal()
        return (datetime.fromisoformat(text) - EPOCH) // MICROSECOND

    def text(self, number: int) -> str:
        if self.kind is Kind.INTEGER:
            return str(number)
        if self.kind is Kind.DATE:
            return date.fromordinal(number).isoformat()
        return (EPOCH + number * MICROSECOND).isoformat(" ", "microseconds")

    def below(self, number: int) -> str | None:
        """The canonical text of the number before it; None where no value is less.

        Example:
            >>> Scale(kind=Kind.DATE).below(2), Scale(kind=Kind.DATE).below(1)
            ('0001-01-01', None)
        """
        if self.kind is Kind.INTEGER and number <= LEAST_INTEGER:
            return None
        try:
            return self.text(number - 1)
        except (OverflowError, ValueError):
            return None

    def width(self, length: timedelta) -> int:
        """How many numbers a duration spans, at least one."""
        return max(1, -(-length // timedelta(days=1)) if self.kind is Kind.DATE else length // MICROSECOND)


def cut_evenly(low: int, high: int, width: int) -> Iterator[tuple[int, int]]:
    """Splits the range from `low` to `high`, both inclusive, into parts of that width.

    Example:
        >>> list(cut_evenly(1, 7, 3))
        [(1, 3), (4, 6), (7, 7)]
    """
    for start in range(low, high + 1, width):
        yield start, min(start + width - 1, high)


def cut_by_rows(low: int, high: int, most: int, rows_of: Callable[[int, int], int]) -> Iterator[tuple[int, int, int]]:
    """Parts with at most that many rows, unless a single value has more; parts without rows are left out.

    Example:
        >>> list(cut_by_rows(0, 99, 10, lambda low, high: sum(1 for n in range(low, high + 1) if n >= 80)))
        [(75, 87, 8), (88, 93, 6), (94, 99, 6)]
    """
    rows = rows_of(low, high)
    if not rows:
        return
    if rows <= most or low == high:
        yield low, high, rows
        return
    middle = (low + high) // 2
    yield from cut_by_rows(low, middle, most, rows_of)
    yield from cut_by_rows(middle + 1, high, most, rows_of)
