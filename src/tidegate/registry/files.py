"""Stores the loaded files of a stream: one row per file.

The list counts only if the table's position vouches for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from tidegate.core.changes import Action
from tidegate.core.manifest import File, Manifest
from tidegate.core.position import Position
from tidegate.core.position_state import names_files
from tidegate.registry import streams
from tidegate.registry.tables import files, plans


def manifest(connection: Connection, uid: str) -> Manifest:
    """The files of the stream as they were loaded."""
    return _stored(connection, streams.find(connection, uid))


def keep(connection: Connection, uid: str, found: Manifest, now: datetime) -> None:
    """These files and no others; a row that says so already stays as it is."""
    object_id = streams.lock(connection, uid)
    _exchange(connection, object_id, _stored(connection, object_id), found, now)


def stamp(connection: Connection, uid: str, found: Iterable[File]) -> None:
    """Until when the hash of these files, which are as they were, holds without reading them."""
    object_id = streams.lock(connection, uid)
    rows = [{"at": file.path, "stamp": file.stamp} for file in found]
    here = (files.c.object_id == object_id) & (files.c.path == bindparam("at"))
    connection.execute(update(files).where(here), rows)


def apply(connection: Connection, object_id: int, plan: Mapping[str, Any], now: datetime) -> None:
    """The files that a load's plan names are in the table now; of two ways to take that, the position decides."""
    changes = plan["changes"]
    stored = _stored(connection, object_id)
    if not names_files(changes["state"]):
        if stored.files:
            connection.execute(delete(files).where(files.c.object_id == object_id))
        return
    _exchange(connection, object_id, stored, _after(stored, plan), now)


def set_back(connection: Connection, object_id: int, position: Position, now: datetime) -> None:
    """The files of a position that the stream had before, as the plans of the loads up to it name them.

    Where they do not tell what this position vouches for, nothing changes: what is kept may be of another position.
    """
    if not names_files(position.state):
        return
    stored, found = _stored(connection, object_id), Manifest()
    loads: list[Mapping[str, Any]] = []
    at: Position | None = position
    while at is not None:
        of_load = (plans.c.object_id == object_id) & (plans.c.load_id == at.load_id)
        plan = connection.scalar(select(plans.c.plan).where(of_load))
        if plan is None:  # a position that no load made, as of an adopted table
            found = Manifest.of(file for file in stored.files.values() if file.loaded <= at.sequence)
            break
        loads.append(plan)
        at = Position.from_values(plan["since"]) if plan["since"] else None
    for plan in reversed(loads):
        found = _after(found, plan)
    if found.vouched(position.state):
        _exchange(connection, object_id, stored, found, now)


def _after(before: Manifest, plan: Mapping[str, Any]) -> Manifest:
    """The files once that load is published; nothing where its position vouches for no way to get there."""
    changes = plan["changes"]
    parts = [part for part in changes.get("parts") or () if part.get("file")]
    read = [
        File(**{**part["file"], "stamp": part["file"].get("stamp") or None})
        for part in parts
        if part["action"] != Action.DELETE
    ]
    deleted = [part["file"]["path"] for part in parts if part["action"] == Action.DELETE]
    # What was kept before counts only if the load went on from it.
    ways = (before.loaded(read, deleted), Manifest.of(read))
    return next((way for way in ways if way.vouched(changes["state"])), Manifest())


def _exchange(connection: Connection, object_id: int, stored: Manifest, wanted: Manifest, now: datetime) -> None:
    removed = [{"at": path} for path in stored.files if path not in wanted.files]
    changed = [file for path, file in wanted.files.items() if path in stored.files and stored.files[path] != file]
    new = [file for path, file in wanted.files.items() if path not in stored.files]
    here = (files.c.object_id == object_id) & (files.c.path == bindparam("at"))
    if removed:
        connection.execute(delete(files).where(here), removed)
    if changed:
        rows = [
            {
                "at": file.path,
                "size": file.size,
                "tag": file.tag,
                "stamp": file.stamp,
                "loaded": file.loaded,
                "updated_ts": now,
            }
            for file in changed
        ]
        connection.execute(update(files).where(here), rows)
    if new:
        times = {"object_id": object_id, "created_ts": now, "updated_ts": now}
        connection.execute(
            insert(files),
            [
                {
                    "path": file.path,
                    "size": file.size,
                    "tag": file.tag,
                    "stamp": file.stamp,
                    "loaded": file.loaded,
                    **times,
                }
                for file in new
            ],
        )


def _stored(connection: Connection, object_id: int | None) -> Manifest:
    rows = connection.execute(
        select(files.c.path, files.c.size, files.c.tag, files.c.stamp, files.c.loaded).where(
            files.c.object_id == object_id
        )
    )
    return Manifest.of(
        File(path=path, size=size, tag=tag, stamp=stamp or None, loaded=loaded or 0)
        for path, size, tag, stamp, loaded in rows
    )
