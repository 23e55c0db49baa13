"""Leases on streams: only one process works on a stream, for as long as it lives and renews its lease.

A lease only avoids wasted work between runners. Correctness comes from the fence in the table's own commit.
"""

from __future__ import annotations

import threading
import uuid
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Self

from sqlalchemy import ColumnElement, Connection, Row, delete, func, literal, or_, select, update

from tidegate.errors import LeaseHeld, LeaseLost, RegistryError
from tidegate.registry.database import Database, upsert
from tidegate.registry.owner import Owner, is_dead, this_process
from tidegate.registry.tables import UtcTime, leases, object_info

TTL = timedelta(seconds=60)
RENEWALS_PER_TTL = 3
# Tokens of this process's leases that the registry could not be told of when they ended.
_given_up: set[str] = set()


class Lease:
    """A stream held by this process from `__enter__` to `__exit__`, renewed by a thread of its own.

    Raises:
        LeaseHeld: on entering: another runner holds it; the message names user, host, pid and since when.

    Example:
        >>> import tempfile
        >>> from tidegate.registry.store import Registry
        >>> with tempfile.TemporaryDirectory() as folder, Registry.open(f"sqlite:///{folder}/r.db") as registry:
        ...     with registry.lease("a1b2") as lease:
        ...         lease.check()
    """

    def __init__(self, database: Database, uid: str, *, ttl: timedelta = TTL) -> None:
        self._database = database
        self._uid = uid
        self._ttl = ttl
        self._token = uuid.uuid4().hex
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._keep, name=f"lease {uid}", daemon=True)

    def __enter__(self) -> Self:
        me = this_process()
        if not self._take(me, over=None):
            # A lease need not run out if its process died here, or if this one has given it up while the registry
            # could not be reached; the token makes sure it is still that lease.
            holder = self._holder()
            over = holder is not None and (holder.token in _given_up or is_dead(_owner(holder), seen_by=me))
            if not self._take(me, over=holder.token if holder is not None and over else None):
                raise self._held()
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()
        # An unreachable registry must not hide how the work itself ended; for others the lease then runs out by itself.
        _given_up.add(self._token)
        with suppress(RegistryError):
            with self._database.write() as connection:
                connection.execute(delete(leases).where(leases.c.uid == self._uid, leases.c.token == self._token))
            _given_up.discard(self._token)

    def check(self) -> None:
        """Renews; when it returns, the lease is this process's for another ttl.

        Raises:
            LeaseLost: another runner has it, or had it and ended.
        """
        with self._database.write() as connection:
            now, expires = _times(connection, self._ttl)
            own = (leases.c.uid == self._uid) & (leases.c.token == self._token)
            renewed = connection.execute(update(leases).where(own).values(renewed_ts=now, expires_ts=expires))
        if renewed.rowcount != 1:
            stream = self._stream()
            raise LeaseLost(
                f"another runner took over stream {stream} while this one was working on it",
                hint=f"Run again: `tidegate run {stream}`; `tidegate status` shows who works on it now.",
                stream=stream,
                uid=self._uid,
            )

    def _keep(self) -> None:
        while not self._ended.wait(self._ttl.total_seconds() / RENEWALS_PER_TTL):
            try:
                self.check()
            except LeaseLost:
                return  # the pipeline's own check tells it
            except RegistryError:
                continue  # a short outage may end before the ttl does; the pipeline's own check tells otherwise

    def _take(self, me: Owner, *, over: str | None) -> bool:
        with self._database.write() as connection:
            now, expires = _times(connection, self._ttl)
            values: dict[str, Any] = {
                "token": self._token,
                "owner": me.user,
                "host": me.host,
                "host_id": me.host_id,
                "pid": me.pid,
                "process_start": me.process_start,
                "acquired_ts": now,
                "renewed_ts": now,
                "expires_ts": expires,
            }
            free = or_(leases.c.expires_ts <= now, leases.c.token == over)
            insert = upsert(connection, leases).values(uid=self._uid, **values)
            kept = insert.on_conflict_do_update(index_elements=[leases.c.uid], set_=values, where=free)
            return connection.execute(kept.returning(leases.c.token)).one_or_none() is not None

    def _holder(self) -> Row[Any] | None:
        with self._database.read() as connection:
            return connection.execute(select(leases).where(leases.c.uid == self._uid)).one_or_none()

    def _stream(self) -> str:
        """Its name, as people know it."""
        with self._database.read() as connection:
            name = connection.scalar(select(object_info.c.object_name).where(object_info.c.uid == self._uid))
        return str(name or self._uid)

    def _held(self) -> LeaseHeld:
        stream = self._stream()
        holder = self._holder()
        if holder is None:
            return LeaseHeld(f"stream {stream} was held by another runner a moment ago", stream=stream)
        owner, since = _owner(holder), holder.acquired_ts.isoformat(timespec="seconds")
        return LeaseHeld(
            f"stream {stream} is held by {owner.user} on {owner.host}, pid {owner.pid}, since {since}",
            hint="Wait for it to end; `tidegate status` shows it. If that process no longer exists, its lease expires "
            "at "
            f"{holder.expires_ts.isoformat(timespec='seconds')}.",
            stream=stream,
            owner=owner.user,
            host=owner.host,
            pid=owner.pid,
            since=since,
        )


def live_holders(connection: Connection) -> dict[str, str]:
    """Who holds which stream now: uid to `user@host:pid`; not those that are known to have died."""
    now, _ = _times(connection, TTL)
    rows = connection.execute(select(leases).where(leases.c.expires_ts > now)).all()
    me = this_process()
    return {row.uid: str(_owner(row)) for row in rows if not is_dead(_owner(row), seen_by=me)}


def _owner(row: Row[Any]) -> Owner:
    return Owner(user=row.owner, host=row.host, host_id=row.host_id, pid=row.pid, process_start=row.process_start)


def _times(connection: Connection, ttl: timedelta) -> tuple[ColumnElement[Any], ColumnElement[Any]]:
    """Now, and the end of a ttl from now, by the one clock that all runners share: the server's, or this machine's."""
    if connection.dialect.name == "sqlite":
        now = datetime.now(UTC)
        return literal(now, UtcTime), literal(now + ttl, UtcTime)
    clock = func.clock_timestamp()
    return clock, clock + literal(ttl)
