"""The safe upper bound of a PostgreSQL table: how far it can be read without missing rows still being written.

Computed before the snapshot is taken. Another session can still commit below a bound taken from xids, xmin, the
snapshot, the time of a PREPARE or the start of a transaction alone, so none of these is used. Where a transaction's
start is hidden, it raises an error.
"""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta

from tidegate.core.bounds import Clock
from tidegate.core.changes import SafeBound
from tidegate.core.ports.dialect import Relation, Row
from tidegate.core.schema import Column, Kind
from tidegate.dialects.postgresql.catalog import DescribingSession, is_table, oid_of
from tidegate.dialects.postgresql.errors import quoted
from tidegate.dialects.shared.time_bounds import in_utc, inclusive, must_be_time
from tidegate.dialects.shared.written_zones import assigned, must_be_written_in
from tidegate.errors import ConfigError, EdgeUnknown

# Between the start of a transaction and the moment others can see it.
SETTLE = timedelta(seconds=1)
POLL = 0.02
NAMED = 3
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# The start of the transaction, and of the statement: a block or a procedure that commits on its way goes on with the
# time of the statement that called it, while its transactions begin later. A walsender only streams.
# Autovacuum writes no rows; workers of the system have no user and are hidden from nobody.
SESSIONS = """
SELECT pid, name, usename, (extract(epoch FROM least(xact_start, statement)) * 1000000)::bigint, hidden,
       xact_start <= statement IS TRUE OR statement IS NULL
FROM (
  SELECT pid, coalesce(application_name, '') AS name, usename::text AS usename, xact_start,
         CASE WHEN state IN ('active', 'fastpath function call')
               AND NOT (backend_type = 'walsender' AND query ~* '^\\s*(START_REPLICATION|$)')
              THEN query_start END AS statement,
         query = '<insufficient privilege>' OR state = 'disabled'
           OR (xact_start IS NULL AND (state LIKE 'idle in transaction%' OR backend_xid IS NOT NULL)) AS hidden
  FROM pg_stat_activity
  WHERE datname = current_database() AND pid <> pg_backend_pid() AND usesysid IS NOT NULL
    AND coalesce(backend_type, '') <> 'autovacuum worker'
) AS others
ORDER BY 4 NULLS LAST, pid
"""
PREPARED = "SELECT gid FROM pg_prepared_xacts WHERE database = current_database() ORDER BY prepared"
HOLDERS = """
SELECT DISTINCT l.virtualtransaction, coalesce(l.pid, 0), coalesce(a.application_name, ''), a.usename::text
FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.locktype = 'relation' AND l.mode = 'RowExclusiveLock' AND l.granted
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND l.relation = ANY('{{{oids}}}'::oid[]) AND l.pid IS DISTINCT FROM pg_backend_pid()
"""
# Of the sequences that belong to a column only that of its identity fills it, and that of its default.
SEQUENCES = """
SELECT DISTINCT s.seqrelid::bigint, s.seqrelid::regclass::text, s.seqcache, s.seqincrement, s.seqcycle
FROM pg_sequence s JOIN pg_depend d ON
  (d.classid = 'pg_class'::regclass AND d.objid = s.seqrelid AND d.refclassid = 'pg_class'::regclass
   AND d.deptype = 'i' AND (d.refobjid, d.refobjsubid) IN ({columns}))
  OR (d.refclassid = 'pg_class'::regclass AND d.refobjid = s.seqrelid AND d.classid = 'pg_attrdef'::regclass
   AND d.objid IN (SELECT oid FROM pg_attrdef WHERE (adrelid, adnum) IN ({columns})))
"""
UNREADABLE = """
SELECT quote_ident(n.nspname) || '.' || quote_ident(c.relname)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = ANY('{{{oids}}}'::oid[])
  AND NOT (has_sequence_privilege(c.oid, 'SELECT') AND has_schema_privilege(n.oid, 'USAGE'))
ORDER BY c.oid
"""
STEPS = "SELECT seqrelid::regclass::text, seqincrement FROM pg_sequence WHERE seqrelid = ANY('{{{oids}}}'::oid[])"
# Foreign tables, and materialized views.
FOREIGN = (
    "SELECT oid::regclass::text, relkind::text FROM pg_class "
    "WHERE relkind IN ('f', 'm') AND oid = ANY('{{{oids}}}'::oid[]) ORDER BY 2, 1"
)
KINDS = {"f": "foreign table", "m": "materialized view"}
NEARER = {"f": "Connect to the server that has the table", "m": "Load the tables that it is made of"}
DEFAULTS = """
SELECT pg_get_expr(d.adbin, d.adrelid) FROM pg_attrdef d
  JOIN pg_attribute a ON (a.attrelid, a.attnum) = (d.adrelid, d.adnum)
WHERE d.adrelid = ANY('{{{oids}}}'::oid[]) AND a.attname = {column}
"""
TRIGGERS = """
SELECT p.prosrc FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid
WHERE t.tgrelid = ANY('{{{oids}}}'::oid[]) AND NOT t.tgisinternal AND t.tgenabled <> 'D'
"""
ZONE = "SELECT setting, source FROM pg_settings WHERE name = 'TimeZone'"
OWN_ZONE = {
    "client": "PGTZ, PGOPTIONS or the URL",
    "user": "ALTER ROLE",
    "database user": "ALTER ROLE … IN DATABASE",
    "session": "a SET in its session",
}
"""What sets the zone of a session for itself, by PostgreSQL's word for it."""
# What holds for every role: in this database, else in all of them.
ZONE_OF_ALL = """
SELECT split_part(one, '=', 2) FROM pg_db_role_setting s, unnest(s.setconfig) AS one
WHERE s.setrole = 0 AND lower(split_part(one, '=', 1)) = 'timezone'
  AND s.setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))
ORDER BY s.setdatabase = 0 LIMIT 1
"""
# Of a subscription that fills a partitioned table, the rows are in its partitions.
REPLICATED = """
SELECT r.srrelid::regclass::text FROM pg_class c JOIN pg_subscription_rel r
  ON r.srrelid = c.oid OR r.srrelid IN (SELECT relid FROM pg_partition_ancestors(c.oid))
WHERE c.oid = ANY('{{{oids}}}'::oid[]) {filled} ORDER BY 1
"""
# A trigger that fires for replicated rows, too, before each of them: it may set the column. A partition has its own.
FILLED = """AND c.relkind <> 'p' AND NOT EXISTS (
  SELECT FROM pg_trigger t WHERE t.tgrelid = c.oid AND t.tgenabled IN ('A', 'R') AND t.tgtype & 3 = 3
)"""


def safe_time_bound(  # noqa: PLR0913 - the question as strategies ask it
    session: DescribingSession,
    relation: Relation,
    column: Column,
    *,
    clock: Clock,
    lag: timedelta,
    time_zone: str | None,
) -> SafeBound:
    """The bound least(clock - 1 s, the start of whatever others run), less one microsecond and the lag."""
    must_be_time(column.name, column.type)
    where = time_zone or _zone(session, column)
    if time_zone is None and column.type.kind is not Kind.TIMESTAMPTZ:
        must_be_written_in(where, _fillings(session, relation, column.name), column, datetime.now(UTC))
    if clock is Clock.DATABASE:
        _must_be_primary(session)
        _must_be_written_here(session, relation, column)
    # Its own statement, before the sessions are looked at: a transaction that begins in between starts later.
    ((now,),) = session.rows("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")
    sessions = session.rows(SESSIONS)
    if clock is Clock.DATABASE:
        # Only after the sessions: a transaction that is prepared in between is in one of the two lists.
        _must_be_complete(session)
        _must_be_visible(session, [row for row in sessions if row[4]])
    settled = EPOCH + timedelta(microseconds=now) - SETTLE
    open_ones = [(row, EPOCH + timedelta(microseconds=row[3])) for row in sessions if row[3] is not None]
    holding = [(row, since) for row, since in open_ones if since < settled]
    bound = min([settled, *(since for _, since in holding)])
    held_by = tuple(
        f"{_who(row)}, {'in a transaction' if row[5] else 'running a statement that commits while it runs'} since "
        f"{since.isoformat()}"
        for row, since in holding[:NAMED]
    )
    utc = in_utc(bound, lag, column.type, time_zone) if clock is Clock.DATABASE else None
    return SafeBound(upto=inclusive(bound, lag, column.type, where), in_utc=utc, held_by=held_by)


def safe_sequence_bound(
    session: DescribingSession, relation: Relation, column: Column, *, wait: timedelta
) -> SafeBound:
    """The greatest id once every transaction that could still add a smaller one has ended."""
    if column.type.kind is not Kind.INTEGER:
        raise ConfigError(f"column {column.name!r} is {column.type}, and a sequence needs an integer")
    if not relation.parts:
        raise EdgeUnknown(
            f"{relation.label} is a query, so it is unknown who is still writing to its tables",
            hint="Name the table with `source: {table: …}`, or use another strategy.",
        )
    _must_be_primary(session)
    tables = _tree(session, relation)
    _must_be_numbered_here(session, relation, tables)
    sequences = _sequences(session, tables, column.name)
    ((highest,),) = session.rows(f"SELECT max({session.dialect.quote(column.name)}) FROM {relation.sql}")
    # Only now: who held no lock by this moment takes an id above the highest.
    holders = _holders(session, tables + sequences)
    deadline = time.monotonic() + wait.total_seconds()
    while holders and time.monotonic() < deadline:
        time.sleep(POLL)
        found = _holders(session, tables + sequences)
        # A transaction that was prepared meanwhile holds its rows under another name, without a session.
        renamed = {who for who in found if not who[1]} if holders.keys() - found.keys() else set()
        holders = {who: found[who] for who in found if who in holders or who in renamed}
    if holders:
        named = (f"{_writer(row)}, writing to {relation.label}" for row in list(holders.values())[:NAMED])
        return SafeBound(upto=None, held_by=tuple(named))
    upto = None if highest is None else str(highest)
    hidden = _unreadable(session, sequences)
    if hidden is not None:
        return SafeBound(upto=upto, grant=f"GRANT SELECT ON SEQUENCE {hidden} TO {quoted(session.user)}")
    return SafeBound(upto=upto, generated=_generated(session, sequences, column.name))


def _zone(session: DescribingSession, column: Column) -> str:
    """The zone in which sessions of the database write a column that has none of its own.

    Raises:
        ConfigError: it is not known, because this session has been given another one.
    """
    if column.type.kind is Kind.TIMESTAMPTZ:
        return "UTC"
    ((zone, source),) = session.rows(ZONE)
    if source not in OWN_ZONE or session.rows(ZONE_OF_ALL) == [(zone,)]:
        return str(zone)
    raise ConfigError(
        f"column {column.name!r} has no time zone, and {zone!r} is set for this login alone, by {OWN_ZONE[source]}, so "
        "its writers may have another one",
        hint="Set `strategy: {time_zone: UTC}` or similar: the zone in which the writers set the column.",
        column=column.name,
    )


def _fillings(session: DescribingSession, relation: Relation, column: str) -> list[str]:
    """The expressions that fill a column of a table: its defaults, and what triggers assign to it."""
    if not (relation.parts and is_table(session, relation)):
        return []
    oids = _list(_tree(session, relation))
    defaults = session.rows(DEFAULTS.format(oids=oids, column=session.dialect.string(column)))
    triggers = session.rows(TRIGGERS.format(oids=oids))
    return [*(text for (text,) in defaults), *assigned([body for (body,) in triggers], column)]


def _must_be_complete(session: DescribingSession) -> None:
    """Raises EdgeUnknown where transactions exist whose start nobody here can know."""
    prepared = session.rows(PREPARED)
    if prepared:
        names = ", ".join(repr(gid) for (gid,) in prepared[:NAMED])
        raise EdgeUnknown(
            f"connection {session.name!r}: the prepared transactions {names} hold rows whose time is unknown",
            hint="Finish it with `COMMIT PREPARED` or `ROLLBACK PREPARED`, then run again.",
        )


def _must_be_primary(session: DescribingSession) -> None:
    ((standby,),) = session.rows("SELECT pg_is_in_recovery()")
    if standby:
        raise EdgeUnknown(
            f"connection {session.name!r} is a standby, which does not know the transactions of its primary",
            hint="Connect to the primary, or use `strategy: {kind: full}`, or `clock: application` with a "
            "`safety_lag` longer than the longest transaction and the replication lag.",
        )


def _must_be_visible(session: DescribingSession, hidden: list[Row]) -> None:
    """Raises EdgeUnknown where this user may not see how long others have been writing."""
    if hidden:
        raise EdgeUnknown(
            f"connection {session.name!r}: the start of the transaction of {_named(hidden)} is hidden, so rows that it "
            "is still writing could be lost",
            hint=f"Let this user see it: `GRANT pg_read_all_stats TO {quoted(session.user)}` (and keep "
            "track_activities on); or set `strategy: {clock: application, safety_lag: …, lookback: …}`.",
        )


def _must_be_written_here(session: DescribingSession, relation: Relation, column: Column) -> None:
    """Raises EdgeUnknown where rows arrive with times of another server's clock, or long after their time."""
    tables = _tree(session, relation) if relation.parts and is_table(session, relation) else _scanned(session, relation)
    foreign = session.rows(FOREIGN.format(oids=_list(tables)))
    if foreign:
        name, kind = foreign[0]
        why = (
            "whose rows appear when it is refreshed, with times of before"
            if kind == "m"
            else "and it is not known here who is still writing to it"
        )
        raise EdgeUnknown(
            f"{relation.label} reads the {KINDS[kind]} {name}, {why}",
            hint=f"{NEARER[kind]}, or use `strategy: {{kind: full}}`, or `clock: application` with a `safety_lag` and "
            "a `lookback`.",
        )
    replicated = session.rows(REPLICATED.format(oids=_list(tables), filled=FILLED))
    if replicated:
        raise EdgeUnknown(
            f"{replicated[0][0]} is filled by a subscription, with timestamps of the publisher's clock, so no bound "
            f"for column {column.name!r} is safe here",
            hint="Connect to the publisher; or let a trigger that is ENABLE ALWAYS set the column here; or set "
            "`strategy: {clock: application, safety_lag: …, lookback: …}`.",
        )


def _must_be_numbered_here(session: DescribingSession, relation: Relation, tables: list[int]) -> None:
    """Raises EdgeUnknown where rows arrive with numbers that another server handed out."""
    if session.rows(REPLICATED.format(oids=_list(tables), filled="")):
        raise EdgeUnknown(
            f"{relation.label} is filled by a subscription, in the order in which the publisher's transactions commit, "
            "so a smaller number may still arrive",
            hint="Connect to the publisher, or use another strategy.",
        )


def _scanned(session: DescribingSession, relation: Relation) -> list[int]:
    """The tables that a view or a query reads, as the planner sees them."""
    ((found,),) = session.rows(f"EXPLAIN (FORMAT JSON, VERBOSE) SELECT * FROM {relation.sql}")
    plans = [each["Plan"] for each in (json.loads(found) if isinstance(found, str) else found)]
    names = set()
    while plans:
        node = plans.pop()
        plans.extend(node.get("Plans", ()))
        if "Relation Name" in node:
            names.add((node.get("Schema", ""), node["Relation Name"]))
    text = session.dialect.string
    pairs = ", ".join(f"({text(schema)}, {text(name)})" for schema, name in sorted(names))
    if not pairs:
        return []
    rows = session.rows(
        "SELECT c.oid::bigint FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        f"WHERE (n.nspname, c.relname) IN ({pairs})"
    )
    return [row[0] for row in rows]


def _tree(session: DescribingSession, relation: Relation) -> list[int]:
    oid = oid_of(session, relation)
    children = session.rows(
        f"WITH RECURSIVE tree AS (SELECT {oid}::oid AS oid UNION SELECT i.inhrelid FROM pg_inherits i JOIN tree "
        "ON i.inhparent = tree.oid) SELECT oid::bigint FROM tree"
    )
    return [row[0] for row in children]


def _sequences(session: DescribingSession, tables: list[int], column: str) -> list[int]:
    """The sequences behind a column; refused when what they hand out does not grow with time."""
    name = session.dialect.string(column)
    numbers = session.rows(
        f"SELECT attrelid::bigint, attnum FROM pg_attribute WHERE attname = {name} "
        f"AND attrelid = ANY('{{{_list(tables)}}}')"
    )
    pairs = ", ".join(f"({table}, {number})" for table, number in numbers)
    found = session.rows(SEQUENCES.format(columns=pairs))
    if not found:
        raise EdgeUnknown(
            f"no sequence in the database fills column {column!r}, so its numbers may arrive in any order",
            hint="Use an identity column or one whose default is a sequence, or another strategy.",
        )
    for _, sequence, cache, step, cycles in found:
        if cache > 1 or step < 0 or cycles:
            why = f"CACHE {cache}" if cache > 1 else "CYCLE" if cycles else f"INCREMENT {step}"
            raise EdgeUnknown(
                f"sequence {sequence} has {why}: a later row of column {column!r} may get a smaller number",
                hint=f"`ALTER SEQUENCE {sequence} CACHE 1` and end the sessions that cached numbers; or use another "
                f"strategy.",
            )
    return [row[0] for row in found]


def _unreadable(session: DescribingSession, sequences: list[int]) -> str | None:
    """The name of one of the sequences that this user may not read."""
    rows = session.rows(UNREADABLE.format(oids=_list(sequences)))
    return str(rows[0][0]) if rows else None


def _generated(session: DescribingSession, sequences: list[int], column: str) -> int:
    """The last number that the column was given.

    Raises:
        EdgeUnknown: several sequences give it numbers, each in its own order.
    """
    last = []
    for name, step in session.rows(STEPS.format(oids=_list(sequences))):
        ((number, called),) = session.rows(f"SELECT last_value, is_called FROM {name}")
        last.append((bool(called), int(number if called else number - step), str(name)))
    (used, number, first), *others = sorted(last, reverse=True)
    if used and others and others[0][0]:
        raise EdgeUnknown(
            f"the sequences {first} and {others[0][2]} have both given numbers to column {column!r}, so a smaller "
            "number may arrive after a greater one",
            hint=f"Let all of the table's partitions and children take the default of the table; then `ALTER SEQUENCE "
            f"{others[0][2]} RESTART` says that its numbers are used no more. Or use another strategy.",
        )
    return number


def _holders(session: DescribingSession, oids: list[int]) -> dict[tuple[str, int], Row]:
    """Who may have taken a number of these and not ended, by transaction and session, 0 for a prepared one."""
    return {(row[0], row[1]): row for row in session.rows(HOLDERS.format(oids=_list(oids)))}


def _list(oids: list[int]) -> str:
    return ",".join(map(str, oids))


def _named(rows: list[Row]) -> str:
    return ", ".join(_who(row) for row in rows[:NAMED])


def _who(row: Row) -> str:
    pid, application, user = row[0], row[1], row[2]
    return f"pid {pid} ({application or 'no name'}) of user {user}"


def _writer(row: Row) -> str:
    return _who((row[1], row[2], row[3])) if row[1] else f"the prepared transaction {row[0]}"
