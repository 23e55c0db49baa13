"""Stores the log of each run, of the newest runs of a stream. Runs inside the caller's transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, delete, select

from tidegate.registry import streams
from tidegate.registry.database import upsert
from tidegate.registry.tables import object_info, run_logs

RUNS = 100
"""The log of older runs of the stream is dropped when a newer one is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptLog:
    """The log of one run.

    Args:
        lines: each with `at` (ISO 8601, UTC), `text`, and of a stage that is done `stage` and `seconds`.
        left_out: so many lines between the first half and the last.
    """

    lines: Sequence[Mapping[str, Any]] = ()
    left_out: int = 0


def keep(connection: Connection, uid: str, run_id: str, log: KeptLog, now: datetime) -> None:
    object_id = streams.lock(connection, uid)
    content = {"lines": list(log.lines), "left_out": log.left_out}
    row = upsert(connection, run_logs).values(object_id=object_id, run_id=run_id, begun_ts=now, **content)
    key = [run_logs.c.object_id, run_logs.c.run_id]
    connection.execute(row.on_conflict_do_update(index_elements=key, set_=content))
    of_stream = run_logs.c.object_id == object_id
    newest = select(run_logs.c.begun_ts).where(of_stream).order_by(run_logs.c.begun_ts.desc()).offset(RUNS - 1).limit(1)
    connection.execute(delete(run_logs).where(of_stream, run_logs.c.begun_ts < newest.scalar_subquery()))


def of_run(connection: Connection, uid: str, run_id: str) -> KeptLog:
    """The log of a run; without lines where none is kept."""
    query = select(run_logs.c.lines, run_logs.c.left_out).join(object_info)
    row = connection.execute(query.where(object_info.c.uid == uid, run_logs.c.run_id == run_id)).one_or_none()
    return KeptLog() if row is None else KeptLog(lines=row.lines, left_out=row.left_out)
