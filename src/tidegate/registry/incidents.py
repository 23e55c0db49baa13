"""Stores incidents, and the messages about them until they are sent; of several processes at once, one sends each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, select, update

from tidegate.core.incidents import Changes, Incident
from tidegate.registry.database import Database, upsert
from tidegate.registry.tables import incidents, notices

TRY_AGAIN = timedelta(minutes=5)
"""A message that was not delivered, or whose sender died, is sent again after so long."""
GIVE_UP = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """A message to one channel.

    Args:
        kind: `opened`, `repeated` or `recovered`.
    """

    channel: str
    kind: str
    title: str
    body: str
    number: int = 0
    attempts: int = 0
    created_at: datetime | None = None


class Incidents:
    """The open incidents of a registry; every call is one transaction."""

    def __init__(self, database: Database, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._clock = clock

    def open(self) -> list[Incident]:
        """Every incident that has not ended, oldest first."""
        with self._database.read() as connection:
            rows = connection.execute(select(incidents).order_by(incidents.c.opened_ts, incidents.c.rule))
            return [_incident(row) for row in rows]

    def change(
        self, changes: Changes, messages: Callable[[str, Incident], Sequence[Notice]]
    ) -> dict[str, tuple[Incident, ...]]:
        """Keeps what changed, and the messages about it; by kind, what no other process has kept before.

        Args:
            messages: those about an incident, by kind.
        """
        steps = {"opened": changes.opened, "repeated": changes.repeated, "recovered": changes.recovered}
        work = {"opened": _open, "repeated": _update_announced, "recovered": _close}
        kept: dict[str, tuple[Incident, ...]] = {}
        with self._database.write() as connection:
            for kind, listed in steps.items():
                kept[kind] = tuple(each for each in listed if work[kind](connection, each))
                for each in kept[kind]:
                    _add(connection, each, messages(kind, each), self._clock())
            for each in changes.ended:
                _close(connection, each)
        return kept

    def claim(self, channels: Container[str]) -> list[Notice]:
        """Messages that this process has to send now: nobody else gets them within five minutes."""
        now = self._clock()
        waiting = (notices.c.sent_ts.is_(None)) & (notices.c.created_ts > now - GIVE_UP)
        free = notices.c.claimed_ts.is_(None) | (notices.c.claimed_ts <= now - TRY_AGAIN)
        with self._database.write() as connection:
            found = [
                row for row in connection.execute(select(notices).where(waiting & free)) if row.channel in channels
            ]
            return [_notice(row) for row in found if _claimed(connection, row, now)]

    def reported(self, rules: Collection[str]) -> dict[str, datetime]:
        """By stream when the last message about one of these rules was made; its uid is the key."""
        last = select(notices.c.uid, func.max(notices.c.created_ts)).where(notices.c.rule.in_(rules))
        with self._database.read() as connection:
            return {uid: at for uid, at in connection.execute(last.group_by(notices.c.uid))}  # noqa: C416 - as rows are

    def sent(self, notice: Notice) -> None:
        """The message was delivered."""
        with self._database.write() as connection:
            same_notice = notices.c.notice_id == notice.number
            connection.execute(update(notices).where(same_notice).values(sent_ts=self._clock(), error=None))

    def failed(self, notice: Notice, error: str) -> None:
        """It was not, and will be sent again."""
        with self._database.write() as connection:
            connection.execute(update(notices).where(notices.c.notice_id == notice.number).values(error=error))

    def undelivered(self) -> list[tuple[Notice, str]]:
        """Messages of the last day that a channel did not take, and why."""
        since = self._clock() - GIVE_UP
        waiting = notices.c.sent_ts.is_(None) & notices.c.error.is_not(None) & (notices.c.created_ts > since)
        with self._database.read() as connection:
            rows = connection.execute(select(notices).where(waiting).order_by(notices.c.notice_id)).all()
            return [(_notice(row), row.error) for row in rows]


def _open(connection: Connection, new: Incident) -> bool:
    values = {
        "rule": new.rule,
        "uid": new.uid,
        "stream": new.stream,
        "why": new.why,
        "opened_ts": new.opened_at,
        "told_ts": new.announced_at,
    }
    # Not `rowcount`: of such a statement PostgreSQL's driver does not tell it.
    added = upsert(connection, incidents).values(values).on_conflict_do_nothing().returning(incidents.c.rule)
    return connection.execute(added).first() is not None


def _update_announced(connection: Connection, known: Incident) -> bool:
    """The incident as it is now; false where another process has told it in the meantime."""
    same = (incidents.c.rule == known.rule) & (incidents.c.uid == known.uid)
    earlier = incidents.c.told_ts < known.announced_at
    changed = update(incidents).where(same & earlier).values(told_ts=known.announced_at, why=known.why)
    return bool(connection.execute(changed).rowcount)


def _close(connection: Connection, known: Incident) -> bool:
    same = (incidents.c.rule == known.rule) & (incidents.c.uid == known.uid)
    return bool(connection.execute(delete(incidents).where(same & (incidents.c.opened_ts == known.opened_at))).rowcount)


def _add(connection: Connection, incident: Incident, messages: Sequence[Notice], now: datetime) -> None:
    rows = [
        {
            "rule": incident.rule,
            "uid": incident.uid,
            "kind": each.kind,
            "channel": each.channel,
            "title": each.title,
            "body": each.body,
            "created_ts": now,
            "attempts": 0,
        }
        for each in messages
    ]
    if rows:
        connection.execute(insert(notices), rows)


def _claimed(connection: Connection, row: Row[Any], now: datetime) -> bool:
    before = notices.c.claimed_ts.is_(None) if row.claimed_ts is None else notices.c.claimed_ts == row.claimed_ts
    claim = update(notices).where((notices.c.notice_id == row.notice_id) & before & notices.c.sent_ts.is_(None))
    return bool(connection.execute(claim.values(claimed_ts=now, attempts=row.attempts + 1)).rowcount)


def _incident(row: Row[Any]) -> Incident:
    return Incident(
        rule=row.rule, uid=row.uid, stream=row.stream, why=row.why, opened_at=row.opened_ts, announced_at=row.told_ts
    )


def _notice(row: Row[Any]) -> Notice:
    return Notice(
        channel=row.channel,
        kind=row.kind,
        title=row.title,
        body=row.body,
        number=row.notice_id,
        attempts=row.attempts,
        created_at=row.created_ts,
    )
