"""Stores plans and positions: a plan before a load, the position by compare-and-set after it.

Never lowers a sequence, nor moves a position that another process has moved.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, insert, select, update

from tidegate.core.plan import LoadPlan
from tidegate.core.position import Position
from tidegate.errors import InternalError, PositionMoved, RegistryError
from tidegate.registry import checksums, files, intervals, streams
from tidegate.registry.streams import Stamp
from tidegate.registry.tables import object_info, plans, positions
from tidegate.registry.values import Discontinued, PlanStatus, RegisteredPosition, SavedPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What a load left behind in the table, and whether it was verified."""

    snapshot: str | None
    table_uuid: str | None
    verified: bool | None = None


def current(connection: Connection, uid: str) -> RegisteredPosition | None:
    """The position of the stream; None when it has none."""
    object_id = streams.find(connection, uid)
    newest = None if object_id is None else _newest(connection, object_id)
    return None if newest is None or newest.position is None else _registered(newest)


def history(connection: Connection, uid: str, limit: int) -> list[RegisteredPosition]:
    """The positions the stream had, newest first."""
    query = (
        select(positions)
        .join(object_info, object_info.c.object_id == positions.c.object_id)
        .where(object_info.c.uid == uid, positions.c.position.is_not(None))
        .order_by(positions.c.revision.desc())
        .limit(limit)
    )
    return [_registered(row) for row in connection.execute(query)]


def last_sequence(connection: Connection, uid: str) -> int:
    """The greatest sequence the stream ever had, also after its position was cleared; 0 before the first."""
    object_id = streams.find(connection, uid)
    row = None if object_id is None else _newest(connection, object_id)
    return 0 if row is None else int(row.sequence)


def descends(connection: Connection, uid: str, load_id: str) -> bool:
    """Whether the stream's table is what that load made of it, and later ones: it never went back to before it.

    Nor was it replaced. False for a load that the stream's position never was.
    """
    object_id = streams.find(connection, uid)
    own = select(positions).where(positions.c.object_id == object_id)
    query = own.where(positions.c.load_id == load_id).order_by(positions.c.revision.desc()).limit(1)
    row = None if object_id is None else connection.execute(query).one_or_none()
    if row is None:
        return False
    sequence, later = parsed(row).sequence, connection.execute(own.where(positions.c.revision > row.revision))
    return all(
        each.position is not None
        and parsed(each).sequence >= sequence
        and (each.table_uuid is None or row.table_uuid is None or each.table_uuid == row.table_uuid)
        for each in later
    )


def save_plan(connection: Connection, plan: LoadPlan, run_id: str, now: datetime) -> None:
    """The plan is kept as PLANNED."""
    row = {
        "load_id": plan.load_id,
        "object_id": streams.lock(connection, plan.uid),
        "run_id": run_id,
        "plan": plan.to_dict(),
        "status_cd": PlanStatus.PLANNED,
        "created_ts": now,
    }
    connection.execute(insert(plans).values(row))


def find_plans(connection: Connection, *conditions: Any) -> list[SavedPlan]:
    """The saved plans that meet the conditions, oldest first."""
    query = (
        select(plans, object_info.c.uid)
        .join(object_info, object_info.c.object_id == plans.c.object_id)
        .where(*conditions)
        .order_by(plans.c.created_ts, plans.c.load_id)
    )
    return [_saved(row) for row in connection.execute(query)]


def discontinued(connection: Connection, uid: str) -> Discontinued | None:
    """Why the source does not continue the position, as it was marked."""
    object_id = streams.find(connection, uid)
    newest = _newest(connection, object_id) if object_id is not None else None
    return None if newest is None or newest.gone is None else Discontinued.parse(newest.gone)


def mark_discontinued(connection: Connection, uid: str, mark: Discontinued | None) -> None:
    """Marks the newest position, and thereby those that follow; None takes the mark away."""
    newest = _newest(connection, streams.lock(connection, uid))
    if newest is not None:
        here = (positions.c.object_id == newest.object_id) & (positions.c.revision == newest.revision)
        connection.execute(update(positions).where(here).values(gone=mark.to_text() if mark is not None else None))


def finish_plan(connection: Connection, load_id: str, status: PlanStatus, now: datetime) -> None:
    """The plan ended like this; PUBLISHED is final, and the same again is nothing."""
    stored = connection.scalar(select(plans.c.status_cd).where(plans.c.load_id == load_id))
    if stored is None:
        raise InternalError(f"load {load_id} was never planned", load_id=load_id)
    if stored == status:
        return
    unpublished = (plans.c.load_id == load_id) & (plans.c.status_cd != PlanStatus.PUBLISHED)
    changed = connection.execute(update(plans).where(unpublished).values(status_cd=status, finished_ts=now))
    if changed.rowcount != 1:
        raise RegistryError(f"load {load_id} is published and cannot become {status}", load_id=load_id)


def advance(connection: Connection, load: LoadPlan | SavedPlan, evidence: Evidence, stamp: Stamp) -> None:
    """From the load's `since` to its `position`, or an error; see `Registry.advance`."""
    object_id = streams.lock(connection, load.uid)
    newest = _newest(connection, object_id)
    current, since = _mark(newest), _identity(load.since)
    if newest is not None and newest.load_id == load.load_id:
        _publish(connection, load.load_id, stamp.at)
        if evidence.verified and not newest.verified:
            _mark_verified(connection, newest, stamp.at)
            intervals.advanced(connection, object_id, _document(load), proven=True, now=stamp.at)
    elif current == since:
        if load.position.sequence <= (since[0] if since else 0):
            raise InternalError(
                f"load {load.load_id} does not increase the sequence of stream {load.uid}", uid=load.uid
            )
        _publish(connection, load.load_id, stamp.at)
        _append(connection, object_id, load.position, evidence, stamp.at)
        checksums.apply(connection, object_id, _document(load), stamp.at)
        files.apply(connection, object_id, _document(load), stamp.at)
        proven = bool(evidence.verified)
        intervals.advanced(connection, object_id, _document(load), proven=proven, now=stamp.at)
        _log(connection, object_id, (current, _identity(load.position)), stamp, f"load {load.load_id} published")
    elif not _is_published(connection, load.load_id):  # else it landed before, and others after it
        raise PositionMoved(
            f"stream {load.uid} is at {_text(current)}, but load {load.load_id} started from {_text(since)}",
            uid=load.uid,
        )


def verified(connection: Connection, uid: str, position: Position, now: datetime, *, after: str | None) -> None:
    """Marks the position as verified, if the stream is at it, and its intervals from `after` on."""
    newest = _newest(connection, streams.lock(connection, uid))
    if newest is not None and _readable_mark(newest) == _identity(position):
        _mark_verified(connection, newest, now)
        intervals.proven(connection, newest.object_id, (after, position.loaded_through), now)


def set_position(  # noqa: PLR0913 - the facts of one recorded decision
    connection: Connection,
    uid: str,
    position: Position | None,
    evidence: Evidence,
    stamp: Stamp,
    *,
    expected_sequence: int | None,
    reason: str,
    vouched: bool,
) -> None:
    """To whatever is asked for, or an error; see `Registry.set_position`."""
    object_id = streams.lock(connection, uid)
    newest = _newest(connection, object_id)
    known, asked = _readable_mark(newest), _identity(position)
    if expected_sequence is not None and (known[0] if known else 0) != expected_sequence:
        raise PositionMoved(f"stream {uid} is at {_text(known)}, not at sequence {expected_sequence}", uid=uid)
    if newest is not None and known == asked:
        evidence = replace(evidence, verified=newest.verified)
    else:  # what was verified belongs to the position that is gone
        unverified = {"verified_through": None, "verified_ts": None}
        connection.execute(update(object_info).where(object_info.c.object_id == object_id).values(unverified))
    _append(connection, object_id, position, evidence, stamp.at)
    if vouched:
        mark_discontinued(connection, uid, None)
    intervals.moved(connection, object_id, position.loaded_through if position else None, stamp.at)
    if position is not None:
        files.set_back(connection, object_id, position, stamp.at)
    _log(connection, object_id, (known, asked), stamp, reason)


def _document(load: LoadPlan | SavedPlan) -> Mapping[str, Any]:
    return load.to_dict() if isinstance(load, LoadPlan) else load.plan


def _append(
    connection: Connection, object_id: int, position: Position | None, evidence: Evidence, now: datetime
) -> None:
    """The next revision; its primary key is a second fence should two ever pass the lock."""
    newest = _newest(connection, object_id)
    highest = 0 if newest is None else int(newest.sequence)
    row = {
        "object_id": object_id,
        "revision": 1 if newest is None else newest.revision + 1,
        "sequence": max(highest, position.sequence if position else 0),
        "load_id": position.load_id if position else None,
        "position": position.to_json() if position else None,
        "snapshot": evidence.snapshot,
        "table_uuid": evidence.table_uuid,
        "verified": evidence.verified,
        "gone": newest.gone if newest is not None else None,
        "recorded_ts": now,
    }
    connection.execute(insert(positions).values(row))
    loaded_through = position.loaded_through if position else None
    facts: dict[str, Any] = {"loaded_through": loaded_through, "table_uuid": evidence.table_uuid, "updated_ts": now}
    if evidence.verified:
        facts |= {"verified_through": loaded_through, "verified_ts": now}
    connection.execute(update(object_info).where(object_info.c.object_id == object_id).values(facts))


def _publish(connection: Connection, load_id: str, now: datetime) -> None:
    pending = (plans.c.load_id == load_id) & (plans.c.status_cd != PlanStatus.PUBLISHED)
    connection.execute(update(plans).where(pending).values(status_cd=PlanStatus.PUBLISHED, finished_ts=now))


def _is_published(connection: Connection, load_id: str) -> bool:
    return connection.scalar(select(plans.c.status_cd).where(plans.c.load_id == load_id)) == PlanStatus.PUBLISHED


def _mark_verified(connection: Connection, row: Row[Any], now: datetime) -> None:
    here = (positions.c.object_id == row.object_id) & (positions.c.revision == row.revision)
    connection.execute(update(positions).where(here).values(verified=True))
    facts = {"verified_through": object_info.c.loaded_through, "verified_ts": now}
    connection.execute(update(object_info).where(object_info.c.object_id == row.object_id).values(facts))


def _newest(connection: Connection, object_id: int) -> Row[Any] | None:
    query = select(positions).where(positions.c.object_id == object_id).order_by(positions.c.revision.desc()).limit(1)
    return connection.execute(query).one_or_none()


def _mark(row: Row[Any] | None) -> tuple[int, str] | None:
    return None if row is None or row.position is None else _identity(parsed(row))


def _readable_mark(row: Row[Any] | None) -> tuple[int, str] | None:
    try:
        return _mark(row)
    except RegistryError:
        return None  # a position that nobody can read is what the caller is about to repair


def _identity(position: Position | None) -> tuple[int, str] | None:
    return None if position is None else (position.sequence, position.load_id)


def _text(identity: tuple[int, str] | None) -> str:
    return f"sequence {identity[0]} (load {identity[1]})" if identity else "no position"


def _log(
    connection: Connection,
    object_id: int,
    move: tuple[tuple[int, str] | None, tuple[int, str] | None],
    stamp: Stamp,
    reason: str,
) -> None:
    old, new = (f"POSITION {end[0]}" if end else "POSITION none" for end in move)
    streams.log(connection, object_id, (old, new), stamp, reason=reason)


def parsed(row: Any) -> Position:
    """The position of a row. Raises RegistryError where it cannot be read."""
    try:
        return Position.from_json(row.position)
    except ValueError as error:
        raise RegistryError(
            f"the registry's position of object {row.object_id} cannot be read: {error}",
            hint="Run `tidegate state repair`: it resets the registry to the table's position.",
        ) from error


def _registered(row: Row[Any]) -> RegisteredPosition:
    return RegisteredPosition(
        position=parsed(row),
        sequence=row.sequence,
        snapshot=row.snapshot,
        table_uuid=row.table_uuid,
        verified=row.verified,
        recorded_at=row.recorded_ts,
    )


def _saved(row: Row[Any]) -> SavedPlan:
    since = row.plan["since"]
    return SavedPlan(
        load_id=row.load_id,
        uid=row.uid,
        run_id=row.run_id,
        status=PlanStatus(row.status_cd),
        since=Position.from_values(since) if since else None,
        position=Position.from_values(row.plan["position"]),
        plan=row.plan,
        created_at=row.created_ts,
        finished_at=row.finished_ts,
    )
