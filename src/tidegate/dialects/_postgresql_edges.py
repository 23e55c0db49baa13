"""Decides how far a growing PostgreSQL table can be read without losing a row that is still being written.

Asked by strategies through the probe, before the snapshot is taken. Must never use a bound that another session
can undercut: not xids, not xmin, not the snapshot, not the time of a PREPARE; where one is hidden, it stops.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from tidegate.core.changes import Edge
from tidegate.core.protocols import Clock
from tidegate.core.schema import Column, Kind
from tidegate.dialects._bounds import inclusive, must_be_time
from tidegate.dialects._dialect import Relation, Row
from tidegate.dialects._postgresql_catalog import oid_of
from tidegate.errors import ConfigError, EdgeUnknown

if TYPE_CHECKING:
    from tidegate.dialects._postgresql_session import PostgresqlSession

# Between the start of a transaction and the moment others can see it.
SETTLE = timedelta(seconds=1)
POLL = 0.02
NAMED = 3
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# Autovacuum writes no rows; workers of the system have no user and are hidden from nobody.
SESSIONS = """
SELECT pid, coalesce(application_name, ''), usename::text, (extract(epoch FROM xact_start) * 1000000)::bigint,
       query = '<insufficient privilege>' OR state = 'disabled'
         OR (xact_start IS NULL AND (state LIKE 'idle in transaction%' OR backend_xid IS NOT NULL))
FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND usesysid IS NOT NULL
  AND coalesce(backend_type, '') <> 'autovacuum worker'
ORDER BY xact_start NULLS LAST, pid
"""
PREPARED = "SELECT gid FROM pg_prepared_xacts WHERE database = current_database() ORDER BY prepared"
HOLDERS = """
SELECT DISTINCT l.virtualtransaction, coalesce(l.pid, 0), coalesce(a.application_name, ''), a.usename::text
FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.locktype = 'relation' AND l.mode = 'RowExclusiveLock' AND l.granted
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND l.relation = ANY('{{{oids}}}'::oid[]) AND l.pid IS DISTINCT FROM pg_backend_pid()
"""
SEQUENCES = """
SELECT DISTINCT s.seqrelid::bigint, s.seqrelid::regclass::text, s.seqcache, s.seqincrement, s.seqcycle
FROM pg_sequence s JOIN pg_depend d ON
  (d.classid = 'pg_class'::regclass AND d.objid = s.seqrelid AND d.refclassid = 'pg_class'::regclass
   AND d.deptype IN ('a', 'i') AND (d.refobjid, d.refobjsubid) IN ({columns}))
  OR (d.refclassid = 'pg_class'::regclass AND d.refobjid = s.seqrelid AND d.classid = 'pg_attrdef'::regclass
   AND d.objid IN (SELECT oid FROM pg_attrdef WHERE (adrelid, adnum) IN ({columns})))
"""


def time_edge(
    session: PostgresqlSession, column: Column, *, clock: Clock, lag: timedelta, time_zone: str | None
) -> Edge:
    """The bound least(clock - 1 s, the start of every other transaction), less one microsecond and the lag."""
    must_be_time(column.name, column.type)
    if clock is Clock.DATABASE:
        _must_be_complete(session)
    # Its own statement, before the sessions are looked at: a transaction that begins in between starts later.
    ((now, server_zone),) = session.outside(
        "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, current_setting('TimeZone')"
    )
    sessions = session.outside(SESSIONS)
    hidden = [row for row in sessions if row[4]]
    if hidden and clock is Clock.DATABASE:
        raise EdgeUnknown(
            f"connection {session.name!r}: the start of the transaction of {_named(hidden)} is hidden, so rows that it "
            "is still writing could be lost",
            hint="Let this user see it: `GRANT pg_read_all_stats TO …` (and keep track_activities on); or set "
            "`strategy: {clock: application, safety_lag: …, lookback: …}`.",
        )
    settled = EPOCH + timedelta(microseconds=now) - SETTLE
    open_ones = [(row, EPOCH + timedelta(microseconds=row[3])) for row in sessions if row[3] is not None]
    holding = [(row, since) for row, since in open_ones if since < settled]
    bound = min([settled, *(since for _, since in holding)])
    held_by = tuple(f"{_who(row)}, in a transaction since {since.isoformat()}" for row, since in holding[:NAMED])
    return Edge(upto=inclusive(bound - lag, column.type, time_zone or server_zone), held_by=held_by)


def sequence_edge(
    session: PostgresqlSession, relation: Relation, column: Column, *, since: str | None, wait: timedelta
) -> Edge:
    """The greatest id once every transaction that could still add a smaller one has ended."""
    if column.type.kind is not Kind.INTEGER:
        raise ConfigError(f"column {column.name!r} is {column.type}, and a sequence needs an integer")
    if not relation.parts:
        raise EdgeUnknown(
            f"{relation.label} is a query, and nobody can tell who is still writing to its tables",
            hint="Name the table with `source: {table: …}`, or use another strategy.",
        )
    _must_be_primary(session)
    tables = _tree(session, relation)
    sequences = _sequences(session, tables, column.name)
    quoted = session.dialect.quote(column.name)
    ((highest,),) = session.outside(f"SELECT max({quoted}) FROM {relation.sql}")
    # Only now: who held no lock by this moment takes an id above the highest.
    holders = session.outside(_holders(tables + sequences))
    deadline = time.monotonic() + wait.total_seconds()
    while holders and time.monotonic() < deadline:
        time.sleep(POLL)
        still = {(row[0], row[1]) for row in session.outside(_holders(tables + sequences))}
        holders = [row for row in holders if (row[0], row[1]) in still]
    if holders:
        named = (f"{_writer(row)}, writing to {relation.label}" for row in holders[:NAMED])
        return Edge(upto=since, held_by=tuple(named))
    return Edge(upto=since if highest is None else str(highest))


def _must_be_complete(session: PostgresqlSession) -> None:
    """Raises EdgeUnknown where transactions exist whose start nobody here can know."""
    _must_be_primary(session)
    prepared = session.outside(PREPARED)
    if prepared:
        names = ", ".join(repr(gid) for (gid,) in prepared[:NAMED])
        raise EdgeUnknown(
            f"connection {session.name!r}: the prepared transactions {names} hold rows of an unknown time",
            hint="Finish it with `COMMIT PREPARED` or `ROLLBACK PREPARED`, then run again.",
        )


def _must_be_primary(session: PostgresqlSession) -> None:
    ((standby,),) = session.outside("SELECT pg_is_in_recovery()")
    if standby:
        raise EdgeUnknown(
            f"connection {session.name!r} is a standby, which does not know the transactions of its primary",
            hint="Connect to the primary, or use `strategy: {kind: full}`, or `clock: application` with a "
            "`safety_lag` above the longest transaction and the delay of the standby.",
        )


def _tree(session: PostgresqlSession, relation: Relation) -> list[int]:
    oid = oid_of(session, relation)
    heirs = session.outside(
        f"WITH RECURSIVE tree AS (SELECT {oid}::oid AS oid UNION SELECT i.inhrelid FROM pg_inherits i JOIN tree "
        "ON i.inhparent = tree.oid) SELECT oid::bigint FROM tree"
    )
    return [row[0] for row in heirs]


def _sequences(session: PostgresqlSession, tables: list[int], column: str) -> list[int]:
    """The sequences behind a column; refused when what they hand out does not grow with time."""
    name = session.dialect.string(column)
    numbers = session.outside(
        f"SELECT attrelid::bigint, attnum FROM pg_attribute WHERE attname = {name} "
        f"AND attrelid = ANY('{{{_list(tables)}}}')"
    )
    pairs = ", ".join(f"({table}, {number})" for table, number in numbers)
    found = session.outside(SEQUENCES.format(columns=pairs))
    if not found:
        raise EdgeUnknown(
            f"no sequence of the database fills column {column!r}, so its numbers may arrive in any order",
            hint="Use a column that is an identity or has a sequence as its default, or another strategy.",
        )
    for _, sequence, cache, step, cycles in found:
        if cache > 1 or step < 0 or cycles:
            why = f"CACHE {cache}" if cache > 1 else "CYCLE" if cycles else f"INCREMENT {step}"
            raise EdgeUnknown(
                f"sequence {sequence} has {why}: a later row of column {column!r} may get a smaller number",
                hint=f"`ALTER SEQUENCE {sequence} CACHE 1` and end the sessions that cached; or use another strategy.",
            )
    return [row[0] for row in found]


def _holders(oids: list[int]) -> str:
    return HOLDERS.format(oids=_list(oids))


def _list(oids: list[int]) -> str:
    return ",".join(map(str, oids))


def _named(rows: list[Row]) -> str:
    return ", ".join(_who(row) for row in rows[:NAMED])


def _who(row: Row) -> str:
    pid, application, user = row[0], row[1], row[2]
    return f"pid {pid} ({application or 'no name'}) of user {user}"


def _writer(row: Row) -> str:
    return _who((row[1], row[2], row[3])) if row[1] else f"the prepared transaction {row[0]}"
