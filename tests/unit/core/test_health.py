"""The state of a stream against its schedule."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tidegate.core.health import Condition, Health, health
from tidegate.core.outcome import Result
from tidegate.core.policies.schedule import Schedule

ENDED = datetime(2025, 3, 1, 12, 0, tzinfo=UTC)
HOURLY = Condition(schedule=Schedule(every=timedelta(hours=1)), last_success_at=ENDED, last_outcome=Result.LOADED.value)
DAILY = replace(HOURLY, schedule=Schedule(cron="0 6 * * *"))


@pytest.mark.parametrize(
    ("found", "hours", "expected"),
    [
        (HOURLY, 1.9, Health.ON_TIME),
        (HOURLY, 2, Health.DELAYED),
        (HOURLY, 2.9, Health.DELAYED),
        (HOURLY, 3, Health.ERROR),
        (DAILY, 41.9, Health.ON_TIME),
        (DAILY, 42, Health.DELAYED),
        (DAILY, 66, Health.ERROR),
        (replace(HOURLY, schedule=None), 1000, Health.ON_TIME),
    ],
)
def test_the_time_since_the_last_success_decides(found, hours, expected):
    assert health(found, ENDED + timedelta(hours=hours)) is expected


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"last_outcome": "failed"}, Health.ERROR),
        ({"last_outcome": "stopped"}, Health.ACTION_REQUIRED),
        ({"last_outcome": "held"}, Health.ON_TIME),
        ({"last_outcome": "interrupted"}, Health.ON_TIME),
        ({"last_outcome": "failed", "paused": True}, Health.PAUSED),
        ({"last_outcome": "failed", "paused": True, "running": True}, Health.RUNNING),
        ({"last_outcome": None, "last_success_at": None}, Health.DELAYED),
        ({"last_outcome": None, "last_success_at": None, "schedule": None}, Health.ON_TIME),
        ({"last_success_at": ENDED + timedelta(minutes=1)}, Health.ON_TIME),
        ({"last_success_at": ENDED + timedelta(days=1)}, Health.DELAYED),
        ({"last_success_at": ENDED + timedelta(days=1), "schedule": None}, Health.ON_TIME),
        ({"last_success_at": None, "registered_at": ENDED + timedelta(days=1)}, Health.DELAYED),
    ],
)
def test_what_comes_before_the_time(change, expected):
    assert health(replace(HOURLY, **change), ENDED) is expected
