"""Collects earlier loads of a stream for strategies that learn from them.

Reads the registry only, never a source or table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from tidegate.core.bucketing import Level
from tidegate.core.cost_model import CHOICE, Cost, CostHistory, LoadMethod
from tidegate.core.outcome import Result
from tidegate.registry.facts import MEASURE
from tidegate.registry.reader import RegistryReader
from tidegate.registry.values import RunRecord, Status

RUNS = 50
TASKS = 500
LOAD, READ_AT = "load_id", "read_at"


def of(registry: RegistryReader, uid: str) -> CostHistory:
    """What the last loads took, and of when the source is that the table was last proven to hold."""
    return CostHistory(
        costs=tuple(cost for run in registry.history(uid, RUNS) for cost in _costs(run)),
        proven_at=proven_at(registry, uid),
    )


def proven_at(registry: RegistryReader, uid: str, *, covered: bool = True) -> datetime | None:
    """The source's time at which the whole table was last proven equal, by a comparison or by a load of all of it.

    Of a version from which the present one descends: of one that was rolled back since it says nothing.

    Args:
        covered: only by a proof that left out no column.
    """
    known = []
    for kind in (MEASURE, "load"):
        for task in registry.tasks(uid, Status.OK, limit=TASKS, task_type=kind):
            facts = task.result_payload or {}
            if _proves(facts, covered=covered) and registry.descends(uid, facts[LOAD]):
                known.append(datetime.fromisoformat(facts[READ_AT]))
                break
    return max(known, default=None)


def proof_of(load_id: str, read_at: datetime) -> dict[str, str]:
    """What a comparison notes of itself: of the table as which load left it, and of the source as it was when."""
    return {LOAD: load_id, READ_AT: read_at.astimezone(UTC).isoformat()}


def _proves(facts: Mapping[str, Any], *, covered: bool) -> bool:
    """Whether the whole table was found equal, with a note of what was compared, which a load of a part has not."""
    equal = bool(facts.get("equal") or facts.get("verified")) and facts.get("level") != Level.COUNTS
    return equal and LOAD in facts and READ_AT in facts and not (covered and facts.get("columns_not_covered"))


def _costs(run: RunRecord) -> Iterator[Cost]:
    """What the run took, if it loaded and says which way it went."""
    details = run.details or {}
    choice = ((details.get("position") or {}).get("state") or {}).get(CHOICE)
    if run.outcome == Result.LOADED and choice:
        yield Cost(way=LoadMethod(choice["way"]), rows=choice["rows"], seconds=details["seconds"]["total"])
