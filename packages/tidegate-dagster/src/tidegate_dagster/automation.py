"""Schedules of Dagster from the `schedule:` of streams."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path

from dagster import (
    AssetKey,
    AssetSelection,
    DefaultScheduleStatus,
    DefaultSensorStatus,
    RunRequest,
    ScheduleDefinition,
    ScheduleEvaluationContext,
    SensorDefinition,
    SensorEvaluationContext,
    SkipReason,
)

from tidegate.core.policies.schedule import Schedule
from tidegate_dagster.project import TidegateProject
from tidegate_dagster.translator import TidegateTranslator


def build_tidegate_schedules(
    project: TidegateProject | Path | str,
    *,
    translator: TidegateTranslator | None = None,
    prefix: str = "tidegate",
    running: bool = False,
) -> Sequence[ScheduleDefinition | SensorDefinition]:
    """One schedule for each different `schedule:` of the streams that are meant; those without one have none.

    `cron:` is a schedule in UTC. So is `every:` if it divides an hour or a day; any other is a sensor that asks for a
    run at that interval. Streams whose schedule was paused by `tidegate pause` are left out of the runs.

    Args:
        prefix: of the names, to tell projects apart.
        running: whether they are on as soon as they are loaded; otherwise somebody switches them on.
    """
    place, translator = TidegateProject.of(project), translator or TidegateTranslator()
    together: dict[str | timedelta, dict[str, AssetKey]] = {}
    for props in place.streams():
        schedule = props.stream.policies.schedule
        if schedule is not None:
            key = translator.get_asset_spec(props).key
            together.setdefault(_time(schedule), {})[props.stream.uid] = key
    return [_scheduled(place, time, keys, prefix, running=running) for time, keys in together.items()]


def _time(schedule: Schedule) -> str | timedelta:
    """A cron, or an interval that none expresses; the same for `every: 1h` and the cron of every full hour."""
    every = schedule.every or timedelta()
    return schedule.cron or cron_of(every) or every


def cron_of(every: timedelta) -> str | None:
    """The cron that means the same; None where none does, such as for 7 minutes or 90 minutes.

    Example:
        >>> cron_of(timedelta(minutes=5)), cron_of(timedelta(hours=6)), cron_of(timedelta(minutes=7))
        ('*/5 * * * *', '0 */6 * * *', None)
    """
    minutes, rest = divmod(every, timedelta(minutes=1))
    if rest or not minutes:
        return None
    if minutes < 60 and 60 % minutes == 0:
        return f"*/{minutes} * * * *" if minutes > 1 else "* * * * *"
    hours, rest_minutes = divmod(minutes, 60)
    if rest_minutes or hours > 24 or 24 % hours:
        return None
    return {1: "0 * * * *", 24: "0 0 * * *"}.get(hours, f"0 */{hours} * * *")


def _scheduled(
    place: TidegateProject, time: str | timedelta, keys: Mapping[str, AssetKey], prefix: str, *, running: bool
) -> ScheduleDefinition | SensorDefinition:
    selection = AssetSelection.assets(*keys.values())

    def due(_context: ScheduleEvaluationContext | SensorEvaluationContext) -> RunRequest | SkipReason:
        with place.open() as project:
            paused = {each.uid for each in project.registry.status() if each.paused_at is not None}
        due_keys = [key for uid, key in keys.items() if uid not in paused]
        return (
            RunRequest(asset_selection=due_keys) if due_keys else SkipReason("the schedule of every stream is paused")
        )

    if isinstance(time, str):
        return ScheduleDefinition(
            name=f"{prefix}_{_slug(time)}",
            cron_schedule=time,
            execution_timezone="UTC",
            target=selection,
            execution_fn=due,
            default_status=DefaultScheduleStatus.RUNNING if running else DefaultScheduleStatus.STOPPED,
        )
    seconds = int(time.total_seconds())
    return SensorDefinition(
        name=f"{prefix}_every_{seconds}s",
        asset_selection=selection,
        evaluation_fn=due,
        minimum_interval_seconds=seconds,
        default_status=DefaultSensorStatus.RUNNING if running else DefaultSensorStatus.STOPPED,
    )


def _slug(cron: str) -> str:
    """A name for a cron, another one for every other cron.

    Example:
        >>> _slug("*/5 * * * 1-5"), _slug("0 4 * * *")
        ('cron_xs5_x_x_x_1t5', 'cron_0_4_x_x_x')
    """
    letters = cron.translate(str.maketrans("*/-,#", "xstcn"))
    return "cron_" + re.sub(r"\W+", "_", letters)
