"""Stores streams, their status and the log of status changes.

Runs inside the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, func, insert, select, update

from tidegate.core.ids import join_name, split_name
from tidegate.errors import InternalError
from tidegate.registry.database import upsert
from tidegate.registry.tables import object_info, status_change_log
from tidegate.registry.values import Status

FEW_GROUPS = 20
"""Up to here each slice is asked for alone; a table may have a hundred thousand of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """When something was recorded, and by whom."""

    at: datetime
    by: str


def register(connection: Connection, uid: str, texts: Mapping[str, str | None], now: datetime) -> int:
    """The stream's number, the same for ever; `texts` (name, source, target by column) are brought up to date."""
    texts = {**texts, **_origin(texts["source"])}
    stored = connection.execute(select(object_info).where(object_info.c.uid == uid)).one_or_none()
    if stored is None:
        row = {"uid": uid, "status_cd": Status.NEW, "created_ts": now, "updated_ts": now, **texts}
        # Another process may register the same stream at this moment: its row serves as well.
        connection.execute(upsert(connection, object_info).values(row).on_conflict_do_nothing())
        stored = connection.execute(select(object_info).where(object_info.c.uid == uid)).one()
    if any(getattr(stored, column) != value for column, value in texts.items()):
        connection.execute(update(object_info).where(object_info.c.uid == uid).values(updated_ts=now, **texts))
    return int(stored.object_id)


def _origin(source: str | None) -> dict[str, str | None]:
    """Connection, schema and relation of a source's text, `connection: schema.relation`."""
    system, separator, relation = (source or "").partition(": ")
    if not separator:
        system, relation = "", source or ""
    try:
        *schema, name = split_name(relation)
    except ValueError:
        schema, name = [], relation
    return {"system_name": system or None, "schema_name": join_name(schema) or None, "source_object_name": name}


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


def change_status(connection: Connection, object_id: int, status: Status, stamp: Stamp) -> None:
    """The status of a stream and its row in the log; nothing when it is that already."""
    old = str(connection.scalar(select(object_info.c.status_cd).where(object_info.c.object_id == object_id)))
    if old == status:
        return
    connection.execute(update(object_info).where(object_info.c.object_id == object_id).values(status_cd=status))
    log(connection, object_id, (old, status), stamp)


def change_groups(connection: Connection, object_id: int, groups: Sequence[str], status: Status, stamp: Stamp) -> None:
    """The status of slices of a stream and their rows in the log; nothing for those that are it already."""
    facts = {"object_id": object_id, "new_status": status, "changed_ts": stamp.at, "changed_by": stamp.by}
    old = _group_statuses(connection, object_id, groups)
    rows = [
        {"extract_group_id": group, "old_status": old.get(group, Status.NEW), **facts}
        for group in groups
        if old.get(group, Status.NEW) != status
    ]
    if rows:
        connection.execute(insert(status_change_log), rows)


def log(
    connection: Connection, object_id: int, change: tuple[str, str], stamp: Stamp, *, reason: str | None = None
) -> None:
    """One row of `status_change_log`: from the first status to the second."""
    row = {
        "object_id": object_id,
        "old_status": change[0],
        "new_status": change[1],
        "changed_ts": stamp.at,
        "changed_by": stamp.by,
        "reason": reason,
    }
    connection.execute(insert(status_change_log).values(row))


def _group_statuses(connection: Connection, object_id: int, groups: Sequence[str]) -> dict[str, str]:
    """The status of each slice that ever had one, at least of those asked for."""
    change = status_change_log.c
    columns = (change.extract_group_id, change.new_status)
    of_stream = change.object_id == object_id
    if len(groups) <= FEW_GROUPS:  # a long history of a few slices is not read through
        last = select(*columns).where(of_stream).order_by(change.change_id.desc()).limit(1)
        found = [connection.execute(last.where(change.extract_group_id == group)).one_or_none() for group in groups]
        return {row.extract_group_id: row.new_status for row in found if row is not None}
    newest = (
        select(func.max(change.change_id).label("change_id"))
        .where(of_stream, change.extract_group_id.is_not(None))
        .group_by(change.extract_group_id)
        .subquery()
    )
    query = select(*columns).join(newest, newest.c.change_id == change.change_id)
    return {row.extract_group_id: row.new_status for row in connection.execute(query)}
