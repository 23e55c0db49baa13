"""Stores backfills: the requested range, and the state of each chunk.

Never stores a position: loaded chunks are in the table, and loading a chunk again changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, insert, select, update

from tidegate.core.backfill import OPEN, Backfill, Chunk, Progress
from tidegate.errors import PlanError
from tidegate.registry import intervals, streams
from tidegate.registry.database import Database
from tidegate.registry.tables import backfill_chunks, backfills, leases, object_info


class Backfills:
    """The backfills of all streams; every call is one transaction."""

    def __init__(self, database: Database, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._clock = clock

    def create(self, uid: str, asked: Backfill) -> Backfill:
        """A new backfill of a stream. Raises PlanError: the stream has one that is neither done nor cancelled."""
        now = self._clock()
        with self._database.write() as connection:
            object_id = streams.lock(connection, uid)
            if (open_ := _open(connection, object_id)) is not None:
                raise PlanError(
                    f"stream {asked.stream!r} already has a backfill, from {open_.begin_value} to {open_.end_value} "
                    f"({open_.status_cd.lower()})",
                    hint="Continue it with `tidegate backfill resume STREAM`, or cancel it with `tidegate backfill "
                    "cancel STREAM`.",
                )
            values = {
                "object_id": object_id,
                "begin_value": asked.begin,
                "end_value": asked.end,
                "parallel": asked.parallel,
                "rate": asked.rate,
                "status_cd": asked.status,
            }
            made = insert(backfills).values(**values, created_ts=now, updated_ts=now)
            number = connection.execute(made.returning(backfills.c.backfill_id)).scalar_one()
            rows = [{"backfill_id": number, "updated_ts": now, **_row(chunk)} for chunk in asked.chunks]
            if rows:
                connection.execute(insert(backfill_chunks), rows)
            return _read(connection, number)

    def get(self, backfill_id: int) -> Backfill:
        with self._database.read() as connection:
            return _read(connection, backfill_id)

    def open_of(self, uid: str) -> Backfill | None:
        """The stream's backfill that is neither done nor cancelled."""
        with self._database.read() as connection:
            found = _open(connection, streams.find(connection, uid))
            return None if found is None else _read(connection, found.backfill_id)

    def all_of(self, uids: Sequence[str], limit: int = 20) -> list[Backfill]:
        """The backfills of these streams, newest first."""
        with self._database.read() as connection:
            asked = select(backfills.c.backfill_id).join(object_info).where(object_info.c.uid.in_(uids))
            numbers = connection.scalars(asked.order_by(backfills.c.backfill_id.desc()).limit(limit)).all()
            return [_read(connection, number) for number in numbers]

    def mark(self, backfill_id: int, status: Progress, *, among: Iterable[Progress] = OPEN) -> bool:
        """Whether the backfill had one of these statuses; it has the new one now."""
        with self._database.write() as connection:
            backfill = (backfills.c.backfill_id == backfill_id) & backfills.c.status_cd.in_(list(among))
            done = connection.execute(
                update(backfills).where(backfill).values(status_cd=status, updated_ts=self._clock())
            )
            return done.rowcount == 1

    def keep(self, backfill_id: int, *chunks: Chunk) -> None:
        """The chunks as they stand now."""
        with self._database.write() as connection:
            for chunk in chunks:
                same_chunk = (backfill_chunks.c.backfill_id == backfill_id) & (backfill_chunks.c.number == chunk.number)
                connection.execute(
                    update(backfill_chunks).where(same_chunk).values(**_row(chunk), updated_ts=self._clock())
                )
                if chunk.status is Progress.DONE and not chunk.rows:
                    object_id = _object_of(connection, backfill_id)
                    intervals.emptied(connection, object_id, (chunk.after, chunk.upto), self._clock())

    def at_work(self, uid: str) -> bool:
        """Whether the process that holds the stream's lease is one that backfills it."""
        stream, own = leases.alias(), leases.alias()
        with self._database.read() as connection:
            found = _open(connection, streams.find(connection, uid))
            if found is None:
                return False
            same = (stream.c.pid == own.c.pid) & (stream.c.host_id == own.c.host_id)
            asked = select(own.c.uid).join(stream, same & (stream.c.process_start == own.c.process_start))
            asked = asked.where(stream.c.uid == uid, own.c.uid == lease_name(found.backfill_id))
            return connection.execute(asked).one_or_none() is not None


def lease_name(backfill_id: int) -> str:
    """What the process that works on a backfill holds beside the stream's own lease."""
    return f"backfill-{backfill_id}"


def _object_of(connection: Connection, backfill_id: int) -> int:
    asked = select(backfills.c.object_id).where(backfills.c.backfill_id == backfill_id)
    return int(connection.scalars(asked).one())


def _open(connection: Connection, object_id: int | None) -> Row[Any] | None:
    asked = select(backfills).where(backfills.c.object_id == object_id, backfills.c.status_cd.in_(list(OPEN)))
    return connection.execute(asked.order_by(backfills.c.backfill_id.desc()).limit(1)).one_or_none()


def _read(connection: Connection, backfill_id: int) -> Backfill:
    asked = select(backfills, object_info.c.object_name).join(object_info)
    row = connection.execute(asked.where(backfills.c.backfill_id == backfill_id)).one()
    chunks = select(backfill_chunks).where(backfill_chunks.c.backfill_id == backfill_id)
    return Backfill(
        backfill_id=backfill_id,
        stream=row.object_name,
        begin=row.begin_value,
        end=row.end_value,
        parallel=row.parallel,
        rate=row.rate,
        status=Progress(row.status_cd),
        chunks=tuple(_chunk(each) for each in connection.execute(chunks.order_by(backfill_chunks.c.number))),
        created_at=row.created_ts,
    )


def _chunk(row: Row[Any]) -> Chunk:
    return Chunk(
        number=row.number,
        after=row.after_value or None,
        upto=row.upto_value,
        rows=row.row_count,
        status=Progress(row.status_cd),
        attempts=row.attempts,
        seconds=row.seconds,
        error=row.error,
    )


def _row(chunk: Chunk) -> dict[str, Any]:
    return {
        "number": chunk.number,
        "after_value": chunk.after or "",
        "upto_value": chunk.upto,
        "row_count": chunk.rows,
        "status_cd": chunk.status,
        "attempts": chunk.attempts,
        "seconds": chunk.seconds,
        "error": chunk.error,
    }
