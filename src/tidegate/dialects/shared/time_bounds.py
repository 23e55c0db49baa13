"""Converts an instant before which nothing is written any more to the inclusive bound of a time column.

Pure: the current time is passed in.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from tidegate.core.bounds import Clock
from tidegate.core.changes import SafeBound
from tidegate.core.schema import Column, Kind, Type
from tidegate.errors import ConfigError, EdgeUnknown

TICK = timedelta(microseconds=1)
EARLIEST_DAY = timedelta(hours=14)
"""The zone of Kiribati, where each day begins first."""
TIMES = frozenset({Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ})


REACH = timedelta(hours=26)  # two offsets of one zone are never further apart than from -12 to +14 hours
STEP = timedelta(minutes=15)


def must_be_time(column: str, kind: Type) -> None:
    if kind.kind not in TIMES:
        raise ConfigError(
            f"column {column!r} is {kind}, and a watermark needs a date or a timestamp",
            hint="Name another column, or use `strategy: {kind: sequence}` for an increasing number.",
            column=column,
        )


def must_be_alike(columns: Sequence[Column]) -> None:
    """Refuses columns of one cursor that keep their values differently.

    A value of a coarser column may lie before the moment at which it was written, so below what the bound and the
    position of a finer one say; and the digits of a finer one would not fit a position of a coarser one.

    Raises:
        ConfigError: they differ in their type, or in its digits.
    """
    if len({(column.type, (column.native or "").lower()) for column in columns}) > 1:
        types = " and ".join(f"{column.name!r} is {column.label}" for column in columns)
        raise ConfigError(
            f"the columns of one cursor must have one type with the same digits, and {types}",
            hint="Cast both to the coarser of these types in a `query:`, or state one type for them in "
            "`source: {columns: …}`; or use a `fallback` of the same type.",
            column=columns[-1].name,
        )


def must_be_vouched_for(column: Column, clock: Clock, unknown: str, *, longest: str = "write") -> None:
    """Refuses a bound by the clock of a database that does not show who is still writing.

    Args:
        unknown: what it does not show, up to "no bound for … is safe".
        longest: what a `safety_lag` has to outlast.

    Raises:
        ConfigError: no watermark can follow the column.
        EdgeUnknown: nobody vouches for it with `clock: application`.
    """
    must_be_time(column.name, column.type)
    if clock is Clock.DATABASE:
        raise EdgeUnknown(
            f"{unknown} no bound for {column.name!r} is safe",
            hint="Load with `strategy: {kind: full}` or `{kind: checksum}`, or set `clock: application` with a "
            f"`safety_lag` longer than the longest {longest} and a `lookback`.",
        )


def inclusive(instant: datetime, lag: timedelta, kind: Type, time_zone: str) -> str | None:
    """The greatest value strictly before an instant less the lag, as canonical text of the column's type.

    None where there is no such time, so that no value lies below the bound.

    Example:
        >>> from tidegate.core.schema import DATE
        >>> noon = datetime(2025, 1, 2, 12, tzinfo=UTC)
        >>> inclusive(noon, timedelta(0), DATE, "UTC"), inclusive(noon, timedelta(days=800_000), DATE, "UTC")
        ('2025-01-01', None)
    """
    where = zone(time_zone)
    try:
        before = instant - lag
        if kind.kind is Kind.TIMESTAMPTZ:
            return canonical(before.astimezone(UTC) - TICK)
        local = earliest_local(before, where)
        if kind.kind is Kind.DATE:
            # The day of the bound is not over.
            return (local.date() - timedelta(days=1)).isoformat()
        return canonical(local - TICK)
    except OverflowError:
        return None


def in_utc(instant: datetime, lag: timedelta, kind: Type, time_zone: str | None) -> str | None:
    """The inclusive bound if the column were written in UTC; None where its zone is sure, or stated."""
    return inclusive(instant, lag, kind, "UTC") if kind.kind is Kind.TIMESTAMP and time_zone is None else None


def latest(now: datetime, kind: Type, time_zone: str | None) -> str:
    """The greatest value that a clock may show at that moment, as canonical text of the column's type.

    Args:
        time_zone: of a column without one; of None the zone in which it is latest.

    Example:
        >>> from tidegate.core.schema import DATE, TIMESTAMP
        >>> noon = datetime(2025, 1, 2, 12, tzinfo=UTC)
        >>> latest(noon, DATE, None), latest(noon, TIMESTAMP, "Asia/Tokyo")
        ('2025-01-03', '2025-01-02 21:00:00.000000')
    """
    if kind.kind is Kind.TIMESTAMPTZ:
        return canonical(now.astimezone(UTC))
    local = now.astimezone(zone(time_zone) if time_zone else timezone(EARLIEST_DAY))
    return local.date().isoformat() if kind.kind is Kind.DATE else canonical(local)


def writers_zone(column: Column, time_zone: str | None, product: str) -> str:
    """The zone in which the values of a column are written, of a database that does not know it.

    Raises:
        ConfigError: the column has none, and the project states none.
    """
    if column.type.kind is Kind.TIMESTAMPTZ:
        return "UTC"
    if time_zone is None:
        raise ConfigError(
            f"column {column.name!r} has no time zone, and {product} does not know which one it was written in",
            hint="Set `strategy: {time_zone: UTC}`, or the zone that the writers use.",
        )
    return time_zone


def vouched(now: str, lag: timedelta, kind: Type, time_zone: str) -> SafeBound:
    """The bound of a project with `clock: application`: the database's time less the lag.

    Args:
        now: in UTC, in ISO 8601 without a zone.
    """
    return SafeBound(upto=inclusive(datetime.fromisoformat(now).replace(tzinfo=UTC), lag, kind, time_zone))


def lowered(text: str, by: timedelta, kind: Type) -> str | None:
    """The value that lies this much below another, both canonical texts; None when there is no such time.

    Example:
        >>> from tidegate.core.schema import DATE, TIMESTAMP
        >>> lowered("2025-01-02", timedelta(hours=1), DATE)
        '2025-01-01'
        >>> lowered("2025-01-02 00:00:00.000000", timedelta(hours=1), TIMESTAMP)
        '2025-01-01 23:00:00.000000'
    """
    try:
        if kind.kind is Kind.DATE:
            return (date.fromisoformat(text) - timedelta(days=-(-by // timedelta(days=1)))).isoformat()
        return canonical(datetime.fromisoformat(text) - by)
    except OverflowError:
        return None


def canonical(moment: datetime) -> str:
    """The canonical text of a timestamp; its zone, if any, is dropped."""
    return moment.replace(tzinfo=None).isoformat(" ", "microseconds")


def zone(name: str) -> ZoneInfo:
    """The time zone of that name. Raises ConfigError: the system's time zone data has no such name."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ConfigError(
            f"{name!r} is not a known time zone", hint="Set `strategy: {time_zone: Europe/Oslo}` or similar."
        ) from error


def earliest_local(instant: datetime, where: ZoneInfo) -> datetime:
    """The least local time of all instants from this one on, without zone.

    Local time goes back when daylight saving ends, so what is written later may carry an earlier time.

    Example:
        >>> earliest_local(datetime(2025, 11, 2, 5, 30, tzinfo=UTC), ZoneInfo("America/New_York"))
        datetime.datetime(2025, 11, 2, 1, 0)
    """
    instant = instant.astimezone(UTC)
    least = _local(instant, where)
    before = instant
    while before < instant + REACH:
        after = before + STEP
        if _offset(after, where) < _offset(before, where):
            least = min(least, _local(_change(before, after, where), where))
        before = after
    return least


def _change(before: datetime, after: datetime, where: ZoneInfo) -> datetime:
    """The first instant of the later offset, to the second."""
    old = _offset(before, where)
    before, after = (moment.replace(microsecond=0) for moment in (before, after))
    while after - before > timedelta(seconds=1):
        middle = (before + (after - before) / 2).replace(microsecond=0)
        if _offset(middle, where) == old:
            before = middle
        else:
            after = middle
    return after


def _local(instant: datetime, where: ZoneInfo) -> datetime:
    return instant.astimezone(where).replace(tzinfo=None, fold=0)


def _offset(instant: datetime, where: ZoneInfo) -> timedelta:
    return instant.astimezone(where).utcoffset() or timedelta(0)
