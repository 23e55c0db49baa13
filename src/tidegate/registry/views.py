"""Queries for people: streams, runs, tasks and status changes, newest first.

Reads only.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Row, select

from tidegate.core.intervals import Intervals
from tidegate.core.outcome import Result
from tidegate.registry import attention, hooks, intervals
from tidegate.registry.journal import CRASHED
from tidegate.registry.leases import live_holders
from tidegate.registry.newest import newest, newest_good
from tidegate.registry.tables import object_info, positions, runs, status_change_log, tasks
from tidegate.registry.values import GOOD, RUNNING_OUTCOME, RunRecord, Status, StatusChange, StreamStatus, TaskRecord


def status(connection: Connection, *, with_gaps: bool = True, stream: str | None = None) -> list[StreamStatus]:
    """Every stream by name, or those of that name; as many queries for a thousand streams as for one."""
    of_streams = () if stream is None else (object_info.c.object_name == stream,)
    by_name = select(object_info).where(*of_streams).order_by(object_info.c.object_name, object_info.c.uid)
    streams = connection.execute(by_name).all()
    holders, notes = live_holders(connection), attention.notes(connection)
    hooks_failed = hooks.failures(connection)
    positioned, last, success = (
        _positions(connection, *of_streams),
        _last_runs(connection, *of_streams),
        _last_successes(connection, *of_streams),
    )
    failing = {row.object_id for row in streams if _failed(row, last.get(row.object_id), holders)}
    gaps = intervals.gaps(connection, streams, failing) if with_gaps else {}
    return [
        _stream_status(
            row,
            positioned.get(number),
            last.get(number),
            last_success_at=success[number].finished_ts if number in success else None,
            rows_ahead=success[number].rows_ahead or 0 if number in success else 0,
            held_by=holders.get(row.uid),
            gaps=gaps.get(number, ()),
            hooks_failed=hooks_failed.get(number, ()),
            **notes.of(number, last.get(number)),
        )
        for row in streams
        for number in [row.object_id]
    ]


def stream_intervals(connection: Connection, uid: str) -> Intervals:
    """What is known of a stream's intervals; nothing of one that was never registered."""
    row = connection.execute(select(object_info).where(object_info.c.uid == uid)).one_or_none()
    if row is None:
        return Intervals()
    last = _last_runs(connection, object_info.c.uid == uid)
    failing = _failed(row, last.get(row.object_id), live_holders(connection))
    return intervals.with_failures(connection, row, failing=failing)


def _failed(stream: Row[Any], run: _LastRun | None, holders: dict[str, str]) -> bool:
    """Whether the stream's last run did not end well, and nobody is at it again."""
    return stream.uid not in holders and run is not None and run.outcome not in GOOD


def history(connection: Connection, uid: str, limit: int, *, run_id: str | None = None) -> list[RunRecord]:
    """The stream's last runs, newest first; only that one if it is named."""
    query = (
        select(runs, object_info.c.uid, object_info.c.object_name)
        .join(object_info, object_info.c.object_id == runs.c.object_id)
        .where(object_info.c.uid == uid)
        .order_by(runs.c.number.desc())
        .limit(limit)
    )
    query = query if run_id is None else query.where(runs.c.run_id == run_id)
    holders = live_holders(connection)
    return [
        RunRecord(
            run_id=row.run_id,
            uid=row.uid,
            stream=row.object_name,
            outcome=outcome,
            started_at=row.started_ts,
            finished_at=row.finished_ts,
            started_by=row.started_by,
            details=row.outcome_payload,
            error=error,
        )
        for row in connection.execute(query)
        for outcome, error in [_ended(row, held=uid in holders)]
    ]


def _ended(run: Row[Any] | _LastRun, *, held: bool) -> tuple[str, Any]:
    """How a run ended, and its error; one that nobody works on any more has crashed, whatever it could still say."""
    crashed = run.outcome == RUNNING_OUTCOME and not held
    return (Result.FAILED, CRASHED) if crashed else (run.outcome, run.error)


def task_list(
    connection: Connection, uid: str | None, wanted: Status | None, limit: int, *, task_type: str | None = None
) -> list[TaskRecord]:
    """The last tasks, newest first; of one stream, in one status and of one type if asked for."""
    query = select(tasks, object_info.c.object_name).join(
        object_info, object_info.c.object_id == tasks.c.target_object_id
    )
    if uid is not None:
        query = query.where(object_info.c.uid == uid)
    if wanted is not None:
        query = query.where(tasks.c.status_cd == wanted)
    if task_type is not None:
        query = query.where(tasks.c.task_type == task_type)
    return [
        TaskRecord(
            task_id=row.task_id,
            run_id=row.run_id,
            stream=row.object_name,
            task_type=row.task_type,
            status_cd=Status(row.status_cd),
            start_ts=row.start_ts,
            finish_ts=row.finish_ts,
            source_object_id=row.source_object_id,
            target_object_id=row.target_object_id,
            extract_group_id=row.extract_group_id,
            result_payload=row.result_payload,
        )
        for row in connection.execute(query.order_by(tasks.c.task_id.desc()).limit(limit))
    ]


def changes(connection: Connection, uid: str, limit: int) -> list[StatusChange]:
    """The stream's last changes of status and position, newest first."""
    query = (
        select(status_change_log, object_info.c.object_name)
        .join(object_info, object_info.c.object_id == status_change_log.c.object_id)
        .where(object_info.c.uid == uid)
        .order_by(status_change_log.c.change_id.desc())
        .limit(limit)
    )
    return [
        StatusChange(
            object_id=row.object_id,
            stream=row.object_name,
            extract_group_id=row.extract_group_id,
            old_status=row.old_status,
            new_status=row.new_status,
            changed_ts=row.changed_ts,
            changed_by=row.changed_by,
            reason=row.reason,
        )
        for row in connection.execute(query)
    ]


def _last_successes(connection: Connection, *of_streams: ColumnElement[bool]) -> dict[int, Row[Any]]:
    """By stream the end of its last good run, and how many rows it left until their time has come."""
    ahead = runs.c.outcome_payload["rows_ahead"].as_integer().label("rows_ahead")
    return newest_good(connection, ("finished_ts", ahead), streams=of_streams)


def _positions(connection: Connection, *of_streams: ColumnElement[bool]) -> dict[int, Row[Any]]:
    """By stream its newest position, if it has one; not its document, which is large."""
    wanted, positioned = ("sequence", "verified", "recorded_ts"), positions.c.position.is_not(None)
    return newest(connection, positions.c.revision, wanted, only=[positioned], streams=of_streams)


def _last_runs(connection: Connection, *of_streams: ColumnElement[bool]) -> dict[int, _LastRun]:
    """By stream its last run, from an index; the rows themselves are large, and are read where the run failed."""
    at, bad = runs.c.number, runs.c.outcome.not_in([*GOOD, RUNNING_OUTCOME])
    found = newest(connection, at, ("run_id", "outcome", "started_ts"), streams=of_streams)
    errors = newest(connection, at, ("run_id", "error"), only=[bad], streams=of_streams)
    error_of = {(number, row.run_id): row.error for number, row in errors.items()}
    return {
        number: _LastRun(row.run_id, row.outcome, row.started_ts, error_of.get((number, row.run_id)))
        for number, row in found.items()
    }


class _LastRun(NamedTuple):
    run_id: str
    outcome: str
    started_ts: datetime
    error: Mapping[str, Any] | None


def _stream_status(row: Row[Any], position: Row[Any] | None, run: _LastRun | None, **fields: Any) -> StreamStatus:
    """Of its row, its newest position and its last run; `fields` are the fields that neither of them tells."""
    outcome, error = _ended(run, held=fields["held_by"] is not None) if run is not None else (None, None)
    return StreamStatus(
        uid=row.uid,
        stream=row.object_name,
        source=row.source,
        target=row.target,
        status=row.status_cd,
        sequence=position.sequence if position is not None else 0,
        loaded_through=row.loaded_through,
        loaded_at=position.recorded_ts if position is not None else None,
        verified=position.verified if position is not None else None,
        verified_through=row.verified_through,
        verified_at=row.verified_ts,
        registered_at=row.created_ts,
        last_run_id=run.run_id if run else None,
        last_run_at=run.started_ts if run else None,
        last_outcome=outcome,
        last_error=error,
        **fields,
    )
