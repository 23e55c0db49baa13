"""The `schedule:` of a stream: when it is due, by interval or cron, with back-off after errors.

Pure: the current time is passed in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tidegate.core.bounds import forward
from tidegate.core.display import short_duration

SHORTEST = timedelta(seconds=1)
FIRST_PAUSE = timedelta(seconds=10)
LONGEST_PAUSE = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """When `tidegate watch` runs a stream; the `schedule:` of a stream.

    Args:
        every: the time from the start of one run to the start of the next; after a longer run the next one starts at
            once.
        cron: five fields in UTC, such as `*/5 * * * *`; times that pass while the stream runs, or while nobody watches,
            count once.
    """

    every: timedelta | None = None
    cron: str | None = None

    def __post_init__(self) -> None:
        if (self.every is None) == (self.cron is None):
            raise ValueError("needs exactly one of `every:` and `cron:`")
        if self.every is not None and self.every < SHORTEST:
            raise ValueError("every must be 1s or more")
        if self.cron is not None:
            from cronsim import CronSim, CronSimError  # noqa: PLC0415 - few streams have a cron

            try:
                CronSim(self.cron, datetime(2025, 1, 1))  # noqa: DTZ001 - only its form is looked at
            except CronSimError as error:
                raise ValueError(
                    f"cron {self.cron!r}: {str(error).lower()}; use five fields, such as */5 * * * *"
                ) from error

    def __str__(self) -> str:
        return self.cron or f"every {short_duration(self.every or timedelta())}"

    def first(self, now: datetime, began: datetime | None = None) -> datetime:
        """When the first run is due of a watch that begins now: at once, or at the next time of the cron.

        Args:
            began: when the last run did; the next time of the cron is the first one after it, which may have passed.
        """
        return now if self.cron is None else self._next(min(began or now, now))

    def after(self, began: datetime, now: datetime) -> datetime:
        """When the next run is due after one that began then and has ended now: at once if its time has passed.

        One that began after now did so before the clock was set back; the next one is counted from now.
        """
        began = min(began, now)
        return max(forward(began, self.every) if self.every is not None else self._next(began), now)

    def due_at(self, began: datetime | None, known: datetime, now: datetime) -> datetime:
        """When a stream is due whose last run began then, or that has never run and is known since then.

        Times after now are of before the clock was set back, and count as now.
        """
        if began is None:
            return self.first(min(known, now))
        return self.after(min(began, now), min(began, now))

    def _next(self, now: datetime) -> datetime:
        from cronsim import CronSim  # noqa: PLC0415 - as above

        return next(CronSim(self.cron or "", now))


@dataclass(slots=True, kw_only=True)
class ScheduledStream:
    """A stream on the agenda.

    Args:
        planned_at: when `due_at` was set.
        began_at: when its run did; None of one that waits.
        failures: since its last run that ended well.
    """

    schedule: Schedule
    due_at: datetime
    planned_at: datetime
    began_at: datetime | None = None
    failures: int = 0

    def plan(self, began: datetime, now: datetime) -> None:
        """Sets when it is due again after a run that began then, with the pause that its failures ask for."""
        self.due_at, self.planned_at = self.schedule.after(began, now), now
        if self.failures:
            pause = min(FIRST_PAUSE * 2 ** min(self.failures - 1, 20), LONGEST_PAUSE)
            self.due_at = max(self.due_at, now + pause)

    def set_back(self, now: datetime) -> None:
        """The clock was, to now: what was due still is, and no wait that was counted from a later time goes on."""
        if self.due_at <= self.planned_at:
            self.due_at = self.planned_at = now
        else:
            self.plan(now, now)


@dataclass(slots=True, kw_only=True)
class Agenda:
    """When each stream is due, and which ones are running; a stream never runs twice at a time.

    Example:
        >>> now = datetime(2025, 1, 1)
        >>> agenda = Agenda.of({"orders": Schedule(every=timedelta(minutes=5))}, now)
        >>> agenda.take(now), agenda.take(now)
        (['orders'], [])
    """

    turns: dict[str, ScheduledStream] = field(default_factory=dict)

    @classmethod
    def of(
        cls, schedules: Mapping[str, Schedule], now: datetime, began: Mapping[str, datetime] | None = None
    ) -> Agenda:
        """The agenda of a watch that begins now.

        Args:
            began: when the last run of each stream did; those that never ran are left out.
        """
        last = began or {}
        turns = {
            name: ScheduledStream(schedule=each, due_at=each.first(now, last.get(name)), planned_at=now)
            for name, each in schedules.items()
        }
        return cls(turns=turns)

    def take(self, now: datetime) -> list[str]:
        """Takes the streams that are due, longest overdue first; they count as running from now on."""
        for turn in self.turns.values():
            if turn.began_at is None and now < turn.planned_at:
                turn.set_back(now)
        due = [name for name, turn in self.turns.items() if turn.began_at is None and turn.due_at <= now]
        due.sort(key=lambda name: self.turns[name].due_at)
        for name in due:
            self.turns[name].began_at = now
        return due

    def ended(self, name: str, now: datetime, *, well: bool, began: datetime | None = None) -> datetime:
        """When the stream, whose run has ended now, is due again.

        After errors the pause doubles from ten seconds up to an hour, and is never shorter than the schedule's.

        Args:
            began: when the run did, if it had to wait for a place; else when it was taken.
        """
        turn = self.turns[name]
        turn.failures = 0 if well else turn.failures + 1
        turn.plan(began or turn.began_at or now, now)
        turn.began_at = None
        return turn.due_at

    def next_due(self) -> datetime | None:
        """When the next stream that is not running is due; None if all are running."""
        return min((turn.due_at for turn in self.turns.values() if turn.began_at is None), default=None)
