"""The safe upper bound of an Oracle table: how far it can be read without missing rows still being written.

Computed before the snapshot is taken. The start of a transaction alone is not enough: SYSTIMESTAMP is the start of a
statement, and a transaction begins with the first row that it changes. Never trusts views of one instance of a cluster.
"""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

from tidegate.core.bounds import Clock
from tidegate.core.changes import SafeBound
from tidegate.core.ports.dialect import Dialect, Relation, Row
from tidegate.core.schema import Column, Kind
from tidegate.dialects.shared.time_bounds import inclusive, must_be_time
from tidegate.errors import ColumnMissing, ConfigError, EdgeUnknown

# The views count whole seconds, and some of them every third one.
SETTLE = timedelta(seconds=5)
POLL = 0.2
NAMED = 3
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECOND, TICK = timedelta(seconds=1), timedelta(microseconds=1)
FINE = re.compile(r"TIMESTAMP\([6-9]\)")

ROLE = "SELECT sys_context('USERENV', 'DATABASE_ROLE') FROM dual"
NOW = """
SELECT to_char((CAST(sys_extract_utc(systimestamp) AS date) - DATE '1970-01-01') * 86400, 'FM99999999999990') FROM dual
"""
# By the age of the lock that each transaction has, for its start is a local time, of which an hour comes twice; without
# that lock an hour more.
TRANSACTIONS = """
SELECT t.inst_id || '/' || t.xidusn || '/' || t.xidslot || '/' || t.xidsqn, coalesce(s.sid, 0), coalesce(s.serial#, 0),
  coalesce(s.username, 'unknown'), ceil(coalesce(l.ctime, (sysdate - t.start_date) * 86400 + 3600))
FROM gv$transaction t
LEFT JOIN gv$session s ON s.inst_id = t.inst_id AND s.saddr = t.ses_addr
LEFT JOIN gv$lock l ON l.inst_id = t.inst_id AND l.type = 'TX' AND l.lmode = 6
  AND l.id1 = t.xidusn * 65536 + t.xidslot AND l.id2 = t.xidsqn
"""
# What runs: its statement may have taken the time, or a number, before its transaction begins.
CALLS = """
SELECT s.inst_id || '/' || s.sid || '/' || s.serial#, s.sid, s.serial#, s.username, s.last_call_et
FROM gv$session s WHERE s.status = 'ACTIVE' AND s.type = 'USER' AND s.username IS NOT NULL
  AND NOT (s.sid = sys_context('USERENV', 'SID') AND s.inst_id = sys_context('USERENV', 'INSTANCE'))
"""
PREPARED = "SELECT local_tran_id FROM sys.dba_2pc_pending WHERE state = 'prepared' ORDER BY 1"
INSTANCES = "SELECT count(DISTINCT inst_id) FROM gv$session"
IDENTITY = """
SELECT identity_options FROM all_tab_identity_cols
WHERE owner = {owner} AND table_name = {table} AND column_name = {name}
"""
LINKS = """
SELECT db_link FROM all_synonyms
WHERE owner IN ({owners}) AND synonym_name = {table} AND db_link IS NOT NULL
UNION
SELECT referenced_link_name FROM all_dependencies
WHERE owner = {owner} AND name = {table} AND referenced_link_name IS NOT NULL
"""
QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|--[^\n]*|/\*.*?\*/", re.DOTALL)
"""Texts, names and comments, in which an @ is no link."""
VIEWS = ("GV_$TRANSACTION", "GV_$SESSION", "GV_$LOCK", "DBA_2PC_PENDING")


class BoundsSession(Protocol):
    """What the questions here need of a session: statements outside of its snapshot."""

    name: str

    @property
    def dialect(self) -> Dialect:
        """The SQL that the session speaks."""

    @property
    def user(self) -> str:
        """The user, as a statement holds it."""

    def ask(self, sql: str) -> list[Row]:
        """The rows of a statement that sees what is committed now."""

    def place(self, relation: Relation) -> tuple[str, str]:
        """The expressions of a table's owner and name."""

    def schema_of(self, relation: Relation) -> str | None:
        """See `Session.schema_of`."""


def safe_time_bound(  # noqa: PLR0913 - the question as strategies ask it
    session: BoundsSession, relation: Relation, column: Column, *, clock: Clock, lag: timedelta, time_zone: str | None
) -> SafeBound:
    """The bound least(clock - 5 s, the start of all that is open or runs), less what the type rounds, and the lag."""
    must_be_time(column.name, column.type)
    where = _zone(column, time_zone)
    if clock is Clock.APPLICATION:
        return SafeBound(upto=inclusive(_now(session), lag, column.type, where))
    _must_be_primary(session)
    _must_be_here(session, relation)
    # Before anybody is looked at: what begins in between starts later.
    now = _now(session)
    # Calls first: one that ends in between leaves its transaction open, which is then among the transactions.
    calls = [(row, "running") for row in _seen(session, CALLS)]
    writers = [*calls, *((row, "in a transaction") for row in _seen(session, TRANSACTIONS))]
    _must_be_complete(session)
    began = [(row, doing, now - timedelta(seconds=int(row[4])) - SETTLE) for row, doing in writers]
    bound = min([now - SETTLE, *(since for _, _, since in began)]) - (
        TICK if FINE.match(column.native or "") else SECOND
    )
    oldest = sorted((each for each in began if each[2] < now - SETTLE), key=lambda each: each[2])
    held_by = tuple(_who(row, doing, since) for row, doing, since in oldest[:NAMED])
    return SafeBound(upto=inclusive(bound, lag, column.type, where), held_by=held_by)


def safe_sequence_bound(session: BoundsSession, relation: Relation, column: Column, *, wait: timedelta) -> SafeBound:
    """The greatest id once all who could have taken a smaller one have ended; None while they are open."""
    if column.type.kind is not Kind.INTEGER and not (column.type.kind is Kind.DECIMAL and column.type.scale == 0):
        raise ConfigError(
            f"column {column.name!r} is {column.type}, and a sequence needs an integer",
            hint=f"Read a NUMBER without digits as one: `source: {{columns: {{{column.name}: bigint}}}}`.",
        )
    _must_be_counted(session, relation, column)
    _must_be_primary(session)
    ((highest,),) = session.ask(f"SELECT to_char(max({session.dialect.quote(column.name)}), 'TM9') FROM {relation.sql}")
    # Between taking a number and being listed lies no wait, but a moment.
    time.sleep(POLL)
    calls = {row[0]: row for row in _seen(session, CALLS)}
    open_ones = {row[0]: row for row in _seen(session, TRANSACTIONS)}
    _must_be_complete(session)
    deadline = time.monotonic() + wait.total_seconds()
    while (calls or open_ones) and time.monotonic() < deadline:
        time.sleep(POLL)
        still = {row[0]: row for row in _seen(session, CALLS)}
        found = {row[0]: row for row in _seen(session, TRANSACTIONS)}
        # A call that has run for a shorter time than before is the session's next one.
        ended = {mark for mark, row in calls.items() if mark not in still or still[mark][4] < row[4]}
        # What it has changed may be in a transaction that it leaves open.
        left = {tuple(calls[mark][1:3]) for mark in ended}
        open_ones = {m: row for m, row in found.items() if m in open_ones or tuple(row[1:3]) in left}
        calls = {mark: still[mark] for mark in calls if mark not in ended}
    if calls or open_ones:
        _must_be_complete(session)
        rows = [*((row, "running") for row in calls.values()), *((row, "writing") for row in open_ones.values())]
        return SafeBound(upto=None, held_by=tuple(_who(row, doing, None) for row, doing in rows[:NAMED]))
    return SafeBound(upto=highest)


def _must_be_counted(session: BoundsSession, relation: Relation, column: Column) -> None:
    """Raises EdgeUnknown where numbers may come in any order."""
    if not relation.parts:
        raise EdgeUnknown(
            f"{relation.label} is a query, so it is unknown who is still writing to its tables",
            hint="Name the table with `source: {table: …}`, or use another strategy.",
        )
    owner, table = session.place(relation)
    rows = session.ask(IDENTITY.format(owner=owner, table=table, name=session.dialect.string(column.name)))
    if not rows:
        raise EdgeUnknown(
            f"column {column.name!r} of {relation.label} is no identity column: a number of a sequence may be taken "
            "long before its row is written",
            hint="Use a column `GENERATED … AS IDENTITY` of the table itself, or another strategy.",
        )
    said = dict(part.split(": ", 1) for part in str(rows[0][0]).split(", ") if ": " in part)
    if int(said.get("INCREMENT BY", "0")) < 1 or said.get("CYCLE_FLAG") != "N":
        raise EdgeUnknown(
            f"column {column.name!r} of {relation.label} does not count upwards for ever", hint="Use another strategy."
        )
    ((instances,),) = _seen(session, INSTANCES)
    if instances > 1 and said.get("ORDER_FLAG") != "Y":
        raise EdgeUnknown(
            f"column {column.name!r} of {relation.label} is numbered by each of {instances} instances from a cache of "
            "its own, so a smaller number may still arrive",
            hint=f"`ALTER TABLE … MODIFY {column.name} GENERATED … AS IDENTITY (ORDER)`, or use another strategy.",
        )


def _must_be_here(session: BoundsSession, relation: Relation) -> None:
    """Raises EdgeUnknown where rows are written in another database, as far as the name, a view or a query says so."""
    if relation.parts:
        owner, table = session.place(relation)
        own = len(relation.parts) > 1 or session.schema_of(relation) is not None
        owners = owner if own else f"{owner}, 'PUBLIC'"
        links = [link for (link,) in session.ask(LINKS.format(owner=owner, owners=owners, table=table))]
    else:
        links = re.findall(r"@\s*([\w.$#@]*)", QUOTED.sub(" ", relation.sql))
    if links:
        raise EdgeUnknown(
            f"{relation.label} reads another database by the link {links[0]}, and it is not known here who is still "
            "writing there",
            hint="Connect to the database that has the rows, or use `strategy: {kind: full}`, or `clock: application` "
            "with a `safety_lag` and a `lookback`.",
        )


def _must_be_primary(session: BoundsSession) -> None:
    ((role,),) = session.ask(ROLE)
    if role != "PRIMARY":
        raise EdgeUnknown(
            f"connection {session.name!r} is a {str(role).lower()}, which does not know the transactions of its "
            f"primary",
            hint="Connect to the primary, or use `strategy: {kind: full}`, or `clock: application` with a "
            "`safety_lag` longer than the longest transaction and the replication lag.",
        )


def _must_be_complete(session: BoundsSession) -> None:
    """Raises EdgeUnknown where transactions exist whose start nobody here can know."""
    prepared = _seen(session, PREPARED)
    if prepared:
        names = ", ".join(str(row[0]) for row in prepared[:NAMED])
        raise EdgeUnknown(
            f"connection {session.name!r}: the distributed transactions {names} are in doubt, and hold rows whose time "
            "is unknown",
            hint="Finish them with `COMMIT FORCE` or `ROLLBACK FORCE`, then run again.",
        )


def _seen(session: BoundsSession, sql: str) -> list[Row]:
    """The rows of a view that few may see. Raises EdgeUnknown: this user may not."""
    try:
        return session.ask(sql)
    except ColumnMissing as error:
        grants = "; ".join(f"GRANT SELECT ON SYS.{view} TO {session.user}" for view in VIEWS)
        raise EdgeUnknown(
            f"connection {session.name!r}: this user may not see the transactions of others, so rows that are still "
            "being written could be lost",
            hint=f"Let this user see them: `{grants}`; or set "
            "`strategy: {clock: application, safety_lag: …, lookback: …}`.",
        ) from error


def _zone(column: Column, time_zone: str | None) -> str:
    """The zone of a column. Raises ConfigError: it has none, and nobody says in which one it is written."""
    if column.type.kind is Kind.TIMESTAMPTZ:
        return "UTC"
    if time_zone is not None:
        return time_zone
    raise ConfigError(
        f"column {column.name!r} has no time zone, and Oracle does not name its server's",
        hint="Set `strategy: {time_zone: Europe/Oslo}` or similar: the zone of the server's system for SYSDATE and "
        "SYSTIMESTAMP, that of the sessions for CURRENT_DATE.",
    )


def _now(session: BoundsSession) -> datetime:
    """The time of the server, to the second."""
    ((now,),) = session.ask(NOW)
    return EPOCH + timedelta(seconds=int(now))


def _who(row: Row, doing: str, since: datetime | None) -> str:
    when = f" since {since.isoformat()}" if since is not None else ""
    return f"session {row[1]},{row[2]} of user {row[3]}, {doing}{when}"
