"""When what is wrong with a stream now began. Reads only."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, func, or_, select

from tidegate.core.outcome import Result
from tidegate.registry.recent import nothing_left
from tidegate.registry.tables import runs, tasks
from tidegate.registry.values import GOOD, Status

BAD = (Result.FAILED, Result.STOPPED)
RUNS = 1000
"""Of the last runs of a stream those that are looked at."""


def failing(connection: Connection) -> dict[int, dict[str, datetime]]:
    """By stream and error code: the start of the first run that failed so since the last one that ended well."""
    good = select(runs.c.object_id, func.max(runs.c.number).label("number")).where(runs.c.outcome.in_(GOOD))
    last = good.group_by(runs.c.object_id).subquery()
    columns = (runs.c.object_id, runs.c.error["code"].as_string().label("code"), runs.c.started_ts)
    since = or_(last.c.number.is_(None), runs.c.number > last.c.number)
    joined = select(*columns).outerjoin(last, last.c.object_id == runs.c.object_id)
    failed = joined.where(runs.c.outcome.in_(BAD), since).subquery()
    by_code = (failed.c.object_id, failed.c.code)
    found: dict[int, dict[str, datetime]] = {}
    for number, code, at in connection.execute(select(*by_code, func.min(failed.c.started_ts)).group_by(*by_code)):
        found.setdefault(number, {})[code or ""] = at
    return found


def quarantined(connection: Connection, number: int) -> tuple[tuple[datetime, int], ...]:
    """Of the last runs of a stream those that put rows into quarantine: their ends and those rows, newest first."""
    columns = (runs.c.finished_ts, runs.c.outcome_payload["rows_quarantined"].as_integer().label("rows"))
    ended = (runs.c.object_id == number) & runs.c.finished_ts.is_not(None)
    newest = select(*columns).where(ended).order_by(runs.c.number.desc()).limit(RUNS)
    return tuple((at, int(rows)) for at, rows in connection.execute(newest) if rows)


def unequal(connection: Connection, numbers: Collection[int]) -> dict[int, datetime]:
    """Of streams whose table differs: the end of the first comparison of the whole table that found it so.

    Those before a comparison that held, a repair that left nothing, or a load of all of the source do not count.
    """
    whole = runs.c.outcome_payload["whole"].as_boolean().is_(True)
    loads = select(runs.c.object_id, func.max(runs.c.started_ts)).group_by(runs.c.object_id)
    loaded = connection.execute(loads.where(runs.c.object_id.in_(numbers), runs.c.outcome.in_(GOOD), whole))
    renewed = {number: at for number, at in loaded}  # noqa: C416 - rows are no pairs to a type checker

    def holds(task: Any) -> bool:
        payload = task.result_payload or {}
        before = task.target_object_id in renewed and task.finish_ts < renewed[task.target_object_id]
        return before or task.task_type == "repair" or bool(payload["equal"])

    kept = or_(tasks.c.task_type != "repair", nothing_left())
    compared = _ended(connection, numbers, ("measure_partition", "repair"), kept)
    said = (each for each in compared if each.task_type == "repair" or "level" in (each.result_payload or {}))
    return _first(said, holds)


def maintenance_failing(connection: Connection, numbers: Collection[int]) -> dict[int, datetime]:
    """Of streams whose last maintenance failed: the end of the first one that did since one that ended well."""
    return _first(_ended(connection, numbers, ("maintain",)), lambda task: task.status_cd == Status.OK)


def _ended(
    connection: Connection, numbers: Collection[int], kinds: Collection[str], *which: ColumnElement[bool]
) -> Iterable[Any]:
    """Tasks that ended, were of no single slice, and fulfil the conditions, newest first."""
    wanted = (tasks.c.target_object_id, tasks.c.task_type, tasks.c.status_cd, tasks.c.finish_ts, tasks.c.result_payload)
    of_streams = (tasks.c.target_object_id.in_(numbers), tasks.c.task_type.in_(kinds))
    whole = (tasks.c.extract_group_id.is_(None), tasks.c.finish_ts.is_not(None))
    return connection.execute(select(*wanted).where(*of_streams, *whole, *which).order_by(tasks.c.task_id.desc()))


def _first(newest_first: Iterable[Any], ends: Callable[[Any], bool]) -> dict[int, datetime]:
    """By stream the oldest of its tasks since one that ends what was before it."""
    found: dict[int, datetime] = {}
    over: set[int] = set()
    for task in newest_first:
        number = task.target_object_id
        if number not in over and ends(task):
            over.add(number)
        elif number not in over:
            found[number] = task.finish_ts
    return found
