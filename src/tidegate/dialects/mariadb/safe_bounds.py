"""The safe upper bound of a MariaDB table: how far it can be read without missing rows still being written.

Computed before the snapshot is taken. The start of a transaction alone is not enough: NOW() is the start of a
statement, which may be earlier. Never uses a list of transactions that the server has cached.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tidegate.core.bounds import Clock
from tidegate.core.changes import SafeBound
from tidegate.core.ports.dialect import Relation
from tidegate.core.schema import Column, Kind
from tidegate.dialects.mariadb.catalog import CatalogSession, named
from tidegate.dialects.mariadb.errors import DENIED, code_of
from tidegate.dialects.shared.time_bounds import in_utc, inclusive, must_be_time
from tidegate.dialects.shared.written_zones import assigned, must_be_written_in
from tidegate.errors import ConfigError, EdgeUnknown, SourceError

# Between the moment a statement takes the time and the one at which others can see it run.
SETTLE = timedelta(seconds=1)
POLL = 0.05
NAMED = 3
FRESH_TRIES = 20
# The server answers from a copy of its list until nobody has asked for a tenth of a second: those who ask at the same
# pace would keep each other from ever seeing a new one.
FRESH_WAIT = (0.12, 0.4)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

NOW = "SELECT CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS SIGNED)"
# trx_started is in the time of the server's system; in its repeated hour the earlier instant counts.
OPEN = """
SELECT trx_mysql_thread_id, at - IF(FROM_UNIXTIME(at - 3600) = started, 3600, 0), busy
FROM (
  SELECT trx_mysql_thread_id, trx_started AS started, CAST(UNIX_TIMESTAMP(trx_started) AS SIGNED) AS at,
         trx_rows_modified > 0 OR trx_tables_locked > 0 OR trx_state = 'LOCK WAIT' AS busy
  FROM information_schema.innodb_trx
) AS open_ones
"""
# Also who replicates: its threads run for ever. `time` has whole seconds, cut off.
RUNNING = """
SELECT id, user, command, UNIX_TIMESTAMP() - coalesce(time, 0) - 1, coalesce(info, ''), {statement}
FROM information_schema.processlist
WHERE id <> CONNECTION_ID() AND command NOT IN ('Sleep', 'Daemon') AND command NOT LIKE 'Binlog Dump%'
"""
USERS = "SELECT id, user, coalesce(db, '') FROM information_schema.processlist"
LISTED = frozenset(
    {"archive", "aria", "csv", "innodb", "memory", "mrg_myisam", "myisam", "performance_schema", "sequence"}
)
"""Engines whose writers are all in those lists: InnoDB, and those that have statements alone and no transactions."""
ONLY_READS = re.compile(r"[\s(]*(select|show|with|explain)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """What may still add a row: an open transaction or a running statement.

    Args:
        mark: the same for the same one, another for the next of its connection.
        thread: the connection; 0 where it is gone.
        since: seconds since 1970.
        writes: whether it may have taken a number already.
    """

    mark: tuple[str, int, int]
    thread: int
    since: int
    writes: bool


def safe_time_bound(  # noqa: PLR0913 - the question as strategies ask it
    session: CatalogSession,
    relation: Relation,
    column: Column,
    *,
    clock: Clock,
    lag: timedelta,
    time_zone: str | None,
) -> SafeBound:
    """The bound least(clock - 1 s, the start of all that is open or runs), in whole seconds, less the lag.

    Whole seconds, because a column without fractions keeps NOW() cut down to them. A statement that waits for a table
    before its transaction begins, and whose transaction stays open afterwards, may carry a time before that
    beginning; only a lag above such a wait covers it.
    """
    must_be_time(column.name, column.type)
    where = time_zone or _zone(session, column)
    if time_zone is None and column.type.kind is not Kind.TIMESTAMPTZ:
        must_be_written_in(where, _fillings(session, relation, column.name), column, datetime.now(UTC))
    if clock is Clock.APPLICATION:
        ((now,),) = session.outside_rows(NOW)
        return SafeBound(upto=inclusive(_instant(now / 1_000_000), lag, column.type, where))
    _must_be_primary(session)
    _must_be_listed(session, relation)
    # Before anybody is looked at: what begins in between starts later.
    ((now,),) = session.outside_rows(NOW)
    settled = int(now / 1_000_000 - SETTLE.total_seconds())
    holding = [writer for writer in _writers(session) if writer.since < settled]
    # Only after the writers: a transaction that is prepared in between is in one of the two lists.
    prepared = _prepared(session)
    if prepared:
        raise EdgeUnknown(
            f"connection {session.name!r}: the prepared transactions {', '.join(prepared[:NAMED])} hold rows whose "
            f"time is unknown",
            hint="Finish it with `XA COMMIT` or `XA ROLLBACK`, then run again.",
        )
    bound = min([settled, *(writer.since for writer in holding)])
    oldest = sorted(holding, key=lambda writer: writer.since)
    return SafeBound(
        upto=inclusive(_instant(bound), lag, column.type, where),
        in_utc=in_utc(_instant(bound), lag, column.type, time_zone),
        held_by=_names(session, oldest, "writing since"),
    )


def safe_sequence_bound(session: CatalogSession, relation: Relation, column: Column, *, wait: timedelta) -> SafeBound:
    """The greatest id once all who could have taken a smaller one have ended; None while they write."""
    if column.type.kind is not Kind.INTEGER and not (column.type.kind is Kind.DECIMAL and column.type.scale == 0):
        raise ConfigError(f"column {column.name!r} is {column.type}, and a sequence needs an integer")
    _must_be_counted(session, relation, column)
    _must_be_primary(session)
    ((highest,),) = session.outside_rows(f"SELECT MAX({session.dialect.quote(column.name)}) FROM {relation.sql}")
    # Between taking a number and being listed lies no wait, but a moment.
    time.sleep(POLL)
    deadline = time.monotonic() + wait.total_seconds()
    holders = [writer for writer in _writers(session) if writer.writes]
    prepared = _prepared(session)
    while (holders or prepared) and time.monotonic() < deadline:
        time.sleep(POLL)
        still, found = {writer.mark for writer in _writers(session)}, _prepared(session)
        # A transaction that was prepared meanwhile may go on without the connection that it was known by.
        ended = any(writer.mark not in still for writer in holders)
        holders = [writer for writer in holders if writer.mark in still]
        prepared = [xid for xid in found if ended or xid in prepared]
    if holders or prepared:
        xids = tuple(f"the prepared transaction {xid}" for xid in prepared[:NAMED])
        return SafeBound(upto=None, held_by=(*xids, *_names(session, holders, "writing since")))
    generated = _generated(session, relation)
    return SafeBound(upto=None if highest is None else str(highest), generated=generated)


def _generated(session: CatalogSession, relation: Relation) -> int | None:
    """The last number that the table has given to a row, at least."""
    rows = session.outside_rows(
        f"SELECT t.auto_increment FROM information_schema.tables t WHERE {named(session, relation)}"
    )
    return int(rows[0][0]) - 1 if rows and rows[0][0] is not None else None


def _must_be_counted(session: CatalogSession, relation: Relation, column: Column) -> None:
    """Raises EdgeUnknown where numbers may come in any order."""
    if not relation.parts:
        raise EdgeUnknown(
            f"{relation.label} is a query, so it is unknown who is still writing to its tables",
            hint="Name the table with `source: {table: …}`, or use another strategy.",
        )
    rows = session.outside_rows(
        "SELECT t.engine, c.extra FROM information_schema.columns c JOIN information_schema.tables t "
        f"USING (table_schema, table_name) WHERE {named(session, relation)} "
        f"AND column_name = {session.dialect.string(column.name)}"
    )
    if not rows or "auto_increment" not in str(rows[0][1]).lower():
        raise EdgeUnknown(
            f"column {column.name!r} of {relation.label} is not AUTO_INCREMENT, so its numbers may arrive in any order",
            hint="Use an AUTO_INCREMENT column of the table itself, or another strategy.",
        )
    if str(rows[0][0]).lower() != "innodb":
        raise EdgeUnknown(
            f"{relation.label} uses the engine {rows[0][0]}, which reuses the number of a deleted last row",
            hint="Use another strategy, or `ALTER TABLE … ENGINE = InnoDB`.",
        )


def _must_be_listed(session: CatalogSession, relation: Relation) -> None:
    """Raises EdgeUnknown where rows are written elsewhere, or in transactions that no list of this server shows."""
    for name, engine in _engines(session, relation):
        if engine.lower() not in LISTED:
            raise EdgeUnknown(
                f"{relation.label} reads {name}, a table of the engine {engine}, and it is not known here who is still "
                "writing to it",
                hint="Connect to the server that has the rows, or use `strategy: {kind: full}`, or set "
                "`clock: application` with a `safety_lag` and a `lookback`.",
            )


def _engines(session: CatalogSession, relation: Relation) -> Iterator[tuple[str, str]]:
    """A table and its engine; of a view or a query each table that it reads and whose engine is not a usual one."""
    if relation.parts:
        found = session.outside_rows(f"SELECT engine FROM information_schema.tables WHERE {named(session, relation)}")
        if found and found[0][0] is not None:  # a view has none
            yield relation.label, str(found[0][0])
            return
    supported = session.outside_rows("SELECT engine FROM information_schema.engines WHERE support <> 'NO'")
    others = [str(each) for (each,) in supported if str(each).lower() not in LISTED]
    if not others:
        return
    quote, string = session.dialect.quote, session.dialect.string
    tables = session.outside_rows(
        "SELECT table_schema, table_name, engine FROM information_schema.tables "
        f"WHERE engine IN ({', '.join(map(string, others))})"
    )
    # The statement as the server has resolved it: with the tables of views, each by schema and name.
    session.outside_rows(f"EXPLAIN {'EXTENDED ' if session.is_mariadb else ''}SELECT * FROM {relation.sql}")
    resolved = " ".join(str(row[2]) for row in session.outside_rows("SHOW WARNINGS"))
    for schema, table, each in tables:
        if f"{quote(schema)}.{quote(table)}" in resolved:
            yield f"{schema}.{table}", str(each)


def _must_be_primary(session: CatalogSession) -> None:
    """Raises EdgeUnknown where rows arrive that others wrote at a time of their own."""
    ((read_only,),) = session.outside_rows("SELECT @@global.read_only")
    wsrep = session.outside_rows("SHOW GLOBAL VARIABLES LIKE 'wsrep_on'")
    threads = session.outside_rows(
        "SELECT count(*) FROM information_schema.processlist WHERE command LIKE 'Slave%' OR user = 'system user' "
        "AND command = 'Connect'"
    )
    if read_only or threads[0][0] or _replicates(session):
        raise EdgeUnknown(
            f"connection {session.name!r} is a replica or read-only, which does not know the transactions of its "
            f"primary",
            hint="Connect to the primary, or use `strategy: {kind: full}`, or `clock: application` with a "
            "`safety_lag` longer than the longest transaction and the replication lag.",
        )
    if wsrep and str(wsrep[0][1]).upper() == "ON":
        raise EdgeUnknown(
            f"connection {session.name!r} is a node of a Galera cluster, which does not know who is writing on the "
            f"other nodes",
            hint="Use `strategy: {kind: full}` or `{kind: checksum}`, or `clock: application` with a `safety_lag`.",
        )


def _replicates(session: CatalogSession) -> bool:
    """Whether a primary is configured, as far as this user may know; its threads may stand still."""
    try:
        return bool(session.outside_rows("SHOW ALL SLAVES STATUS" if session.is_mariadb else "SHOW REPLICA STATUS"))
    except SourceError as error:
        if code_of(error.__cause__) not in DENIED:
            raise
        return False


def _prepared(session: CatalogSession) -> list[str]:
    try:
        # A name may be any bytes.
        words = "XA RECOVER FORMAT = 'SQL'" if session.is_mariadb else "XA RECOVER CONVERT XID"
        return [str(row[3]) for row in session.outside_rows(words)]
    except SourceError as error:
        raise _hidden(session, "XA_RECOVER_ADMIN", error) from error


def _writers(session: CatalogSession) -> list[Writer]:
    """Everybody who has a transaction open or runs a statement, at a moment after this call.

    The statements first: one that ends in between leaves its transaction open, which is then among the transactions.
    """
    statement = "query_id" if session.is_mariadb else "0"
    found = [
        Writer(mark=("statement", thread, number), thread=thread, since=int(since), writes=not ONLY_READS.match(text))
        for thread, _, _, since, text, number in session.outside_rows(RUNNING.format(statement=statement))
    ]
    writing = {writer.thread for writer in found if writer.writes}
    try:
        transactions = _transactions(session)
    except SourceError as error:
        raise _hidden(session, "PROCESS", error) from error
    found.extend(
        # One whose statement writes goes on writing, if it is open, once that statement has ended.
        Writer(mark=("transaction", thread, since), thread=thread, since=since, writes=bool(busy) or thread in writing)
        for thread, since, busy in transactions
    )
    return found


def _transactions(session: CatalogSession) -> list[tuple[int, int, int]]:
    """The open transactions but our own.

    Ours begins anew before each look and must be among them: a server that is asked often answers from an old copy.
    """
    own = session.thread
    for _ in range(FRESH_TRIES):
        session.outside_rows("COMMIT")
        session.outside_rows("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
        session.outside_rows("SET time_zone = 'SYSTEM'")
        try:
            ((now,),) = session.outside_rows(NOW)
            rows = [(int(thread), int(since), int(busy)) for thread, since, busy in session.outside_rows(OPEN)]
        finally:
            session.outside_rows("SET time_zone = '+00:00'")
            session.outside_rows("COMMIT")
        own_since = [since for thread, since, _ in rows if thread == own]
        if own_since and abs(own_since[0] - now / 1_000_000) <= 2:
            return [row for row in rows if row[0] != own]
        time.sleep(random.uniform(*FRESH_WAIT))  # noqa: S311 - no secret
    raise EdgeUnknown(
        f"connection {session.name!r}: the server's list of transactions is not up to date",
        hint="Another client polls information_schema.innodb_trx without a pause: let it wait 0.2 s between reads.",
    )


def _hidden(session: CatalogSession, privilege: str, error: SourceError) -> SourceError:
    if code_of(error.__cause__) not in DENIED:
        return error
    return EdgeUnknown(
        f"connection {session.name!r}: this user may not see the transactions of others, so rows that are still being "
        "written could be lost",
        hint=f"Let this user see them: `GRANT {privilege} ON *.* TO {session.account}`; or set "
        "`strategy: {clock: application, safety_lag: …, lookback: …}`.",
    )


def _names(session: CatalogSession, writers: list[Writer], doing: str) -> tuple[str, ...]:
    if not writers:
        return ()
    users = {row[0]: row[1] for row in session.outside_rows(USERS)}
    threads: dict[int, int] = {}
    for writer in writers:
        threads.setdefault(writer.thread, writer.since)
    return tuple(
        f"connection {thread} of user {users.get(thread, 'unknown')}, {doing} {_instant(since).isoformat()}"
        for thread, since in list(threads.items())[:NAMED]
    )


def _fillings(session: CatalogSession, relation: Relation, column: str) -> list[str]:
    """The expressions that fill a column of a table: its default, and what triggers assign to it."""
    if not relation.parts:
        return []
    here, string = named(session, relation), session.dialect.string
    defaults = session.outside_rows(
        "SELECT coalesce(column_default, ''), coalesce(generation_expression, '') FROM information_schema.columns "
        f"WHERE {here} AND column_name = {string(column)}"
    )
    triggers = session.outside_rows(
        "SELECT action_statement FROM information_schema.triggers WHERE (event_object_schema, event_object_table) IN "
        f"(SELECT table_schema, table_name FROM information_schema.tables WHERE {here})"
    )
    return [*(text for row in defaults for text in row), *assigned([body for (body,) in triggers], column)]


def _zone(session: CatalogSession, column: Column) -> str:
    """The server's time zone for a column that has none of its own.

    Raises:
        ConfigError: the server does not name it.
    """
    if column.type.kind is Kind.TIMESTAMPTZ:
        return "UTC"
    ((zone, system),) = session.outside_rows("SELECT @@global.time_zone, @@system_time_zone")
    name = str(system if zone == "SYSTEM" else zone)
    if name in ("UTC", "GMT", "+00:00", "-00:00"):
        return "UTC"
    if "/" in name:
        return name
    raise ConfigError(
        f"column {column.name!r} has no time zone, and the server's own time zone {name!r} is ambiguous",
        hint="Set `strategy: {time_zone: Europe/Oslo}` or similar: the time zone in which the writers set the column.",
    )


def _instant(seconds: float) -> datetime:
    return EPOCH + timedelta(seconds=seconds)
