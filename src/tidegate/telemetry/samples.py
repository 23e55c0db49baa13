"""The samples of one stream: what was measured, and nothing else."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from tidegate import plugins
from tidegate.core.health import Health
from tidegate.registry.facts import RunFacts
from tidegate.registry.totals import KINDS
from tidegate.registry.values import StreamStatus

Sample = tuple[str, tuple[str, ...], float]
"""The metric's name without `tidegate_`, the values of its own labels, and its value."""

CHANGED = ("inserted", "updated", "deleted")
CHECKS = ("check_failed", "duplicate_keys")


def samples(status: StreamStatus, facts: RunFacts, now: datetime) -> Iterator[Sample]:
    """Everything that the registry measured of a stream."""
    yield from _of_status(status, now)
    yield from _of_totals(facts.totals)
    yield from _of_last_run(facts)
    yield from _of_upkeep(facts)


def _of_status(status: StreamStatus, now: datetime) -> Iterator[Sample]:
    if status.last_success_at is not None:
        yield "last_success_timestamp_seconds", (), status.last_success_at.timestamp()
        yield "freshness_seconds", (), max((now - status.last_success_at).total_seconds(), 0)
    if status.last_run_at is not None:
        yield "last_run_timestamp_seconds", (), status.last_run_at.timestamp()
        yield "hooks_failed", (), float(len(status.hooks_failed))
    if status.health is not None:
        for state in Health:
            yield "stream_state", (str(state),), float(state == status.health)
    yield "running", (), float(status.held_by is not None)
    if status.verified is not None:
        yield "verified", (), float(status.verified)


def _of_totals(totals: Mapping[tuple[str, str], float]) -> Iterator[Sample]:
    if not totals:  # no run has ended yet
        return
    labels = {"runs": "runs", "failures": "failures", "seconds": "stage_seconds"}
    for (measure, label), value in totals.items():
        if measure in labels and (measure, label) != ("seconds", "total"):
            yield labels[measure], (label,), value
    yield "run_seconds", (), totals.get(("seconds", "total"), 0)
    yield "read_bytes", (), totals.get(("bytes", "read"), 0)
    yield "checks_failed", (), sum(totals.get(("failures", code), 0) for code in CHECKS)
    for kind in KINDS:
        yield "rows", (kind,), totals.get(("rows", kind), 0)


def _of_last_run(facts: RunFacts) -> Iterator[Sample]:
    last = facts.last
    if last is None:
        return
    seconds = dict(last.get("seconds") or {})
    if "total" in seconds:
        yield "last_run_seconds", (), seconds.pop("total")
    for stage, value in seconds.items():
        yield "last_run_stage_seconds", (stage,), value
    if "detect" in seconds:
        yield "change_detection_time_seconds", (), seconds["detect"]
    for kind in KINDS:
        yield "last_run_rows", (kind,), last.get(f"rows_{kind}", 0)
    before = last.get("table_rows")
    if before:
        yield "changed_records_percent", (), 100 * sum(last.get(f"rows_{kind}", 0) for kind in CHANGED) / before
    if facts.partitions_created is not None:
        yield "new_partitions_created", (), facts.partitions_created
    if _of_a_log(str(last.get("strategy"))) and last.get("log_behind") is not None:
        yield "log_behind", (), last["log_behind"]


def _of_upkeep(facts: RunFacts) -> Iterator[Sample]:
    if facts.maintenance is not None or facts.maintenance_failed is not None:
        yield "maintenance_failed", (), float(facts.maintenance_failed is not None)
    tables: list[Mapping[str, Any]] = list((facts.maintenance or {}).get("tables", ()))
    saved = [table["saved"]["bytes"] for table in tables if table.get("saved")]
    if saved:
        yield "compaction_savings_bytes", (), sum(saved)
    queries = [table["query"] for table in tables if table.get("query")]
    before = sum(each["before"] for each in queries)
    if before:
        after = sum(each["after"] for each in queries)
        yield "query_performance_improvement_percent", (), 100 * (before - after) / before
    if facts.compared is not None:
        yield "verification_equal", (), float(bool(facts.compared["equal"]))
        if "slices_different" in facts.compared:
            yield "verification_differences", (), facts.compared["slices_different"]


@functools.cache
def _of_a_log(kind: str) -> bool:
    """Whether streams of this strategy have a log that they may be behind of; one that is not installed has none."""
    known = kind in plugins.names("strategies")
    return known and bool(getattr(plugins.load("strategies", kind), "applies_events", False))
