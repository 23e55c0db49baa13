"""What is known of the parts of a table, by day or hour: a calendar where parts are times, else one mark a part."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from tidegate.core.bounds import forward
from tidegate.core.intervals import Interval, Intervals, IntervalState

DAYS = 371
"""Of one calendar: 53 weeks, as many as a year can touch."""
HOUR_DAYS = 31
WORST = (IntervalState.FAILED, IntervalState.STALE, IntervalState.UNVERIFIED, IntervalState.DONE, IntervalState.EMPTY)
"""A day of several states is shown as the worst of them."""
TEXT: Mapping[IntervalState, str] = {
    IntervalState.DONE: "proven",
    IntervalState.UNVERIFIED: "unverified",
    IntervalState.STALE: "stale",
    IntervalState.FAILED: "missing",
    IntervalState.EMPTY: "no rows at the source",
}
NULLS = "~N"
DAY, TICK = timedelta(days=1), timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A partition of a table.

    Args:
        label: as tasks have it.
    """

    label: str
    known: IntervalState
    rows: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One square: a day or an hour.

    Args:
        label: for people, with its state.
    """

    at: datetime
    known: IntervalState
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Calendar:
    """Squares of days, or of hours.

    Args:
        first, last: the days that it spans.
        hourly: a square is an hour.
        earlier: there is more before the first day; `later` after the last.
    """

    cells: tuple[Cell, ...]
    first: date
    last: date
    hourly: bool = False
    earlier: bool = False
    later: bool = False


def of_intervals(found: Intervals, until: date | None = None) -> Calendar | None:
    """The days of an interval ledger; None where its cursor is no time.

    Args:
        until: the last day that is shown; the last one that is known unless given.
    """
    spans = [_span(part) for part in (*found.parts, *found.gaps)]
    known = [span for span in spans if span is not None]
    if not spans or len(known) < len(spans):
        return None
    ends = [end for _, end, _ in known]
    starts = [start for start, _, _ in known if start is not None]
    newest, oldest = (max(ends) - TICK).date(), min([*starts, *ends]).date()
    last = min(until or newest, newest)
    first = date.fromordinal(max(last.toordinal() - DAYS + 1, 1))
    days: dict[date, tuple[IntervalState, str]] = {}
    for start, end, part in known:
        low = max(first, start.date()) if start is not None else first
        high = min(last, (end - TICK).date())
        for number in range((high - low).days + 1):
            day = low + DAY * number
            other = days.get(day)
            if other is None or WORST.index(part.known) < WORST.index(other[0]):
                days[day] = (part.known, _rows(part.rows) if low == high else "")
    times = {datetime.combine(day, datetime.min.time()): each for day, each in days.items()}
    return _calendar(times, (oldest, newest), last)


def of_parts(found: Sequence[Part], period: str, until: date | None = None) -> Calendar | None:
    """The days of partitions that are days or longer, or the hours of partitions that are hours; None without any."""
    times: dict[datetime, tuple[IntervalState, str]] = {}
    for part in found:
        start = _start(part.label) if part.label != NULLS else None
        if start is not None:
            named = "" if period in ("hour", "day") else f", partition {part.label}"
            times |= dict.fromkeys(_times(start, period), (part.known, f"{named}{_rows(part.rows)}"))
    if not times:
        return None
    newest = max(times).date()
    ends = (min(times).date(), newest)
    return _calendar(times, ends, min(until or newest, newest), hourly=period == "hour")


def counted(states: Iterable[IntervalState]) -> str:
    """How many are in which state, for those who cannot see it.

    Example:
        >>> counted([IntervalState.DONE, IntervalState.STALE, IntervalState.DONE])
        '2 proven, 1 stale'
    """
    states = list(states)
    numbers = [(TEXT[each], states.count(each)) for each in (IntervalState.DONE, *WORST[:3][::-1], IntervalState.EMPTY)]
    return ", ".join(f"{number:,} {text}" for text, number in numbers if number)


def _calendar(
    times: Mapping[datetime, tuple[IntervalState, str]], ends: tuple[date, date], last: date, *, hourly: bool = False
) -> Calendar:
    """The squares up to a day.

    Args:
        ends: the first and the last day of which something is known.
    """
    first = date.fromordinal(max(last.toordinal() - (HOUR_DAYS if hourly else DAYS) + 1, 1))
    shown = "{:%Y-%m-%d %H:00}" if hourly else "{:%Y-%m-%d}"
    cells = tuple(
        Cell(at=at, known=known, label=f"{shown.format(at)}: {TEXT[known]}{more}")
        for at, (known, more) in sorted(times.items())
        if first <= at.date() <= last
    )
    begin = min((cell.at.date() for cell in cells), default=last)
    return Calendar(cells=cells, first=begin, last=last, hourly=hourly, earlier=ends[0] < first, later=last < ends[1])


def _span(part: Interval) -> tuple[datetime | None, datetime, Interval] | None:
    """Its first moment and the first one after it; of a cursor of dates both bounds are whole days."""
    after, upto = _time(part.after), _time(part.upto)
    if upto is None or (part.after is not None and after is None):
        return None
    whole = DAY if len(part.upto) == len("2025-01-31") else timedelta(0)
    try:
        return (after + whole if after is not None else None), upto + whole, part
    except OverflowError:
        return None


def _time(text: str | None) -> datetime | None:
    if text is None or not re.match(r"\d{4}-\d\d-\d\d", text):
        return None
    try:
        return datetime.fromisoformat(text).replace(tzinfo=None)
    except ValueError:
        return None


def _start(label: str) -> datetime | None:
    """The beginning of a partition of time by its label, see `core.grouping`."""
    found = re.fullmatch(r"(\d{4})(?:Q([1-4])|(\d\d)(\d\d)?(\d\d)?)?", label)
    if found is None:
        return None
    year, quarter, month, day, hour = found.groups()
    try:
        return datetime(int(year), int(quarter) * 3 - 2 if quarter else int(month or 1), int(day or 1), int(hour or 0))  # noqa: DTZ001
    except ValueError:
        return None


def _times(start: datetime, period: str) -> list[datetime]:
    """The squares of a partition: itself, or its days."""
    months: dict[str, int] = {"month": 1, "quarter": 3, "year": 12}
    if period == "week":
        last = forward(start, DAY * 6)
    elif period in months:
        before = start.month - 2 + months[period]
        year, month = start.year + before // 12, before % 12 + 1
        last = start.replace(year=year, month=month, day=monthrange(year, month)[1])
    else:
        last = start
    return [start + DAY * number for number in range((last - start).days + 1)]


def _rows(rows: int | None) -> str:
    return "" if rows is None else f", {rows:,} rows"
