"""The safe upper bound of a SQL Server table: how far it can be read without missing rows still being written.

Computed before the snapshot is taken. Never trusts a view that shows this login only some of the sessions.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

from tidegate.core.bounds import Clock
from tidegate.core.changes import SafeBound
from tidegate.core.ports.dialect import Dialect, Relation, Row
from tidegate.core.schema import Column, Kind
from tidegate.dialects.shared.time_bounds import inclusive, must_be_time
from tidegate.dialects.sqlserver.catalog import object_id
from tidegate.dialects.sqlserver.types import ROW_VERSION, word_of
from tidegate.errors import ConfigError, EdgeUnknown

# Between the moment a statement takes the time and the one at which others can see it run.
SETTLE = timedelta(seconds=1)
# What the views show as the beginning is rounded to thirds of a hundredth of a second.
ROUNDED = timedelta(milliseconds=10)
# By how much a value may lie before the time that was written, for these types round.
ROUNDING = {"smalldatetime": timedelta(seconds=30), "datetime": timedelta(milliseconds=2)}
FRACTION = timedelta(milliseconds=500)
POLL = 0.05
NAMED = 3
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
AZURE = 5  # the edition that is one database without a server of its own
SINCE_2022 = 16
UTC_NAME = "(UTC) Coordinated Universal Time"

ABOUT = """
SELECT CAST(serverproperty('EngineEdition') AS int), CAST(serverproperty('ProductMajorVersion') AS int),
  current_timezone(),
  coalesce(has_perms_by_name(NULL, NULL, 'VIEW SERVER STATE'), 0),
  coalesce(has_perms_by_name(NULL, NULL, 'VIEW SERVER PERFORMANCE STATE'), 0),
  coalesce(has_perms_by_name(NULL, 'DATABASE', 'VIEW DATABASE STATE'), 0),
  coalesce(has_perms_by_name(NULL, 'DATABASE', 'VIEW DATABASE PERFORMANCE STATE'), 0)
"""
NOW = "SELECT datediff_big(microsecond, CAST('1970-01-01' AS datetime2(7)), sysutcdatetime())"
# 2 reads only, 3 is the server's own. What runs counts from the beginning of its batch, which may have taken the time
# into a variable; a batch that waits has taken none that it will not take again.
OPEN = """
SELECT 'transaction', t.transaction_id, coalesce(s.session_id, 0), coalesce(e.login_name, ''), {transaction}
FROM sys.dm_tran_active_transactions AS t
LEFT JOIN sys.dm_tran_session_transactions AS s ON s.transaction_id = t.transaction_id
LEFT JOIN sys.dm_exec_sessions AS e ON e.session_id = s.session_id
WHERE t.transaction_type NOT IN (2, 3) AND coalesce(s.session_id, 0) <> @@SPID
UNION ALL
SELECT 'request', CAST(r.session_id AS bigint), r.session_id, e.login_name, {request}
FROM sys.dm_exec_requests AS r JOIN sys.dm_exec_sessions AS e ON e.session_id = r.session_id
WHERE e.is_user_process = 1 AND r.session_id <> @@SPID AND r.command <> 'WAITFOR'
"""
MICROS = "datediff_big(microsecond, CAST('1970-01-01' AS datetime2(7)), CAST({} AS datetime2(7)))"
IDENTITY = """
SELECT CAST(i.increment_value AS bigint), i.is_not_for_replication FROM sys.identity_columns AS i
WHERE i.object_id = {object} AND i.name = {column}
"""


class BoundsSession(Protocol):
    """What the questions here need of a session."""

    name: str
    writable: bool

    @property
    def dialect(self) -> Dialect:
        """The SQL that the session speaks."""

    @property
    def user(self) -> str:
        """The user in the database, as a statement holds it."""

    @property
    def login(self) -> str:
        """The login at the server, as a statement holds it."""

    def ask(self, sql: str) -> list[Row]:
        """The rows of a statement outside of the snapshot."""


def safe_time_bound(
    session: BoundsSession, column: Column, *, clock: Clock, lag: timedelta, time_zone: str | None
) -> SafeBound:
    """The bound least(clock - 1 s, the beginning of all that is open or runs), less what the type rounds, and the lag.

    Of a row version: below the least one that an open transaction has taken, which the server itself knows.
    """
    if word_of(column) == ROW_VERSION:
        return _row_version(session, column, lag)
    must_be_time(column.name, column.type)
    edition, version, zone, *grants = _about(session)
    where = "UTC" if column.type.kind is Kind.TIMESTAMPTZ else time_zone or _zone(session, column, zone)
    if clock is Clock.APPLICATION:
        return SafeBound(upto=inclusive(_now(session), lag, column.type, where))
    _must_be_primary(session)
    _must_see_all(session, edition, grants)
    # Before anybody is looked at: what begins in between starts later.
    settled = _now(session) - SETTLE
    writers = [(row, _began(row)) for row in session.ask(_open(edition, version, zone))]
    holding = sorted(((row, since) for row, since in writers if since < settled), key=lambda each: each[1])
    bound = min([settled, *(since for _, since in holding)]) - _rounding(column)
    held_by = tuple(_who(row, since) for row, since in holding[:NAMED])
    return SafeBound(upto=inclusive(bound, lag, column.type, where), held_by=held_by)


def safe_sequence_bound(session: BoundsSession, relation: Relation, column: Column, *, wait: timedelta) -> SafeBound:
    """The greatest id once all who could have taken a smaller one have ended; None while they are open."""
    if column.type.kind is not Kind.INTEGER and not (column.type.kind is Kind.DECIMAL and column.type.scale == 0):
        raise ConfigError(f"column {column.name!r} is {column.type}, and a sequence needs an integer")
    _must_be_counted(session, relation, column)
    _must_be_primary(session)
    edition, version, zone, *grants = _about(session)
    _must_see_all(session, edition, grants)
    ((highest,),) = session.ask(f"SELECT max({session.dialect.quote(column.name)}) FROM {relation.sql}")
    # Between taking a number and being listed lies no wait, but a moment.
    time.sleep(POLL)
    asked = _open(edition, version, zone)
    holders = {tuple(row[:2]): row for row in session.ask(asked)}
    deadline = time.monotonic() + wait.total_seconds()
    while holders and time.monotonic() < deadline:
        time.sleep(POLL)
        still = {tuple(row[:2]) for row in session.ask(asked)}
        holders = {mark: row for mark, row in holders.items() if mark in still}
    if holders:
        return SafeBound(upto=None, held_by=tuple(_who(row, _began(row)) for row in list(holders.values())[:NAMED]))
    return SafeBound(upto=None if highest is None else str(highest))


def _row_version(session: BoundsSession, column: Column, lag: timedelta) -> SafeBound:
    if lag:
        raise ConfigError(
            f"column {column.name!r} holds row versions, which are no times, so `safety_lag` means nothing for it",
            hint="Leave `safety_lag` out: the server itself knows which versions are still being written.",
        )
    _must_be_primary(session)
    ((least,),) = session.ask("SELECT CAST(min_active_rowversion() AS bigint)")
    return SafeBound(upto=str(int(least) - 1))


def _must_be_counted(session: BoundsSession, relation: Relation, column: Column) -> None:
    """Raises EdgeUnknown where numbers may come in any order."""
    if word_of(column) == ROW_VERSION:
        raise EdgeUnknown(
            f"column {column.name!r} of {relation.label} changes with every update, so its rows are not only new ones",
            hint=f"Use `strategy: {{kind: watermark, column: {column.name}}}`.",
        )
    if not relation.parts:
        raise EdgeUnknown(
            f"{relation.label} is a query, so it is unknown who is still writing to its tables",
            hint="Name the table with `source: {table: …}`, or use another strategy.",
        )
    found = session.ask(IDENTITY.format(object=object_id(relation), column=session.dialect.string(column.name)))
    if not found:
        raise EdgeUnknown(
            f"column {column.name!r} of {relation.label} is not IDENTITY, so its numbers may arrive in any order",
            hint="Use an IDENTITY column of the table itself, or another strategy.",
        )
    ((step, replicated),) = found
    if step < 1 or replicated:
        why = f"counts by {step}" if step < 1 else "is NOT FOR REPLICATION, so an agent may insert numbers of elsewhere"
        raise EdgeUnknown(f"column {column.name!r} of {relation.label} {why}", hint="Use another strategy.")


def _must_be_primary(session: BoundsSession) -> None:
    """Raises EdgeUnknown where rows arrive that others wrote at a time of their own."""
    if not session.writable:
        raise EdgeUnknown(
            f"connection {session.name!r} is a secondary or read-only, which does not know the transactions of its "
            f"primary",
            hint="Connect to the primary, or use `strategy: {kind: full}`, or `clock: application` with a "
            "`safety_lag` longer than the longest transaction and the replication lag.",
        )


def _must_see_all(session: BoundsSession, edition: int, grants: list[int]) -> None:
    """Raises EdgeUnknown where the views would leave out the sessions of others, some of them without an error."""
    server, performance, database, of_database = grants
    if (database or of_database) if edition == AZURE else (server or performance):
        return
    right = f"VIEW DATABASE STATE TO {session.user}" if edition == AZURE else f"VIEW SERVER STATE TO {session.login}"
    raise EdgeUnknown(
        f"connection {session.name!r}: this login may not see the transactions of others, so rows that are still being "
        "written could be lost",
        hint=f"Let this login see them: `GRANT {right}`; or follow a `rowversion` column, which "
        "needs no grant; or set `strategy: {clock: application, safety_lag: …, lookback: …}`.",
    )


def _about(session: BoundsSession) -> Row:
    ((edition, version, zone, *grants),) = session.ask(ABOUT)
    return (int(edition), int(version or 0), str(zone), *(int(grant) for grant in grants))


def _open(edition: int, version: int, zone: str) -> str:
    """The statement whose rows are all that is open or runs, each with its beginning as microseconds since 1970."""
    return OPEN.format(
        transaction=_instant("t.transaction_begin_time", edition, version, zone),
        request=_instant("r.start_time", edition, version, zone),
    )


def _instant(local: str, edition: int, version: int, zone: str) -> str:
    """The earliest instant that a time of the server's own clock can stand for; an hour may have come twice."""
    if zone == UTC_NAME:
        return MICROS.format(local)
    if edition == AZURE or version >= SINCE_2022:
        there = "current_timezone_id()"
        later = f"{local} AT TIME ZONE {there} AT TIME ZONE 'UTC'"
        before = f"dateadd(hour, -1, {later})"
        same = f"CAST({before} AT TIME ZONE {there} AS datetime) = {local}"
        return MICROS.format(f"CASE WHEN {same} THEN {before} ELSE {later} END")
    # Nothing tells when the clock was put back last.
    return MICROS.format(f"dateadd(minute, -datepart(tzoffset, sysdatetimeoffset()) - 60, {local})")


def _rounding(column: Column) -> timedelta:
    word = word_of(column)
    exact = column.type.kind is Kind.DATE or (column.native or "").endswith("(7)")
    return ROUNDING.get(word, timedelta(0) if exact else FRACTION)


def _zone(session: BoundsSession, column: Column, zone: str) -> str:
    """The server's time zone for a column that has none of its own.

    Raises:
        ConfigError: it has another name elsewhere.
    """
    if zone == UTC_NAME:
        return "UTC"
    raise ConfigError(
        f"connection {session.name!r}: column {column.name!r} has no time zone, and the server's own is {zone!r}",
        hint="Set `strategy: {time_zone: Europe/Oslo}` or similar: the zone in which the writers set the column, UTC "
        "for `sysutcdatetime()`.",
    )


def _now(session: BoundsSession) -> datetime:
    ((now,),) = session.ask(NOW)
    return EPOCH + timedelta(microseconds=int(now))


def _began(row: Row) -> datetime:
    return EPOCH + timedelta(microseconds=int(row[4])) - ROUNDED


def _who(row: Row, since: datetime) -> str:
    doing = "in a transaction" if row[0] == "transaction" else "running"
    return f"session {row[2]} of login {row[3] or 'unknown'}, {doing} since {since.isoformat()}"
