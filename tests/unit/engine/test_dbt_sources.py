"""The freshness of sources of dbt, by schedule."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tidegate.core.policies.schedule import Schedule
from tidegate.engine.export.dbt import freshness


@pytest.mark.parametrize(
    ("schedule", "warn", "error"),
    [
        (Schedule(every=timedelta(minutes=10)), 35, 45),
        (Schedule(every=timedelta(seconds=90)), 18, 20),
        (Schedule(cron="0 * * * *"), 135, 195),
        # From Friday to Monday nothing is late.
        (Schedule(cron="0 6 * * 1-5"), 2 * 3 * 24 * 60 + 15, 3 * 3 * 24 * 60 + 15),
        (Schedule(cron="0 0 1 * *"), 2 * 31 * 24 * 60 + 15, 3 * 31 * 24 * 60 + 15),
    ],
)
def test_late_after_a_missed_turn_and_an_error_after_two(schedule, warn, error):
    found = freshness(schedule, timedelta(minutes=15))
    assert found == {
        "warn_after": {"count": warn, "period": "minute"},
        "error_after": {"count": error, "period": "minute"},
    }
