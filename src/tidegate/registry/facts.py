"""What metrics and alerts know of each stream: numbers that earlier runs left in the registry.

Reads only; a fixed number of queries, however many streams there are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, func, select

from tidegate.registry.beginnings import maintenance_failing, unequal
from tidegate.registry.newest import newest_good
from tidegate.registry.recent import compared_whole, nothing_left, renewed
from tidegate.registry.tables import checksums, object_info, tasks
from tidegate.registry.totals import Totals, totals
from tidegate.registry.values import Status

MAINTAIN, MEASURE, REPAIR, ROLLBACK = "maintain", "measure_partition", "repair", "rollback"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """What the registry keeps of a stream's runs; what was never measured is None or absent.

    Args:
        totals: see `registry.totals`; empty before the first run ended.
        last: the document of `Outcome.to_dict` of the last run that loaded or found nothing new.
        partitions_created: partitions that this run saw for the first time; None where the stream has none.
        maintenance: what the last maintenance that ended well told of its tables.
        maintenance_failed: the error of the last maintenance; None if it ended well.
        maintenance_failed_since: when the first one failed since one that ended well.
        compared: what the last comparison of the whole table told; None if it differed and was repaired completely or
            loaded as a whole since, or was equal and another version was rolled back to since.
        unequal_since: when the first such comparison ended that found a difference; None while none is known.
    """

    totals: Totals = field(default_factory=dict)
    last: Mapping[str, Any] | None = None
    partitions_created: int | None = None
    maintenance: Mapping[str, Any] | None = None
    maintenance_failed: Mapping[str, Any] | None = None
    maintenance_failed_since: datetime | None = None
    compared: Mapping[str, Any] | None = None
    unequal_since: datetime | None = None


def facts(connection: Connection) -> dict[str, RunFacts]:
    """Of every stream that the registry knows, by its uid."""
    sums, last = totals(connection), newest_good(connection, ("started_ts", "finished_ts", "outcome_payload"))
    created, done = _partitions_created(connection, last), _last_tasks(connection, MAINTAIN)
    compared = _last_tasks(connection, MEASURE, compared_whole())
    repaired = _last_tasks(connection, REPAIR, nothing_left())
    back = _last_tasks(connection, ROLLBACK, tasks.c.status_cd == Status.OK)
    found = {}
    streams = select(object_info.c.object_id, object_info.c.uid)
    rows = connection.execute(streams).all()
    last_compared = {row.uid: compared[row.object_id] for row in rows if row.object_id in compared}
    differed = {
        uid: task.finish_ts for uid, task in last_compared.items() if _whole(task) and not task.result_payload["equal"]
    }
    superseded = renewed(connection, differed)
    broken = [number for number, task in done.items() if task.status_cd == Status.ERROR]
    failing = maintenance_failing(connection, broken)
    unlike = unequal(connection, [row.object_id for row in rows if row.uid in differed])
    for object_id, uid in rows:
        kept, measured, repair = (each.get(object_id) for each in (done, compared, repaired))
        since = measured is not None and (repair is None or repair.task_id < measured.task_id)
        holds = since and measured is not None and _whole(measured) and uid not in superseded
        shown = measured is not None and not _rolled_back(measured, back.get(object_id))
        payload = (kept.result_payload or {}) if kept is not None else {}
        failed = kept is not None and kept.status_cd == Status.ERROR
        found[uid] = RunFacts(
            totals=sums.get(object_id, {}),
            last=last[object_id].outcome_payload if object_id in last else None,
            partitions_created=created.get(object_id),
            maintenance=payload if kept is not None and not failed else None,
            maintenance_failed=payload.get("error", {}) if failed else None,
            maintenance_failed_since=failing.get(object_id),
            compared=measured.result_payload if holds and shown and measured is not None else None,
            unequal_since=unlike.get(object_id) if holds else None,
        )
    return found


def _whole(task: Any) -> bool:
    """Whether it compared a whole table to its end, as loads do not."""
    return "level" in (task.result_payload or {})


def _rolled_back(measured: Any, back: Any) -> bool:
    """Whether the version that equalled the source is not the one that a later rollback shows."""
    if back is None or back.task_id < measured.task_id or not measured.result_payload["equal"]:
        return False
    return str(back.result_payload.get("version")) != str(measured.result_payload.get("snapshot"))


def _partitions_created(connection: Connection, last: Mapping[int, Any]) -> dict[int, int]:
    """By stream with partitions, those whose first load was its last good run."""
    found: dict[int, int] = {}
    newest = select(checksums.c.object_id, checksums.c.created_ts, func.count()).group_by(
        checksums.c.object_id, checksums.c.created_ts
    )
    for object_id, created, number in connection.execute(newest):
        run = last.get(object_id)
        if run is not None:
            new = number if run.started_ts <= created <= run.finished_ts else 0
            found[object_id] = found.get(object_id, 0) + new
    return found


def _last_tasks(connection: Connection, kind: str, *which: ColumnElement[bool]) -> dict[int, Any]:
    """By stream its last task of this kind that ended, was of no single slice, and fulfils the conditions."""
    newest = (
        select(func.max(tasks.c.task_id))
        .where(
            tasks.c.target_object_id == object_info.c.object_id,
            tasks.c.task_type == kind,
            tasks.c.extract_group_id.is_(None),
            tasks.c.finish_ts.is_not(None),
            *which,
        )
        .correlate(object_info)
        .scalar_subquery()
    )
    wanted = (tasks.c.task_id, tasks.c.target_object_id, tasks.c.status_cd, tasks.c.finish_ts, tasks.c.result_payload)
    query = select(*wanted).join(object_info, tasks.c.task_id == newest)
    return {row.target_object_id: row for row in connection.execute(query)}
