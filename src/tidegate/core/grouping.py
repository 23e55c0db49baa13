"""How rows are grouped into partitions: the whole table, or steps, ranges, periods or prefixes of a column.

Used by strategies and verification, translated to SQL by dialects.

A bucket is the canonical text that SQL groups by, or None for rows whose column is NULL. Every partition is an interval
or a prefix of one column, so that indexes, partitioned tables and file statistics can find its rows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from enum import StrEnum
from math import gcd
from typing import Any

from tidegate.core.schema import Column, Kind
from tidegate.core.slices import Everything, Partition, Slice
from tidegate.errors import InternalError

NULL_LABEL = "~N"
LARGEST = 2**63 - 1
DAY = re.compile(r"\d{4}-\d\d-\d\d")
BARE = ":00:00.000000"
TIMES = frozenset({Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ})


class Period(StrEnum):
    """The lengths of time that a partition can have; days and hours are UTC's where the column has a zone."""

    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    QUARTER = "quarter"
    YEAR = "year"


CHARACTERS = {Period.YEAR: 4, Period.QUARTER: 7, Period.MONTH: 7, Period.WEEK: 10, Period.DAY: 10, Period.HOUR: 13}
"""How many characters of a canonical text tell the period, or the finer one that it is made of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """Every row in one partition."""

    column: str | None = None

    def coarse(self, bucket: str | None) -> str | None:
        return bucket

    def incompatibility(self, column: Column | None) -> str | None:  # noqa: ARG002 - whole tables have no column
        """Nothing."""
        return None

    def part(self, bucket: str | None, column: Column | None) -> Slice:  # noqa: ARG002 - there is only one
        """Every row."""
        return Everything()

    def bucket(self, label: str) -> str | None:  # noqa: ARG002 - there is only one
        return ""

    def to_dict(self) -> dict[str, Any]:
        """The `checksum_method` of the registry."""
        return {"type": "whole_table"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Rows by `floor(column / width)`; a bucket is the least number of its step.

    SQL writes the multiple of the width that is nearest to zero, and a `-` behind it for a number below that one:
    the least number of the lowest step is none that a database can compute with.

    Example:
        >>> from tidegate.core.schema import BIGINT
        >>> steps = Steps(column="id", width=100)
        >>> steps.coarse("0-"), steps.coarse("-100"), steps.coarse("100")
        ('-100', '-100', '100')
        >>> part = steps.part("-100", Column(name="id", type=BIGINT))
        >>> part.label, part.low, part.high
        ('-1', '-100', '0')
    """

    column: str
    width: int

    def coarse(self, bucket: str | None) -> str | None:
        """The least number of the step, also where no column could hold it."""
        if bucket is None:
            return None
        nearest = int(bucket[:1] + bucket[1:].rstrip("-").partition(".")[0])
        return str(nearest - self.width if bucket.endswith("-") else nearest)

    def incompatibility(self, column: Column) -> str | None:
        """Why the column cannot be stepped through; None when it can."""
        return None if _whole(column) else f"{column.name} is {column.label}, not an integer"

    def part(self, bucket: str | None, column: Column | None) -> Slice:
        """The rows of one step; its bounds are numbers that the column can hold."""
        if bucket is None:
            return Partition(column=self.column, label=NULL_LABEL)
        start = int(bucket)
        least, greatest = _limits(column)
        low, stop = max(start, least), start + self.width
        high = str(stop) if stop <= greatest else None
        return Partition(column=self.column, label=str(start // self.width), low=str(low), high=high)

    def bucket(self, label: str) -> str | None:
        """The bucket of a partition's label."""
        return None if label == NULL_LABEL else str(int(label) * self.width)

    def to_dict(self) -> dict[str, Any]:
        """The `checksum_method` of the registry."""
        return {"type": "by_integer", "column_name": self.column, "modulus": self.width}


@dataclass(frozen=True, slots=True, kw_only=True)
class Periods:
    """Rows by the period that a date or timestamp lies in; a bucket is the beginning of its canonical text.

    Example:
        >>> from tidegate.core.schema import DATE
        >>> quarters = Periods(column="d", period=Period.QUARTER)
        >>> quarters.coarse("2025-05")
        '2025-04'
        >>> part = quarters.part("2025-04", Column(name="d", type=DATE))
        >>> part.label, part.low, part.high
        ('2025Q2', '2025-04-01', '2025-07-01')
    """

    column: str
    period: Period

    def coarse(self, bucket: str | None) -> str | None:
        """Days become their week's Monday, months their quarter's first."""
        if bucket is None:
            return None
        if self.period is Period.WEEK:
            day = date.fromisoformat(bucket)
            return (day - timedelta(days=min(day.weekday(), day.toordinal() - 1))).isoformat()
        if self.period is Period.QUARTER:
            return f"{bucket[:5]}{(int(bucket[5:7]) - 1) // 3 * 3 + 1:02}"
        return bucket

    def incompatibility(self, column: Column) -> str | None:
        """Why the column has no such periods; None when it has."""
        if column.type.kind not in TIMES:
            return f"{column.name} is {column.label}, not a date or a timestamp"
        if self.period is Period.HOUR and column.type.kind is Kind.DATE:
            return f"{column.name} is a date, which has no hours"
        return None

    def part(self, bucket: str | None, column: Column | None) -> Slice:
        """The rows of one period."""
        if bucket is None:
            return Partition(column=self.column, label=NULL_LABEL)
        start = datetime.fromisoformat(f"{bucket}-01-01"[:10] if len(bucket) < 10 else bucket)
        stop = self._after(start)
        low, high = _text(start, column), _text(stop, column) if stop else None
        return Partition(column=self.column, label=self._label(start), low=low, high=high)

    def bucket(self, label: str) -> str | None:
        """The bucket of a partition's label."""
        if label == NULL_LABEL:
            return None
        if self.period is Period.QUARTER:
            return f"{label[:4]}-{int(label[5]) * 3 - 2:02}"
        text = "-".join(filter(None, (label[:4], label[4:6], label[6:8])))
        return f"{text} {label[8:]}" if self.period is Period.HOUR else text

    def to_dict(self) -> dict[str, Any]:
        """The `checksum_method` of the registry."""
        return {"type": "by_date", "column_name": self.column, "period": str(self.period)}

    def start(self, moment: datetime) -> datetime:
        """The beginning of the period that a moment lies in."""
        moment = moment.replace(minute=0, second=0, microsecond=0)
        if self.period is Period.HOUR:
            return moment
        moment = moment.replace(hour=0)
        match self.period:
            case Period.WEEK:
                return moment - timedelta(days=min(moment.weekday(), moment.toordinal() - 1))
            case Period.MONTH:
                return moment.replace(day=1)
            case Period.QUARTER:
                return moment.replace(month=(moment.month - 1) // 3 * 3 + 1, day=1)
            case Period.YEAR:
                return moment.replace(month=1, day=1)
            case _:
                return moment

    def _after(self, start: datetime) -> datetime | None:
        """Where the next period begins; None after the last one that there is."""
        try:
            match self.period:
                case Period.HOUR:
                    return start + timedelta(hours=1)
                case Period.DAY | Period.WEEK:
                    days = 1 if self.period is Period.DAY else 7 - start.weekday()
                    return start + timedelta(days=days)
                case Period.YEAR:
                    return start.replace(year=start.year + 1)
                case _:
                    months = start.month - 1 + (1 if self.period is Period.MONTH else 3)
                    return start.replace(year=start.year + months // 12, month=months % 12 + 1)
        except (OverflowError, ValueError):
            return None

    def _label(self, start: datetime) -> str:
        match self.period:
            case Period.HOUR:
                return f"{start:%Y%m%d%H}".zfill(10)
            case Period.MONTH:
                return f"{start.year:04}{start.month:02}"
            case Period.QUARTER:
                return f"{start.year:04}Q{(start.month - 1) // 3 + 1}"
            case Period.YEAR:
                return f"{start.year:04}"
            case _:
                return f"{start.year:04}{start.month:02}{start.day:02}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefixes:
    """Rows by the first characters of a text; a bucket is those, or the whole of a shorter text.

    Example:
        >>> from tidegate.core.schema import TEXT
        >>> Prefixes(column="code", length=2).part("~a", Column(name="code", type=TEXT)).label
        '~0a'
    """

    column: str
    length: int

    def coarse(self, bucket: str | None) -> str | None:
        return bucket

    def incompatibility(self, column: Column) -> str | None:
        """Why the column has no such prefixes; None when it has."""
        text = column.type.stored.kind is Kind.TEXT
        return None if text else f"{column.name} is {column.label}, not a string"

    def part(self, bucket: str | None, column: Column | None) -> Slice:  # noqa: ARG002 - a prefix needs no type
        """The rows of one prefix."""
        if bucket is None:
            return Partition(column=self.column, label=NULL_LABEL)
        label = bucket.replace("~", "~0")  # as in a row's text, so that no text looks like NULL
        return Partition(column=self.column, label=label, prefix=bucket, length=self.length)

    def bucket(self, label: str) -> str | None:
        """The bucket of a partition's label."""
        return None if label == NULL_LABEL else label.replace("~0", "~")

    def to_dict(self) -> dict[str, Any]:
        """The `checksum_method` of the registry."""
        return {"type": "by_substr", "column_name": self.column, "length": self.length}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranges:
    """Rows by the ranges in which a source keeps its table; a bucket is the least value of its range.

    Every value lies in a range, also one that the source made none for: below the first, above the last, between two.

    Args:
        cuts: where a range begins or ends, as canonical texts in their order.

    Example:
        >>> from tidegate.core.schema import DATE
        >>> ranges = Ranges(column="d", cuts=("2025-01-01", "2025-02-01"))
        >>> column = Column(name="d", type=DATE)
        >>> [(part.label, part.low, part.high) for part in (ranges.part(each, column) for each in ("", *ranges.cuts))]
        [('<2025-01-01', '0001-01-01', '2025-01-01'), ('2025-01-01', '2025-01-01', '2025-02-01'), \
('2025-02-01', '2025-02-01', None)]
    """

    column: str
    cuts: tuple[str, ...]

    @property
    def period(self) -> Period | None:
        """The longest period of which every range is made, whole; None for numbers, and where there is none."""
        days, times = {cut[:10] for cut in self.cuts}, {cut[10:] for cut in self.cuts}
        if not days or not all(DAY.fullmatch(day) for day in days) or not all(each[3:] in {"", BARE} for each in times):
            return None
        if times - {"", f" 00{BARE}"}:
            return Period.HOUR
        ends = ((Period.YEAR, "-01-01"), (Period.MONTH, "-01"), (Period.DAY, ""))
        return next(period for period, end in ends if all(day.endswith(end) for day in days))

    @property
    def step(self) -> int | None:
        """The longest step of numbers of which every range is made, whole; None for times."""
        try:
            return gcd(*map(int, self.cuts)) or None
        except ValueError:
            return None

    def coarse(self, bucket: str | None) -> str | None:
        return bucket

    def incompatibility(self, column: Column) -> str | None:
        """Why no engine but the source's orders the column's values as the ranges are; None when others do."""
        if _whole(column) or column.type.kind in TIMES:
            return None
        return f"{column.name} is {column.label}, not an integer, a date or a timestamp"

    def part(self, bucket: str | None, column: Column | None) -> Slice:
        """The rows of one range; its bounds are values that the column can hold."""
        if bucket is None:
            return Partition(column=self.column, label=NULL_LABEL)
        above = self.cuts.index(bucket) + 1 if bucket else 0
        label = bucket or "".join(("<", *self.cuts[:1]))
        high = self.cuts[above] if above < len(self.cuts) else None
        return Partition(column=self.column, label=label, low=bucket or _least(column), high=high)

    def bucket(self, label: str) -> str | None:
        """The bucket of a partition's label."""
        return None if label == NULL_LABEL else "" if label.startswith("<") else label

    def to_dict(self) -> dict[str, Any]:
        """The `checksum_method` of the registry."""
        return {"type": "by_range", "column_name": self.column, "cuts": list(self.cuts)}


Grouping = Whole | Steps | Ranges | Periods | Prefixes


def grouping_of(method: Mapping[str, Any]) -> Grouping:
    """The inverse of `Grouping.to_dict`.

    Example:
        >>> steps = Steps(column="id", width=10)
        >>> grouping_of(steps.to_dict()) == steps
        True
    """
    match method:
        case {"type": "whole_table"}:
            return Whole()
        case {"type": "by_integer", "column_name": column, "modulus": width}:
            return Steps(column=column, width=width)
        case {"type": "by_date", "column_name": column, "period": period}:
            return Periods(column=column, period=Period(period))
        case {"type": "by_range", "column_name": column, "cuts": cuts}:
            return Ranges(column=column, cuts=tuple(cuts))
        case {"type": "by_substr", "column_name": column, "length": length}:
            return Prefixes(column=column, length=length)
        case _:
            raise InternalError(f"unknown method of partitioning a table: {dict(method)}")


def _whole(column: Column) -> bool:
    return column.type.kind is Kind.INTEGER or (column.type.kind is Kind.DECIMAL and column.type.scale == 0)


def _limits(column: Column | None) -> tuple[int, int]:
    """The least and the greatest whole number of a column's type."""
    if column is not None and column.type.kind is Kind.DECIMAL:
        most = 10**column.type.precision - 1
        return -most, most
    most = 2**31 - 1 if column is not None and column.type.bits == 32 else LARGEST
    return -most - 1, most


def _least(column: Column | None) -> str:
    if column is None or column.type.kind not in TIMES:
        return str(_limits(column)[0])
    return _text(datetime(1, 1, 1), column)  # noqa: DTZ001 - a canonical text has no zone


def _text(moment: datetime, column: Column | None) -> str:
    if column is not None and column.type.kind is Kind.DATE:
        return moment.date().isoformat()
    return moment.isoformat(" ", "microseconds")
