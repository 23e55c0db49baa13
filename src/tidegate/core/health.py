"""The state of a stream against its schedule, as the dashboard, `status` and alerts show it.

Pure: the current time is passed in.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from tidegate.core.outcome import Result
from tidegate.core.policies.schedule import Schedule


class Health(StrEnum):
    """What a person has to know of a stream first."""

    ON_TIME = "on_time"
    DELAYED = "delayed"
    ERROR = "error"
    ACTION_REQUIRED = "action_required"
    RUNNING = "running"
    PAUSED = "paused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """What the health of a stream follows from.

    Args:
        schedule: None where nobody said how often it runs.
        last_success_at: the end of its last run that loaded or found nothing new.
        registered_at: when the registry first heard of it; None of a stream that it does not know.
        last_outcome: of its last run, a value of `Result`; None of one that never ran.
        running: somebody works on it now.
        paused: a person took it off its schedule.
    """

    schedule: Schedule | None = None
    last_success_at: datetime | None = None
    registered_at: datetime | None = None
    last_outcome: str | None = None
    running: bool = False
    paused: bool = False


def health(found: Condition, now: datetime) -> Health:
    """The first that applies of: running, paused, action required, error, delayed; else on time.

    A run that stopped on purpose waits for a person; one that failed is an error. Else the time since the last success
    decides: delayed once a whole turn of the schedule was missed, an error once two were. One that was never loaded is
    due for the first time after it was registered; one that is not registered is delayed, for nobody runs it. So is one
    whose last success lies more than a turn in the future: the clock was set back, and its real age is unknown.
    Nothing is overdue of a stream without a schedule.

    Example:
        >>> from datetime import timedelta
        >>> ended = datetime(2025, 1, 1)
        >>> hourly = Condition(schedule=Schedule(every=timedelta(hours=1)), last_success_at=ended)
        >>> [str(health(hourly, ended + timedelta(hours=hours))) for hours in (1, 2, 3)]
        ['on_time', 'delayed', 'error']
    """
    if found.running:
        return Health.RUNNING
    if found.paused:
        return Health.PAUSED
    if found.last_outcome == Result.STOPPED:
        return Health.ACTION_REQUIRED
    if found.last_outcome == Result.FAILED:
        return Health.ERROR
    missed = _missed(found, now)
    if missed >= 2:
        return Health.ERROR
    return Health.DELAYED if missed else Health.ON_TIME


def late_at(found: Condition, now: datetime) -> datetime | None:
    """When a whole turn of the schedule has passed without a success, in the past or to come.

    None without a schedule, for a stream that was neither loaded nor registered, and for one whose last success lies
    more than a turn in the future, because the clock was set back.
    """
    schedule, success, known = found.schedule, found.last_success_at, found.registered_at
    since = success or known
    if schedule is None or since is None or since > schedule.after(now, now):
        return None
    due = schedule.first(since) if success is None else schedule.after(since, since)
    return schedule.after(due, due)


def _missed(found: Condition, now: datetime) -> int:
    """Whole turns of the schedule that passed without a success, counted up to two."""
    if found.schedule is None:
        return 0
    first = late_at(found, now)
    if first is None:
        return 1
    return int(first <= now) + int(found.schedule.after(first, first) <= now)
