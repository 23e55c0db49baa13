"""Stores the interval ledger of a stream, in the transaction that moves or verifies its position.

Derived from positions and plans, and rebuilt from the table's position if it is lost.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, ScalarSelect, Select, delete, insert, select

from tidegate.core.backfill import Progress
from tidegate.core.intervals import GAPS, Gap, Interval, Intervals, IntervalState, slices_of
from tidegate.registry.tables import backfill_chunks, backfills, intervals, object_info, plans, positions, tasks
from tidegate.registry.values import PlanStatus, Status

STREAMS_AT_ONCE = 500
"""A query names no more of them."""


def read(connection: Connection, object_id: int) -> Intervals:
    """What is known, without what is at work or has failed."""
    found = connection.execute(select(intervals).where(intervals.c.object_id == object_id))
    return Intervals.of(_interval(row) for row in found)


def keep(connection: Connection, object_id: int, found: Intervals, now: datetime) -> None:
    """These and no others; rows that say so already stay."""
    stored = set(read(connection, object_id).parts)
    removed = [part.upto for part in stored.difference(found.parts)]
    if removed:
        of_stream = intervals.c.object_id == object_id
        connection.execute(delete(intervals).where(of_stream, intervals.c.upto_value.in_(removed)))
    rows = [
        {
            "object_id": object_id,
            "after_value": part.after,
            "upto_value": part.upto,
            "state_cd": part.known,
            "row_count": part.rows,
            "updated_ts": now,
        }
        for part in found.parts
        if part not in stored
    ]
    if rows:
        connection.execute(insert(intervals), rows)


def advanced(connection: Connection, object_id: int, plan: Mapping[str, Any], *, proven: bool, now: datetime) -> None:
    """A load has landed; `plan` is its document."""
    changes = plan["changes"]
    before, through = read(connection, object_id), plan["position"]["loaded_through"]
    found = before.loaded(slices_of(changes), through, proven=proven, rows=changes["rows"])
    edge = changes["edge"]["upto"] if changes["edge"] else None
    keep(connection, object_id, found.empty(through, edge) if through is not None else found, now)


def moved(connection: Connection, object_id: int, through: str | None, now: datetime) -> None:
    """The position was moved otherwise than by a load."""
    keep(connection, object_id, read(connection, object_id).moved(through), now)


def proven(connection: Connection, object_id: int, ends: tuple[str | None, str | None], now: datetime) -> None:
    """What the table holds between two bounds was found equal to what the source holds."""
    keep(connection, object_id, read(connection, object_id).proven(*ends), now)


def looked(connection: Connection, object_id: int, through: str | None, edge: str | None, now: datetime) -> None:
    """The source was found to have nothing between what was loaded and a bound."""
    if through is not None and edge is not None:
        keep(connection, object_id, read(connection, object_id).upto(through).empty(through, edge), now)


def emptied(connection: Connection, object_id: int, part: tuple[str | None, str], now: datetime) -> None:
    """The source was found to have no rows between two bounds."""
    keep(connection, object_id, read(connection, object_id).empty(*part), now)


def with_failures(connection: Connection, stream: Row[Any], *, failing: bool) -> Intervals:
    """What is known, with the loads and chunks that have failed and that nothing has made good since.

    Args:
        stream: its row of `object_info`.
        failing: the stream's last run did not end well.
    """
    return _with_failures(connection, [stream], {stream.object_id} if failing else set())[stream.object_id]


def gaps(connection: Connection, streams: Sequence[Row[Any]], failing: Collection[int]) -> dict[int, tuple[Gap, ...]]:
    """What each stream lacks, by its number; asked closely only of streams that are not as they should be."""
    asked = select(intervals.c.object_id).where(intervals.c.state_cd.in_(sorted(GAPS))).distinct()
    suspects = {
        *failing,
        *connection.scalars(asked),
        *connection.scalars(_unloaded().with_only_columns(backfills.c.object_id)),
    }
    found: dict[int, tuple[Gap, ...]] = {}
    close = [stream for stream in streams if stream.object_id in suspects]
    for first in range(0, len(close), STREAMS_AT_ONCE):
        some = close[first : first + STREAMS_AT_ONCE]
        known = _with_failures(connection, some, failing)
        parted = [stream.object_id for stream in some if stream.checksum_method is not None]
        failed = _failed_partitions(connection, parted) if parted else {}
        for number, parts in known.items():
            found[number] = (
                *(Gap(label=part.label, known=part.known) for part in parts.gaps),
                *(Gap(label=label, known=IntervalState.FAILED) for label in sorted(failed.get(number, ()))),
            )
    return found


def _with_failures(
    connection: Connection, streams: Sequence[Row[Any]], failing: Collection[int]
) -> dict[int, Intervals]:
    """By stream's number what `with_failures` says of it."""
    numbers = [stream.object_id for stream in streams]
    parts: dict[int, list[Interval]] = {number: [] for number in numbers}
    for row in connection.execute(select(intervals).where(intervals.c.object_id.in_(numbers))):
        parts[row.object_id].append(_interval(row))
    found = {number: Intervals.of(each) for number, each in parts.items()}
    lost = _unpublished(connection, [number for number in numbers if number in failing])
    for stream in streams:
        plan = lost.get(stream.object_id)
        if plan is not None:
            slices = slices_of(plan["changes"])
            found[stream.object_id] = found[stream.object_id].failed(slices, stream.loaded_through)
    for chunk in connection.execute(
        _unloaded().where(backfills.c.object_id.in_(numbers)).add_columns(backfills.c.object_id)
    ):
        known = IntervalState.FAILED if chunk.status_cd == Progress.FAILED else IntervalState.STALE
        part = Interval(after=chunk.after_value or None, upto=chunk.upto_value, known=known)
        found[chunk.object_id] = found[chunk.object_id].painted(part)
    return found


def _failed_partitions(connection: Connection, numbers: Sequence[int]) -> dict[int, list[str]]:
    """By stream's number the partitions whose last load failed, by label."""
    later = tasks.alias()
    newer = select(later.c.task_id).where(
        later.c.target_object_id == tasks.c.target_object_id,
        later.c.task_type == tasks.c.task_type,
        later.c.extract_group_id == tasks.c.extract_group_id,
        later.c.task_id > tasks.c.task_id,
    )
    asked = select(tasks.c.target_object_id, tasks.c.extract_group_id).where(
        tasks.c.target_object_id.in_(numbers),
        tasks.c.task_type == "load_partition",
        tasks.c.status_cd == Status.ERROR,
        tasks.c.extract_group_id.is_not(None),
        ~newer.exists(),
    )
    found: dict[int, list[str]] = {}
    for number, label in connection.execute(asked):
        found.setdefault(number, []).append(label)
    return found


def _unpublished(connection: Connection, numbers: Sequence[int]) -> dict[int, Mapping[str, Any]]:
    """By stream's number its newest plan, if it was made after the position and never landed."""
    if not numbers:
        return {}
    number, other, known = object_info.c.object_id, plans.alias().c, positions.c
    newest = select(other.load_id).where(other.object_id == number).order_by(other.created_ts.desc(), other.load_id)
    moved_at = select(known.recorded_ts).where(known.object_id == number).order_by(known.revision.desc())
    query = (
        select(plans.c.object_id, plans.c.plan, plans.c.created_ts, _first(moved_at).label("moved_at"))
        .select_from(plans)
        .join(object_info, plans.c.load_id == _first(newest))
        .where(number.in_(numbers), plans.c.status_cd != PlanStatus.PUBLISHED)
    )
    return {
        row.object_id: row.plan
        for row in connection.execute(query)
        if row.moved_at is None or row.moved_at <= row.created_ts
    }


def _first(query: Select[Any]) -> ScalarSelect[Any]:
    return query.limit(1).correlate(object_info).scalar_subquery()


def _unloaded() -> Select[Any]:
    """The chunks that are not loaded, of backfills that nobody is at."""
    asked = select(backfill_chunks).join(backfills).order_by(backfill_chunks.c.backfill_id, backfill_chunks.c.number)
    halted = backfills.c.status_cd.in_((Progress.PAUSED, Progress.FAILED))
    return asked.where(halted, backfill_chunks.c.status_cd != Progress.DONE)


def _interval(row: Row[Any]) -> Interval:
    return Interval(after=row.after_value, upto=row.upto_value, known=IntervalState(row.state_cd), rows=row.row_count)
