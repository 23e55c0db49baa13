"""Sensors: what has arrived in files, topics or other sources, and the incidents of a project."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dagster import (
    AssetKey,
    AssetObservation,
    AssetSelection,
    DefaultSensorStatus,
    RunRequest,
    SensorDefinition,
    SensorEvaluationContext,
    SensorResult,
    SkipReason,
)

from tidegate import Project
from tidegate.alerts.check import check_alerts
from tidegate.core.incidents import Incident
from tidegate.engine.run import utc_now
from tidegate.results import StreamPlan
from tidegate_dagster.project import TidegateProject
from tidegate_dagster.translator import TidegateTranslator

ARRIVING = ("files", "change_log")
"""The kinds of sources in which something arrives by itself: files, and the logs of topics, slots and files."""
AGAIN = 3600.0
"""Seconds after which a run is asked for once more, if what had arrived is still not loaded."""


def build_arrival_sensor(
    project: TidegateProject | Path | str,
    *,
    translator: TidegateTranslator | None = None,
    name: str = "tidegate_arrivals",
    minimum_interval_seconds: int = 60,
    running: bool = False,
) -> SensorDefinition:
    """A sensor that asks for a run of a stream once something has arrived: what `tidegate plan` shows as changed.

    Watches streams of files and of change logs; those that `project` selects, whatever their source, if it selects any.
    Its cursor says what each stream was last asked to load, so that a load which fails is not asked for at every tick,
    but after something else has arrived, or an hour.
    """
    place, translator = TidegateProject.of(project), translator or TidegateTranslator()
    keys = {
        each.name: translator.get_asset_spec(each).key
        for each in place.streams()
        if place.select or each.source_kind in ARRIVING
    }

    def arrived(context: SensorEvaluationContext) -> SensorResult | SkipReason:
        asked: dict[str, tuple[str, float]] = json.loads(context.cursor or "{}")
        with place.open() as opened:
            plans = {each.stream: each for each in opened.plan(*keys)} if keys else {}  # no name means all
            at_work = {each.stream for each in opened.registry.status() if each.held_by is not None}
        for each in plans.values():
            if each.error:
                context.log.warning("%s: %s; %s", each.stream, each.error, each.error.hint)
        now = time.time()
        due = {each.stream: _digest(each) for each in plans.values() if _is_due(each, asked, at_work, now)}
        kept = {each: asked[each] for each in asked if each in plans and plans[each].outcome != "unchanged"}
        cursor = json.dumps({**kept, **{stream: [digest, now] for stream, digest in due.items()}}, sort_keys=True)
        if not due:
            context.update_cursor(cursor)
            return SkipReason("nothing has arrived")
        return SensorResult(run_requests=[RunRequest(asset_selection=[keys[each] for each in due])], cursor=cursor)

    return SensorDefinition(
        name=name,
        asset_selection=AssetSelection.assets(*keys.values()),
        evaluation_fn=arrived,
        minimum_interval_seconds=minimum_interval_seconds,
        default_status=DefaultSensorStatus.RUNNING if running else DefaultSensorStatus.STOPPED,
    )


def _is_due(plan: StreamPlan, asked: Mapping[str, tuple[str, float]], at_work: set[str], now: float) -> bool:
    if plan.outcome != "changed" or plan.stream in at_work:
        return False
    before, since = asked.get(plan.stream, ("", 0.0))
    return _digest(plan) != before or now - since >= AGAIN


def _digest(plan: StreamPlan) -> str:
    """Another one as soon as something else has to be loaded."""
    found = plan.to_dict()
    text = json.dumps([found["position"], found["slices"], found["rows"], found["bytes"]], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def build_incident_sensor(  # noqa: PLR0913 - the options of a sensor
    project: TidegateProject | Path | str,
    *,
    translator: TidegateTranslator | None = None,
    job_name: str | None = None,
    name: str = "tidegate_incidents",
    minimum_interval_seconds: int = 60,
    running: bool = False,
) -> SensorDefinition:
    """A sensor that looks for incidents, as `tidegate alerts check` does, and reports those that begin and end.

    Each becomes an observation of the stream's asset. Messages are sent to the channels of `alerts:`. Its cursor holds
    the incidents that were reported.

    Args:
        job_name: a job to run once for each incident that begins; the run has the tags `tidegate/incident` and
            `tidegate/stream`.
    """
    place, translator = TidegateProject.of(project), translator or TidegateTranslator()
    keys = {each.stream.uid: translator.get_asset_spec(each).key for each in place.streams()}

    def looked(context: SensorEvaluationContext) -> SensorResult:
        before: dict[str, Any] = json.loads(context.cursor or "{}")
        with place.open() as opened:
            now = {_mark(each): each for each in _open_incidents(opened, context) if each.uid in keys}
        begun = [each for mark, each in now.items() if mark not in before]
        ended = [each for mark, each in before.items() if mark not in now and each["uid"] in keys]
        return SensorResult(
            asset_events=[
                *(_observation(keys[each.uid], "opened", _kept(each)) for each in begun),
                *(_observation(keys[each["uid"]], "ended", each) for each in ended),
            ],
            run_requests=list(_requests(begun, job_name)),
            cursor=json.dumps({mark: _kept(each) for mark, each in now.items()}, sort_keys=True),
        )

    return SensorDefinition(
        name=name,
        job_name=job_name,
        evaluation_fn=looked,
        minimum_interval_seconds=minimum_interval_seconds,
        default_status=DefaultSensorStatus.RUNNING if running else DefaultSensorStatus.STOPPED,
    )


def _open_incidents(project: Project, context: SensorEvaluationContext) -> list[Incident]:
    found = check_alerts(project.config, project.lakes, project.registry, utc_now())
    for notice, why in found.undelivered:
        context.log.warning("%r was not delivered to %r: %s", notice.title, notice.channel, why)
    return project.registry.incidents.open()


def _mark(incident: Incident) -> str:
    return f"{incident.rule} {incident.uid} {incident.opened_at.isoformat()}"


def _kept(incident: Incident) -> dict[str, str]:
    return {
        "rule": incident.rule,
        "uid": incident.uid,
        "stream": incident.stream,
        "why": incident.why,
        "since": incident.opened_at.isoformat(),
    }


def _observation(key: AssetKey, moment: str, incident: Mapping[str, str]) -> AssetObservation:
    described = {f"tidegate/{name}": incident[name] for name in ("stream", "why", "since")}
    return AssetObservation(
        asset_key=key, metadata={"tidegate/incident": incident["rule"], "tidegate/moment": moment, **described}
    )


def _requests(begun: list[Incident], job_name: str | None) -> Iterator[RunRequest]:
    for each in begun if job_name else ():
        yield RunRequest(
            job_name=job_name,
            run_key=_mark(each),
            tags={"tidegate/incident": each.rule.partition(":")[0], "tidegate/stream": each.stream},
        )
