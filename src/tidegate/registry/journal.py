"""Stores runs and tasks while they happen, and closes those left open by a crash.

Stores only error messages of TidegateError, which contain no values of rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, bindparam, func, insert, select, update

from tidegate.core.outcome import Outcome, Result
from tidegate.errors import InternalError, TidegateError, interrupted
from tidegate.registry import intervals, streams, totals
from tidegate.registry.streams import Stamp
from tidegate.registry.tables import object_info, runs, tasks
from tidegate.registry.values import GOOD, RUNNING_OUTCOME, Status

NUMBERS_AT_ONCE = 10_000
"""Databases limit the values that one statement may carry."""
CRASHED = {
    "code": "crashed",
    "message": "ended without finishing",
    "hint": "Nothing to do: the next run finished or dropped what it left.",
}

INTERRUPTED = {
    "code": "interrupted",
    "message": "interrupted by Ctrl-C or SIGTERM",
    "hint": "Run again: published rows stay, and the next run continues from there.",
}


def start_run(connection: Connection, run_id: str, uid: str, stamp: Stamp) -> None:
    """The run is kept as running, its stream is RUNNING.

    Its number is one more than that of the stream's run before: clocks are set back, and differ between machines.
    """
    object_id = streams.lock(connection, uid)
    last = select(func.max(runs.c.number)).where(runs.c.object_id == object_id).scalar_subquery()
    row = {
        "run_id": run_id,
        "object_id": object_id,
        "outcome": RUNNING_OUTCOME,
        "started_ts": stamp.at,
        "started_by": stamp.by,
        "number": func.coalesce(last, 0) + 1,
    }
    connection.execute(insert(runs).values(row))
    streams.change_status(connection, object_id, Status.RUNNING, stamp)


def finish_run(connection: Connection, run_id: str, outcome: Outcome, stamp: Stamp) -> None:
    """The run ended like this; its stream is OK or ERROR, unless another runner held it."""
    named = select(object_info.c.object_id).where(object_info.c.object_name == outcome.stream)
    of_run = (runs.c.run_id == run_id) & runs.c.object_id.in_(named)
    started = connection.execute(select(runs.c.object_id, runs.c.outcome).where(of_run)).first()
    if started is None:
        raise InternalError(f"run {run_id} of stream {outcome.stream} was never started", run_id=run_id)
    object_id = started.object_id
    if started.outcome == RUNNING_OUTCOME:
        totals.count(connection, object_id, outcome)
    document = outcome.to_dict()
    ended = {
        "outcome": outcome.outcome,
        "finished_ts": stamp.at,
        "outcome_payload": document,
        "error": document["error"],
        "row_count": outcome.rows_inserted + outcome.rows_updated + outcome.rows_deleted,
        "rows_read": outcome.rows_read,
        "bytes_read": outcome.bytes_read,
        "seconds": outcome.seconds.get("total"),
    }
    connection.execute(update(runs).where(of_run).values(ended))
    if outcome.outcome is Result.UNCHANGED and outcome.position is not None:
        through = outcome.position["loaded_through"]
        intervals.looked(connection, object_id, through, outcome.looked_through, stamp.at)
    if outcome.outcome is not Result.HELD:
        good = outcome.outcome in GOOD
        streams.change_status(connection, object_id, Status.OK if good else Status.ERROR, stamp)


def start_tasks(
    connection: Connection, uid: str, work: Mapping[str, str | None], groups: Sequence[str | None], stamp: Stamp
) -> list[int]:
    """The numbers of tasks, one a group, that are RUNNING from now on; so are the slices that they name."""
    object_id = streams.lock(connection, uid)
    facts = {
        "status_cd": Status.RUNNING,
        "start_ts": stamp.at,
        "source_object_id": object_id,
        "target_object_id": object_id,
        **work,
    }
    rows = [{**facts, "extract_group_id": group} for group in groups]
    if not rows:
        return []
    made = insert(tasks).returning(tasks.c.task_id, sort_by_parameter_order=True)
    numbers = connection.scalars(made, rows).all()
    named = [group for group in groups if group is not None]
    streams.change_groups(connection, object_id, named, Status.RUNNING, stamp)
    return list(numbers)


def finish_tasks(
    connection: Connection, payloads: Mapping[int, Mapping[str, Any] | None], status: Status, stamp: Stamp
) -> None:
    """The tasks of one stream, by number with their payloads, and the slices that they name ended like this."""
    found: list[Any] = []
    columns = (tasks.c.task_id, tasks.c.target_object_id, tasks.c.extract_group_id)
    numbers = list(payloads)
    for first in range(0, len(numbers), NUMBERS_AT_ONCE):
        some = numbers[first : first + NUMBERS_AT_ONCE]
        found += connection.execute(select(*columns).where(tasks.c.task_id.in_(some))).all()
    missing = set(payloads) - {task.task_id for task in found}
    if missing:
        raise InternalError(f"task {min(missing)} was never started", task_id=min(missing))
    if not found:
        return
    ended = update(tasks).where(tasks.c.task_id == bindparam("number"))
    rows = [
        {"number": number, "result_payload": None if payload is None else dict(payload)}
        for number, payload in payloads.items()
    ]
    facts = {"status_cd": status, "finish_ts": stamp.at}
    connection.execute(ended, [{**row, **facts} for row in rows])
    named = [task.extract_group_id for task in found if task.extract_group_id is not None]
    streams.change_groups(connection, found[0].target_object_id, named, status, stamp)


def close_crashed(connection: Connection, uid: str, keep_run: str | None, stamp: Stamp) -> int:
    """The number of runs and tasks of the stream that were still running and are errors now."""
    object_id = streams.lock(connection, uid)
    stale_runs = (runs.c.object_id == object_id) & (runs.c.outcome == RUNNING_OUTCOME)
    stale_tasks = (tasks.c.target_object_id == object_id) & (tasks.c.status_cd == Status.RUNNING)
    if keep_run is not None:
        stale_runs &= runs.c.run_id != keep_run
        stale_tasks &= tasks.c.run_id.is_distinct_from(keep_run)
    numbers = connection.scalars(select(tasks.c.task_id).where(stale_tasks)).all()
    finish_tasks(connection, {number: {"error": CRASHED} for number in numbers}, Status.ERROR, stamp)
    ended = {"outcome": Result.FAILED, "finished_ts": stamp.at, "error": CRASHED}
    closed = connection.execute(update(runs).where(stale_runs).values(ended)).rowcount
    totals.count_crashed(connection, object_id, CRASHED["code"], closed)
    if closed and keep_run is None:
        streams.change_status(connection, object_id, Status.ERROR, stamp)
    return closed + len(numbers)


def describe(error: BaseException) -> dict[str, str]:
    """An exception as a task keeps it; foreign texts may hold values of rows, so only their class is named."""
    if interrupted(error):
        return INTERRUPTED
    if isinstance(error, TidegateError):
        return error.to_dict()
    return {"code": "internal", "message": type(error).__name__, "hint": TidegateError.default_hint}
