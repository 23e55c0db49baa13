"""The safe bound of a timestamp without time zone: the earliest local time that can still be written.

Pure: the current time is passed in.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from tidegate.errors import ConfigError

REACH = timedelta(hours=26)  # two offsets of one zone are never further apart than from -12 to +14 hours
STEP = timedelta(minutes=15)


def zone(name: str) -> ZoneInfo:
    """The time zone of that name.

    Raises:
        ConfigError: the system's time zone data has no such name.
    """
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
