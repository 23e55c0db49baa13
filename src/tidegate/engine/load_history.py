"""Collects earlier loads of a stream for strategies that learn from them.

Reads the registry only, never a source or table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tidegate.core.bucketing import Level
from tidegate.core.cost_model import CHOICE, Cost, CostHistory, LoadMethod
from tidegate.core.outcome import Result
from tidegate.registry.reader import RegistryReader
from tidegate.registry.values import RunRecord, Status

RUNS = 50
TASKS = 500


def of(registry: RegistryReader, uid: str) -> CostHistory:
    """What the last loads took, and when `tidegate verify` last found every column of the whole table equal."""
    newest = next((task for task in registry.tasks(uid, Status.OK, limit=TASKS) if _proves(task.result_payload)), None)
    return CostHistory(
        costs=tuple(cost for run in registry.history(uid, RUNS) for cost in _costs(run)),
        proven_at=newest.start_ts if newest else None,
    )


def _proves(facts: Mapping[str, Any] | None) -> bool:
    """Whether a comparison found the whole table equal, and left out no column."""
    found = facts or {}
    return bool(found.get("equal")) and found.get("level") != Level.COUNTS and not found.get("columns_not_covered")


def _costs(run: RunRecord) -> Iterator[Cost]:
    """What the run took, if it loaded and says which way it went."""
    details = run.details or {}
    choice = ((details.get("position") or {}).get("state") or {}).get(CHOICE)
    if run.outcome == Result.LOADED and choice:
        yield Cost(way=LoadMethod(choice["way"]), rows=choice["rows"], seconds=details["seconds"]["total"])
