"""The least local time that can still come."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from tidegate.core.schema import BIGINT, DATE, TIMESTAMP, TIMESTAMPTZ
from tidegate.dialects.shared.time_bounds import earliest_local, inclusive, must_be_time, vouched, zone
from tidegate.errors import ConfigError


def brute(instant: datetime, where: ZoneInfo) -> datetime:
    """The least local time of every minute of the next thirty hours, and of this instant."""
    moments = [instant, *(instant.replace(second=0, microsecond=0) + timedelta(minutes=k) for k in range(1, 1800))]
    return min(moment.astimezone(where).replace(tzinfo=None) for moment in moments)


CASES = {
    "America/New_York": datetime(2025, 11, 2, 6, tzinfo=UTC),  # back by an hour
    "Australia/Lord_Howe": datetime(2025, 4, 5, 15, tzinfo=UTC),  # back by half an hour
    "UTC": datetime(2025, 11, 2, 6, tzinfo=UTC),
    "Africa/Casablanca": datetime(2025, 2, 23, 2, tzinfo=UTC),  # back for Ramadan
    "Pacific/Apia": datetime(2011, 12, 30, 10, tzinfo=UTC),  # a day left out
    "Asia/Manila": datetime(1844, 12, 30, 16, tzinfo=UTC),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("minutes", [-1500, -125, -61, -60, -59, -31, -30, -1, 0, 1, 29, 61, 600])
def test_no_later_instant_has_an_earlier_local_time(name: str, minutes: int) -> None:
    where, instant = ZoneInfo(name), CASES[name] + timedelta(minutes=minutes)
    assert earliest_local(instant, where) == brute(instant, where)


def test_local_time_is_held_while_it_may_come_again() -> None:
    where = ZoneInfo("America/New_York")
    assert earliest_local(datetime(2025, 11, 2, 5, 59, tzinfo=UTC), where) == datetime.fromisoformat("2025-11-02 01:00")
    assert earliest_local(datetime(2025, 11, 2, 6, 30, tzinfo=UTC), where) == datetime.fromisoformat("2025-11-02 01:30")


@pytest.mark.parametrize(
    ("kind", "name", "text"),
    [
        (TIMESTAMPTZ, "America/New_York", "2025-07-01 23:59:59.999999"),
        (TIMESTAMP, "America/New_York", "2025-07-01 19:59:59.999999"),
        (TIMESTAMP, "UTC", "2025-07-01 23:59:59.999999"),
        (DATE, "America/New_York", "2025-06-30"),
        (DATE, "UTC", "2025-07-01"),
    ],
)
def test_bound_is_strictly_before_the_instant(kind, name: str, text: str) -> None:
    assert inclusive(datetime(2025, 7, 2, tzinfo=UTC), timedelta(0), kind, name) == text


def test_a_lag_beyond_the_calendar_leaves_no_bound() -> None:
    for kind in (TIMESTAMPTZ, TIMESTAMP, DATE):
        for name in ("UTC", "America/New_York", "Asia/Tokyo"):
            instant = datetime(2025, 7, 2, tzinfo=UTC)
            assert inclusive(instant, timedelta(days=800_000), kind, name) is None
            assert inclusive(instant, timedelta.max, kind, name) is None
            assert inclusive(instant, instant - datetime(1, 1, 3, tzinfo=UTC), kind, name).startswith("0001-01-0")
    assert vouched("2025-07-02T00:00:00", timedelta(days=800_000), DATE, "UTC").upto is None


def test_only_times_have_such_a_bound() -> None:
    with pytest.raises(ConfigError, match="'id' is bigint"):
        must_be_time("id", BIGINT)
    with pytest.raises(ConfigError, match="not a known time zone"):
        zone("../etc/passwd")
