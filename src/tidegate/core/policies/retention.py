"""The `retain:` of a stream: rows older than a rule leave the table, and are no part of what it should hold.

Pure. The position says which rows the table keeps, so that rows and rule change in one commit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, timedelta

from tidegate.core.bounds import back
from tidegate.core.position import Position
from tidegate.core.schema import Column, Kind
from tidegate.core.slices import Partition

SHORTEST = timedelta(days=1)
DATED = frozenset({Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ})
BEGINNING = date(1, 1, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """Which rows a table keeps: those of a day or later, and those whose column is NULL.

    Args:
        begin: the first day, `YYYY-MM-DD`; days of timestamps with a time zone are those of UTC.
    """

    column: str
    begin: str

    @classmethod
    def of(cls, position: Position | None) -> Kept | None:
        """What the position says; None if every row is kept."""
        return cls(**position.retained) if position is not None and position.retained else None

    def to_dict(self) -> Mapping[str, str]:
        """As a position carries it."""
        return asdict(self)

    def inside(self, column: Column) -> Partition:
        """The rows that are kept."""
        return Partition(column=self.column, label=f"from {self.begin}", low=_at(self.begin, column), nulls=True)

    def dropped(self, column: Column) -> Partition:
        """The rows that are not."""
        low, high = _at(BEGINNING.isoformat(), column), _at(self.begin, column)
        return Partition(column=self.column, label=f"before {self.begin}", low=low, high=high)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retain:
    """How long rows stay in the table.

    Args:
        column: a date or a timestamp; rows without one stay.
        keep: rows whose day is longer ago than this, in UTC, are dropped by `tidegate maintain`; at least `1d`.
    """

    column: str
    keep: timedelta

    def __post_init__(self) -> None:
        if self.keep < SHORTEST:
            raise ValueError("keep must be 1d or more: whole days are dropped")

    def at(self, now: datetime) -> Kept:
        """Which rows are kept at that time.

        Example:
            >>> Retain(column="day", keep=timedelta(days=90)).at(datetime(2025, 4, 1, tzinfo=UTC)).begin
            '2025-01-01'
        """
        return Kept(column=self.column, begin=back(now.astimezone(UTC), self.keep).date().isoformat())


def _at(day: str, column: Column) -> str:
    """The beginning of a day as canonical text."""
    return day if column.type.kind is Kind.DATE else f"{day} 00:00:00.000000"
