"""Stores what people said of streams: those taken off their schedule, and errors that were seen.

Runs inside the caller's transaction. Each change is a row of `status_change_log`, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select

from tidegate.registry import streams
from tidegate.registry.streams import Stamp
from tidegate.registry.tables import acknowledgements, object_info, pauses, runs
from tidegate.registry.values import GOOD, RUNNING_OUTCOME

ACTIVE, PAUSED = "ACTIVE", "PAUSED"
UNSEEN, ACKNOWLEDGED = "UNSEEN", "ACKNOWLEDGED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Notes:
    """What people said, by the number of the stream."""

    pauses: Mapping[int, Row[Any]]
    acknowledgements: Mapping[int, Row[Any]]

    def of(self, object_id: int, run: Any) -> dict[str, Any]:
        """The fields of `StreamStatus`; an error of a later run was not seen by an earlier acknowledgement."""
        paused, seen = self.pauses.get(object_id), self.acknowledgements.get(object_id)
        found: dict[str, Any] = {}
        if paused is not None:
            found |= {"paused_at": paused.paused_ts, "paused_by": paused.paused_by}
        if seen is not None and run is not None and seen.run_id == run.run_id:
            found |= {"acknowledged_at": seen.acknowledged_ts, "acknowledged_by": seen.acknowledged_by}
        return found


def notes(connection: Connection) -> Notes:
    """Of every stream; two queries."""
    found = [{row.object_id: row for row in connection.execute(select(table))} for table in (pauses, acknowledgements)]
    return Notes(pauses=found[0], acknowledgements=found[1])


def is_paused(connection: Connection, uid: str) -> bool:
    """Whether schedules leave the stream out."""
    pause = select(pauses.c.object_id).join(object_info).where(object_info.c.uid == uid)
    return connection.scalar(pause) is not None


def pause(connection: Connection, uid: str, stamp: Stamp) -> None:
    """Schedules leave the stream out; one that is paused stays as it is."""
    object_id = streams.lock(connection, uid)
    if connection.scalar(select(pauses.c.object_id).where(pauses.c.object_id == object_id)) is not None:
        return
    connection.execute(insert(pauses).values(object_id=object_id, paused_ts=stamp.at, paused_by=stamp.by))
    streams.log(connection, object_id, (ACTIVE, PAUSED), stamp)


def resume(connection: Connection, uid: str, stamp: Stamp) -> None:
    """Schedules run the stream again; nothing for one that is not paused."""
    object_id = streams.lock(connection, uid)
    if connection.execute(delete(pauses).where(pauses.c.object_id == object_id)).rowcount:
        streams.log(connection, object_id, (PAUSED, ACTIVE), stamp)


def acknowledge(connection: Connection, uid: str, stamp: Stamp) -> None:
    """A person has seen how the last run ended; nothing if it ended well, is at work or never was."""
    object_id = streams.lock(connection, uid)
    newest = select(runs.c.run_id, runs.c.outcome).where(runs.c.object_id == object_id)
    last = connection.execute(newest.order_by(runs.c.number.desc()).limit(1)).one_or_none()
    if last is None or last.outcome in (*GOOD, RUNNING_OUTCOME):
        return
    connection.execute(delete(acknowledgements).where(acknowledgements.c.object_id == object_id))
    facts = {"object_id": object_id, "acknowledged_ts": stamp.at, "acknowledged_by": stamp.by}
    connection.execute(insert(acknowledgements).values(run_id=last.run_id, **facts))
    streams.log(connection, object_id, (UNSEEN, ACKNOWLEDGED), stamp, reason=f"run {last.run_id}")
