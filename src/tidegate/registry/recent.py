"""Queries of the dashboard: a few streams, runs or tasks at a time, by index, however long the history is.

Reads only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypeAlias

from sqlalchemy import ColumnElement, Connection, Row, String, and_, func, not_, select, type_coerce

from tidegate.core.intervals import IntervalState
from tidegate.core.outcome import Result
from tidegate.registry.positions import descends, parsed
from tidegate.registry.tables import (
    backfill_chunks,
    backfills,
    checksums,
    object_info,
    plans,
    positions,
    runs,
    status_change_log,
    tasks,
)
from tidegate.registry.values import GOOD, RUNNING_OUTCOME, PartitionDay, Status

Days: TypeAlias = "dict[str, dict[str, tuple[int, int]]]"


def activity(connection: Connection, uids: Sequence[str], since: datetime) -> Days:
    """By stream and day in ISO 8601: the rows that moved, and the runs that did not end well."""
    at = runs.c.started_ts
    day = _day(connection, at)
    bad = runs.c.outcome.not_in([*GOOD, RUNNING_OUTCOME])
    query = (
        select(object_info.c.uid, day.label("day"), func.sum(runs.c.row_count), func.count().filter(bad))
        .join(object_info, object_info.c.object_id == runs.c.object_id)
        .where(object_info.c.uid.in_(uids), at >= since)
        .group_by(object_info.c.uid, day)
    )
    found: Days = {uid: {} for uid in uids}
    for uid, name, rows, failed in connection.execute(query):
        found[uid][name] = (int(rows or 0), int(failed))
    return found


def _day(connection: Connection, at: ColumnElement[Any]) -> ColumnElement[Any]:
    """The day of a time in UTC, in ISO 8601."""
    if connection.dialect.name == "sqlite":
        return func.substr(type_coerce(at, String), 1, 10)
    return func.to_char(func.timezone("UTC", at), "YYYY-MM-DD")


def last_successes(connection: Connection, uids: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    """By stream the outcome of its last good run, as `run --json` has it."""
    newest = (
        select(runs.c.run_id)
        .where(runs.c.object_id == object_info.c.object_id, runs.c.outcome.in_(GOOD))
        .order_by(runs.c.number.desc())
        .limit(1)
        .correlate(object_info)
        .scalar_subquery()
    )
    query = (
        select(object_info.c.uid, runs.c.outcome_payload)
        .join(runs, (runs.c.object_id == object_info.c.object_id) & (runs.c.run_id == newest))
        .where(object_info.c.uid.in_(uids))
    )
    return {uid: payload or {} for uid, payload in connection.execute(query)}


def run_log(connection: Connection, uid: str, run_id: str) -> list[dict[str, Any]]:
    """What the registry recorded of one stream's run, in order of time: its tasks and changes of status."""
    run = connection.execute(
        select(runs.c.started_ts, runs.c.finished_ts, object_info.c.object_id)
        .join(object_info, object_info.c.object_id == runs.c.object_id)
        .where(object_info.c.uid == uid, runs.c.run_id == run_id)
    ).one_or_none()
    if run is None:
        return []
    of_run = (tasks.c.target_object_id == run.object_id) & (tasks.c.start_ts >= run.started_ts)
    found = [
        {"at": row.start_ts, "what": row.task_type, "slice": row.extract_group_id, "status": row.status_cd}
        | {"until": row.finish_ts, "facts": row.result_payload or {}}
        for row in connection.execute(select(tasks).where(of_run, tasks.c.run_id == run_id).limit(500))
    ]
    log = status_change_log.c
    during = [log.object_id == run.object_id, log.changed_ts >= run.started_ts, log.extract_group_id.is_(None)]
    during += [log.changed_ts <= run.finished_ts] if run.finished_ts is not None else []
    changes = select(status_change_log).where(*during).order_by(log.change_id).limit(200)
    found += [
        {"at": row.changed_ts, "what": f"{row.old_status} → {row.new_status}", "slice": None, "status": "change"}
        | {"until": None, "facts": {"reason": row.reason} if row.reason else {}}
        for row in connection.execute(changes)
    ]
    return sorted(found, key=lambda each: each["at"])


def plans_of(connection: Connection, uid: str, run_id: str | None = None, limit: int = 1) -> list[Mapping[str, Any]]:
    """The documents of the stream's last plans, newest first; of one run if it is named."""
    query = select(plans.c.plan, plans.c.status_cd, plans.c.created_ts).join(object_info)
    query = query.where(object_info.c.uid == uid)
    query = query if run_id is None else query.where(plans.c.run_id == run_id)
    found = connection.execute(query.order_by(plans.c.created_ts.desc()).limit(limit))
    return [{**row.plan, "status": row.status_cd, "created": row.created_ts} for row in found]


def partitions(connection: Connection, uid: str, limit: int) -> list[tuple[str, int | None, IntervalState]]:
    """The stream's partitions by label, the last ones: the rows that were loaded, and their state.

    One is `done` if its last load was verified, or the whole table was found equal since; `stale` if it was loaded and
    a later load of it failed; `failed` if it never was.
    """
    columns = (checksums.c.object_id, checksums.c.extract_group_id, checksums.c.partition_row_count)
    query = select(*columns, checksums.c.updated_ts).join(object_info).where(object_info.c.uid == uid)
    kept = connection.execute(query.order_by(checksums.c.extract_group_id.desc()).limit(limit)).all()
    holds = tasks.c.result_payload["equal"].as_boolean().is_(True)
    equal = last_tasks(connection, [uid], "measure_partition", compared_whole(), holds).get(uid)
    # Of a version that was rolled back since it says nothing; older releases did not note which one it was.
    of = equal.result_payload.get("load_id") if equal is not None else None
    proven_at = equal.finish_ts if equal is not None and (of is None or descends(connection, uid, of)) else None
    loads = _last_loads(connection, uid)
    found: dict[str, tuple[int | None, IntervalState]] = {}
    for _, label, rows, loaded_at in kept:
        status, verified = loads.pop(label, (Status.OK, False))
        proven = verified or (proven_at is not None and proven_at >= loaded_at)
        found[label] = (
            rows,
            IntervalState.STALE
            if status == Status.ERROR
            else IntervalState.DONE
            if proven
            else IntervalState.UNVERIFIED,
        )
    oldest = min(found, default="")
    complete = len(kept) < limit
    for label, (status, _) in loads.items():
        if status == Status.ERROR and (complete or label > oldest):
            found[label] = (None, IntervalState.FAILED)
    return [(label, *found[label]) for label in sorted(found)]


def _last_loads(connection: Connection, uid: str) -> dict[str, tuple[str, bool]]:
    """By partition how the last load of it ended, and whether it was verified."""
    ended = (tasks.c.task_type == "load_partition", tasks.c.status_cd != Status.RUNNING)
    newest = select(func.max(tasks.c.task_id)).join(object_info, object_info.c.object_id == tasks.c.target_object_id)
    newest = newest.where(object_info.c.uid == uid, *ended).group_by(tasks.c.extract_group_id)
    query = select(tasks.c.extract_group_id, tasks.c.status_cd, tasks.c.result_payload)
    return {
        row.extract_group_id: (row.status_cd, bool((row.result_payload or {}).get("verified")))
        for row in connection.execute(query.where(tasks.c.task_id.in_(newest)))
        if row.extract_group_id is not None
    }


def checksum_period(connection: Connection, uid: str) -> str | None:
    """The length of the partitions of a stream that is divided by time; None of any other."""
    method = connection.scalar(select(object_info.c.checksum_method).where(object_info.c.uid == uid)) or {}
    return str(method.get("period")) if method.get("type") == "by_date" else None


def compared_whole() -> ColumnElement[bool]:
    """Of the tasks that compare, those that say something of a whole table: equal counts do not prove equal rows."""
    payload = tasks.c.result_payload
    counted = and_(payload["level"].as_string() == "counts", payload["equal"].as_boolean().is_(True))
    return and_(payload["equal"].as_string().is_not(None), not_(counted))


def nothing_left() -> ColumnElement[bool]:
    """Of repairs, those after which table and source were equal: one that failed or left rows ends no difference."""
    left = func.coalesce(tasks.c.result_payload["left"].as_integer(), 0)
    return and_(tasks.c.status_cd == Status.OK, left == 0)


def last_proofs(connection: Connection, uids: Sequence[str], kinds: Sequence[str]) -> dict[str, dict[str, Row[Any]]]:
    """By stream and type its last task that compared something: repairs, verified loads, and whole tables."""
    payload = tasks.c.result_payload
    compared: dict[str, ColumnElement[bool]] = {
        "repair": payload["rows"].as_string().is_not(None),
        "measure_partition": compared_whole(),
    }
    found: dict[str, dict[str, Row[Any]]] = {uid: {} for uid in uids}
    for kind in kinds:
        proves = compared.get(kind, payload["verified"].as_boolean().is_(True))
        for uid, row in last_tasks(connection, uids, kind, proves).items():
            found[uid][kind] = row
    return found


def failed_comparisons(connection: Connection, uids: Sequence[str]) -> dict[str, Row[Any]]:
    """By stream the last comparison of its whole table that could not be made; what it found is not known."""
    whole = tasks.c.extract_group_id.is_(None)
    return last_tasks(connection, uids, "measure_partition", whole, status=Status.ERROR)


def newest_positions(connection: Connection, uids: Sequence[str]) -> dict[str, tuple[Mapping[str, Any], str | None]]:
    """By stream its newest position, as `Position.to_dict` has it, and the table's version; those that have one.

    Raises:
        RegistryError: one of them cannot be read.
    """
    newest = select(func.max(positions.c.revision)).where(positions.c.object_id == object_info.c.object_id)
    same = positions.c.revision == newest.correlate(object_info).scalar_subquery()
    query = select(object_info.c.uid, positions.c.position, positions.c.snapshot, positions.c.object_id)
    query = query.join(positions, (positions.c.object_id == object_info.c.object_id) & same)
    query = query.where(object_info.c.uid.in_(uids), positions.c.position.is_not(None))
    return {row.uid: (parsed(row).to_dict(), row.snapshot) for row in connection.execute(query)}


def renewed(connection: Connection, since: Mapping[str, datetime]) -> set[str]:
    """The streams of which a run that began after a time, given by stream, took all of the source, and ended well."""
    if not since:
        return set()
    whole = runs.c.outcome_payload["whole"].as_boolean().is_(True)
    query = select(object_info.c.uid, func.max(runs.c.started_ts))
    query = query.join(object_info, object_info.c.object_id == runs.c.object_id)
    wanted = (object_info.c.uid.in_(list(since)), runs.c.outcome.in_(GOOD), runs.c.started_ts > min(since.values()))
    last = connection.execute(query.where(*wanted, whole).group_by(object_info.c.uid))
    return {uid for uid, at in last if at > since[uid]}


def last_tasks(
    connection: Connection, uids: Sequence[str], kind: str, *which: ColumnElement[bool], status: Status = Status.OK
) -> dict[str, Row[Any]]:
    """By stream its last task of this type that ended well, or as `status` says, and fulfils the conditions."""
    of_stream = (tasks.c.target_object_id == object_info.c.object_id, tasks.c.task_type == kind)
    newest = select(tasks.c.task_id).where(*of_stream, tasks.c.status_cd == status, *which)
    first = newest.order_by(tasks.c.task_id.desc()).limit(1).correlate(object_info).scalar_subquery()
    query = select(object_info.c.uid, tasks).join(tasks, tasks.c.task_id == first)
    return {row.uid: row for row in connection.execute(query.where(object_info.c.uid.in_(uids)))}


def largest_reads(connection: Connection, uids: Sequence[str], since: datetime) -> dict[str, tuple[int, float]]:
    """By stream the run since then that read most: its rows and its seconds; those that read rows only."""
    which = (runs.c.started_ts >= since, runs.c.outcome == Result.LOADED, runs.c.rows_read > 0)
    most = select(runs.c.object_id, func.max(runs.c.rows_read).label("rows")).where(*which).group_by(runs.c.object_id)
    largest = most.subquery()
    query = (
        select(object_info.c.uid, runs.c.rows_read, runs.c.seconds)
        .join(object_info, object_info.c.object_id == runs.c.object_id)
        .join(largest, (largest.c.object_id == runs.c.object_id) & (largest.c.rows == runs.c.rows_read))
        .where(object_info.c.uid.in_(uids), *which)
    )
    return {row.uid: (int(row.rows_read), float(row.seconds or 0)) for row in connection.execute(query)}


def reading(connection: Connection, uids: Sequence[str], since: datetime) -> dict[str, tuple[int, int, int, float]]:
    totals = (func.count(), func.sum(runs.c.rows_read), func.sum(runs.c.bytes_read), func.sum(runs.c.seconds))
    query = (
        select(object_info.c.uid, *totals)
        .join(object_info, object_info.c.object_id == runs.c.object_id)
        .where(object_info.c.uid.in_(uids), runs.c.started_ts >= since, runs.c.outcome.in_(GOOD))
        .group_by(object_info.c.uid)
    )
    return {
        row[0]: (int(row[1]), int(row[2] or 0), int(row[3] or 0), float(row[4] or 0))
        for row in connection.execute(query)
    }


def partition_days(connection: Connection, uids: Sequence[str], since: datetime) -> list[PartitionDay]:
    """What runs found in partitions that they compared, by day and stream, newest first."""
    at = tasks.c.start_ts
    day = _day(connection, at)
    payload = tasks.c.result_payload
    load, reload, delete, skip = (
        func.coalesce(payload["actions"][action].as_integer(), 0) for action in ("LOAD", "RELOAD", "DELETE", "SKIP")
    )
    sums = (load + reload + delete, skip, payload["rows"].as_integer(), payload["rows_skipped"].as_integer())
    of_runs = (tasks.c.task_type == "get_checksums", tasks.c.status_cd == Status.OK, tasks.c.run_id.is_not(None))
    query = (
        select(day.label("day"), object_info.c.object_name, func.count(), *(func.sum(each) for each in sums))
        .join(object_info, object_info.c.object_id == tasks.c.target_object_id)
        .where(object_info.c.uid.in_(uids), at >= since, *of_runs)
        .group_by(day, object_info.c.object_name)
        .order_by(day.desc(), object_info.c.object_name)
    )
    fields = ("partitions_loaded", "partitions_skipped", "rows_loaded", "rows_skipped")
    return [
        PartitionDay(day=of, stream=stream, runs=number, **{f: int(v or 0) for f, v in zip(fields, found, strict=True)})
        for of, stream, number, *found in connection.execute(query)
    ]


def backfill_progress(connection: Connection, limit: int = 50) -> list[Row[Any]]:
    """The newest backfills with their chunks counted: all, done, failed, and the rows of those that are done."""
    done = backfill_chunks.c.status_cd == "DONE"
    newest = select(backfills.c.backfill_id).order_by(backfills.c.backfill_id.desc()).limit(limit)
    query = (
        select(
            backfills.c.backfill_id,
            object_info.c.object_name,
            backfills.c.begin_value,
            backfills.c.end_value,
            backfills.c.status_cd,
            backfills.c.created_ts,
            func.count(backfill_chunks.c.number).label("chunks"),
            func.count(backfill_chunks.c.number).filter(done).label("done"),
            func.count(backfill_chunks.c.number).filter(backfill_chunks.c.status_cd == "FAILED").label("failed"),
            func.sum(backfill_chunks.c.row_count).filter(done).label("rows"),
        )
        .join(object_info, object_info.c.object_id == backfills.c.object_id)
        .where(backfills.c.backfill_id.in_(newest))
        .outerjoin(backfill_chunks, backfill_chunks.c.backfill_id == backfills.c.backfill_id)
        .group_by(
            backfills.c.backfill_id,
            object_info.c.object_name,
            backfills.c.begin_value,
            backfills.c.end_value,
            backfills.c.status_cd,
            backfills.c.created_ts,
        )
        .order_by(backfills.c.backfill_id.desc())
    )
    return list(connection.execute(query))
