"""Decides how a stream, its status and the log of its changes are kept.

Called by the other files of the registry inside their transactions. Must never begin or end a transaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, insert, select, update

from tidegate.errors import InternalError
from tidegate.registry.database import upsert
from tidegate.registry.tables import object_info, status_change_log
from tidegate.registry.values import Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """When something was recorded, and by whom."""

    at: datetime
    by: str


def register(connection: Connection, uid: str, texts: Mapping[str, str], now: datetime) -> int:
    """The stream's number, the same for ever; `texts` (name, source, target by column) are brought up to date."""
    stored = connection.execute(select(object_info).where(object_info.c.uid == uid)).one_or_none()
    if stored is None:
        row = {"uid": uid, "status_cd": Status.NEW, "created_ts": now, "updated_ts": now, **texts}
        # Another process may register the same stream at this moment: its row serves as well.
        connection.execute(upsert(connection, object_info).values(row).on_conflict_do_nothing())
        stored = connection.execute(select(object_info).where(object_info.c.uid == uid)).one()
    if any(getattr(stored, column) != value for column, value in texts.items()):
        connection.execute(update(object_info).where(object_info.c.uid == uid).values(updated_ts=now, **texts))
    return int(stored.object_id)


def find(connection: Connection, uid: str) -> int | None:
    """The stream's number; None when it was never registered."""
    return connection.scalar(select(object_info.c.object_id).where(object_info.c.uid == uid))


def lock(connection: Connection, uid: str) -> int:
    """The stream's number; until the transaction ends nobody else changes this stream.

    Raises:
        InternalError: never registered.
    """
    # SQLite has no FOR UPDATE and needs none: its write transaction is alone.
    found = connection.scalar(select(object_info.c.object_id).where(object_info.c.uid == uid).with_for_update())
    if found is None:
        raise InternalError(f"stream {uid} was never registered", uid=uid)
    return int(found)


def change_status(
    connection: Connection,
    object_id: int,
    status: Status,
    stamp: Stamp,
    *,
    group: str | None = None,
) -> None:
    """The status of a stream, or of one of its slices, and its row in the log; nothing when it is that already."""
    old = _status(connection, object_id, group)
    if old == status:
        return
    if group is None:
        connection.execute(update(object_info).where(object_info.c.object_id == object_id).values(status_cd=status))
    log(connection, object_id, (old, status), stamp, group=group)


def log(  # noqa: PLR0913 - the columns of its row
    connection: Connection,
    object_id: int,
    change: tuple[str, str],
    stamp: Stamp,
    *,
    group: str | None = None,
    reason: str | None = None,
) -> None:
    """One row of `status_change_log`: from the first status to the second."""
    row = {
        "object_id": object_id,
        "extract_group_id": group,
        "old_status": change[0],
        "new_status": change[1],
        "changed_ts": stamp.at,
        "changed_by": stamp.by,
        "reason": reason,
    }
    connection.execute(insert(status_change_log).values(row))


def _status(connection: Connection, object_id: int, group: str | None) -> str:
    if group is None:
        return str(connection.scalar(select(object_info.c.status_cd).where(object_info.c.object_id == object_id)))
    changes = status_change_log.c
    last = (
        select(changes.new_status)
        .where(changes.object_id == object_id, changes.extract_group_id == group)
        .order_by(changes.change_id.desc())
        .limit(1)
    )
    return connection.scalar(last) or Status.NEW
