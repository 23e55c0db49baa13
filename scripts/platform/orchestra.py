"""What Dagster knows of the assets, read from its instance."""

from __future__ import annotations

import time
from collections.abc import Mapping

from dagster import AssetKey, DagsterInstance, DagsterRunStatus, RunsFilter
from dagster._core.scheduler.instigation import TickStatus
from telling import StepFailed, Teller

ASSETS = ("garages", "readings", "availability", "occupancy_by_hour", "forecast_by_weekday")
AT_WORK = (
    DagsterRunStatus.QUEUED,
    DagsterRunStatus.NOT_STARTED,
    DagsterRunStatus.STARTING,
    DagsterRunStatus.STARTED,
    DagsterRunStatus.CANCELING,
)


def events(instance: DagsterInstance) -> Mapping[str, tuple[int, int]]:
    """Materializations and observations of each asset so far."""
    return {
        name: (
            len(instance.fetch_materializations(AssetKey(name), limit=500).records),
            len(instance.fetch_observations(AssetKey(name), limit=500).records),
        )
        for name in ASSETS
    }


def built(before: Mapping[str, tuple[int, int]], after: Mapping[str, tuple[int, int]]) -> set[str]:
    """The assets that were materialized in between."""
    return {name for name in ASSETS if after[name][0] > before[name][0]}


def evaluations(instance: DagsterInstance, since: float) -> int:
    """How often the sensor of the marts has looked at what happened, since a time."""
    for state in instance.all_instigator_state():
        if state.instigator_name == "marts_follow":
            ticks = instance.get_ticks(state.instigator_origin_id, state.selector_id, limit=50)
            return sum(each.timestamp > since and each.status is not TickStatus.STARTED for each in ticks)
    return 0


def settle(teller: Teller, instance: DagsterInstance) -> None:
    """Waits until the sensor has looked at what happened, and at what was built then, and no run is at work.

    Raises:
        StepFailed: a run of Dagster failed meanwhile.
    """
    begun, known = time.time(), failed(instance)
    teller.until("quiet in Dagster", lambda: evaluations(instance, begun) and not at_work(instance))
    begun = time.time()  # what was built may ask for more
    teller.until("quiet in Dagster", lambda: evaluations(instance, begun) and not at_work(instance))
    if fresh := failed(instance) - known:
        raise StepFailed(f"runs of Dagster failed: {', '.join(sorted(fresh))}")


def at_work(instance: DagsterInstance) -> bool:
    """Whether a run is queued or runs."""
    return bool(instance.get_runs(RunsFilter(statuses=list(AT_WORK)), limit=1))


def failed(instance: DagsterInstance) -> set[str]:
    """The runs that failed."""
    return {run.run_id for run in instance.get_runs(RunsFilter(statuses=[DagsterRunStatus.FAILURE]))}


def tell(teller: Teller, before: Mapping[str, tuple[int, int]], after: Mapping[str, tuple[int, int]]) -> None:
    """What happened to each asset."""
    for name in ASSETS:
        made, seen = (now - was for now, was in zip(after[name], before[name], strict=True))
        what = "materialized" if made else "observed: nothing to load" if seen else "left alone"
        teller.say(f"  {name:<22}{what}")
