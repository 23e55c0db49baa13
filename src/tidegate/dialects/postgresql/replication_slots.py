"""Queries for replication slots: create, read, advance and drop; publications have `publications.py`.

Reading never moves a slot: only `advance` and `drop` let the server remove log.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from psycopg import errors

from tidegate.core.ports.dialect import Relation, Row
from tidegate.dialects.postgresql.catalog import oid_of
from tidegate.dialects.postgresql.errors import quoted
from tidegate.errors import ConfigError, HistoryGone, SourceError, SourceUnavailable, TidegateError

if TYPE_CHECKING:
    from tidegate.dialects.postgresql.session import PostgresqlSession

PLUGIN = "pgoutput"
FIRST_VERSION = 130000
NAME = re.compile(r"[a-z0-9_]{1,63}")
ROWS_AT_A_TIME = 5_000
PATIENCE = 30.0
"""Seconds, as long as a session waits for a lock."""
POLL = 0.02
STILL_OPEN = "Run again once they have ended: `SELECT pid, xact_start FROM pg_stat_activity`."
LOST = "lost"
BEGUN = "encode(substring(data FROM 2 FOR 20), 'hex')"
NO_TRANSACTION = "0" * 40
EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
"""What the server's times count microseconds from."""

FACTS = """
SELECT slot_name::text, plugin::text, active_pid, (restart_lsn - '0/0')::text, (confirmed_flush_lsn - '0/0')::text,
       wal_status, (pg_current_wal_lsn() - restart_lsn)::text, (pg_current_wal_lsn() - confirmed_flush_lsn)::text
FROM pg_replication_slots WHERE slot_type = 'logical' AND database = current_database()
"""
IDENTITY = """
SELECT c.relkind::text, c.relreplident::text, coalesce(keys.names, '{{}}'),
       coalesce((SELECT array_agg(attname::text ORDER BY attnum) FROM pg_attribute
                 WHERE attrelid = c.oid AND attgenerated <> '' AND NOT attisdropped), '{{}}'),
       (SELECT bool_and(leaf.relreplident = c.relreplident) FROM pg_partition_tree(c.oid) t
        JOIN pg_class leaf ON leaf.oid = t.relid)
FROM pg_class c LEFT JOIN LATERAL (
  SELECT array_agg(a.attname::text ORDER BY k.place) AS names FROM pg_index i
  CROSS JOIN LATERAL unnest(i.indkey::smallint[]) WITH ORDINALITY AS k(attnum, place)
  JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
  WHERE i.indrelid = c.oid AND k.place <= i.indnkeyatts AND i.indimmediate
    AND CASE c.relreplident WHEN 'i' THEN i.indisreplident ELSE i.indisprimary END
) AS keys ON true
WHERE c.oid = {oid}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """What the server says of a slot; places of the write-ahead log as bytes from its beginning.

    Args:
        active: the process that reads it now.
        restart: the oldest place that is kept for it.
        confirmed: up to where its reader said that everything is kept; None while it is being made.
        status: `reserved`, `extended`, `unreserved` or `lost`.
        retained: bytes of the log that are kept for it.
        behind: bytes of the log after `confirmed`.
    """

    name: str
    plugin: str
    active: int | None
    restart: int | None
    confirmed: int | None
    status: str | None
    retained: int
    behind: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Identified:
    """How the log identifies a row of a table.

    Args:
        kind: of table, as the catalog says it.
        identity: `d`, `n`, `f` or `i`.
        columns: of the primary key, or of the index that was chosen for it; the log never takes a deferrable one.
        generated: columns that the log does not carry.
        uniform: its partitions say the same.
    """

    kind: str
    identity: str
    columns: tuple[str, ...]
    generated: tuple[str, ...]
    uniform: bool


def check_server(session: PostgresqlSession) -> None:
    """Raises ConfigError when the server cannot decode its log."""
    if session.version < FIRST_VERSION:
        raise ConfigError(f"connection {session.name!r}: a replication slot needs PostgreSQL 13 or later")
    ((standby, level),) = session.rows("SELECT pg_is_in_recovery(), current_setting('wal_level')")
    if standby:
        raise ConfigError(
            f"connection {session.name!r} is a standby", hint="Connect to the primary: only its slots are permanent."
        )
    if level != "logical":
        raise ConfigError(
            f"connection {session.name!r}: the server's wal_level is {level}, and a replication slot needs wal_level "
            f"logical",
            hint="`ALTER SYSTEM SET wal_level = logical`, then restart the server.",
        )


def find(session: PostgresqlSession, name: str) -> Slot | None:
    return next((slot for slot in every(session) if slot.name == name), None)


def every(session: PostgresqlSession) -> list[Slot]:
    """The logical slots of this database."""
    return [
        Slot(
            name=name,
            plugin=plugin,
            active=active,
            restart=_number(restart),
            confirmed=_number(confirmed),
            status=status,
            retained=_number(retained) or 0,
            behind=_number(behind) or 0,
        )
        for name, plugin, active, restart, confirmed, status, retained, behind in session.rows(FACTS)
    ]


def make(session: PostgresqlSession, name: str) -> None:
    """Makes the slot: every transaction that commits from now on is kept for it.

    It waits for transactions that are open already, for they may commit what the slot has not seen from its beginning.
    """
    with _slot_border(session, name):
        session.rows(f"SELECT pg_create_logical_replication_slot({session.dialect.string(name)}, '{PLUGIN}')")


def drop(session: PostgresqlSession, name: str) -> None:
    """Drops the slot and lets the server forget what it kept for it."""
    with _slot_border(session, name):
        session.rows(f"SELECT pg_drop_replication_slot({session.dialect.string(name)})")


def advance(session: PostgresqlSession, name: str, place: str) -> None:
    """Says that everything before that place is kept elsewhere."""
    with _slot_border(session, name):
        session.rows(f"SELECT pg_replication_slot_advance({session.dialect.string(name)}, '{place}')")


def wait_for_writers(session: PostgresqlSession, name: str) -> None:
    """Waits until every transaction has ended that wrote before now, so that later snapshots have what it committed.

    For as long as the server itself waits for them when it makes a slot.

    Raises:
        SourceUnavailable: one goes on.
    """
    ((own,),) = session.rows("SELECT pg_current_xact_id()::text")
    deadline = time.monotonic() + PATIENCE
    while session.rows(f"SELECT pg_snapshot_xmin(pg_current_snapshot()) <= '{own}'::xid8") == [(True,)]:
        if time.monotonic() > deadline:
            raise SourceUnavailable(
                f"connection {session.name!r}: slot {name} cannot go on from here while older transactions are open",
                hint=STILL_OPEN,
            )
        time.sleep(POLL)


def flushed(session: PostgresqlSession) -> int:
    """Where the log ends that a slot can be read to."""
    ((end,),) = session.rows("SELECT (pg_current_wal_flush_lsn() - '0/0')::text")
    return int(end)


def written(session: PostgresqlSession) -> int:
    """A place after the commit of everything that can be seen now."""
    ((end,),) = session.rows("SELECT (pg_current_wal_insert_lsn() - '0/0')::text")
    return int(end)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotRange:
    """What of a slot is counted.

    Args:
        oid: of the table whose events count.
        after: transactions whose commit begins before it do not count; None where the slot has none of them any more.
        upto: a place of the log.
        most: messages after which no further transaction is looked at; None for no limit.
    """

    oid: int
    after: int | None
    upto: str
    most: int | None


class Counted(NamedTuple):
    """What a range of a slot has: events of the table, messages, and the last transaction's end and name (`begun`)."""

    events: int
    messages: int
    upto: int | None
    last: str | None


def count(session: PostgresqlSession, name: str, publication: str, ask: SlotRange) -> Counted:
    begins, *changes, truncated = b"BIUDT"
    given = _peek(session, name, publication, ask.upto, ask.most)
    if ask.after is not None:
        # Commits come in their order, so that the last one begun is the greatest.
        commit = f"CASE get_byte(data, 0) WHEN {begins} THEN encode(substring(data FROM 2 FOR 8), 'hex') END"
        running = f"max({commit}) OVER (ROWS UNBOUNDED PRECEDING)"
        given = f"(SELECT lsn, data, {running} AS commit FROM {given}) AS known WHERE commit >= '{ask.after:016x}'"
    asked = (
        f"SELECT count(*) FILTER (WHERE get_byte(data, 0) = {truncated} OR get_byte(data, 0) IN "
        f"({', '.join(map(str, changes))}) AND substring(data FROM 2 FOR 4) = '\\x{ask.oid:08x}'::bytea), "
        f"count(*), (max(lsn) - '0/0')::text, max(CASE get_byte(data, 0) WHEN {begins} THEN {BEGUN} END) FROM {given}"
    )
    with _slot_border(session, name):
        ((events, messages, upto, last),) = session.rows(asked)
    return Counted(events=events, messages=messages, upto=_number(upto), last=last)


def begun(session: PostgresqlSession, name: str, publication: str, *, after: str, upto: int) -> list[str]:
    """The slot's transactions from one on whose commit begins before a place of the log.

    Each as 40 hexadecimal digits, which no other history of the server repeats: where its commit begins, when it was
    committed, and its number.

    Args:
        after: such a transaction.
    """
    place = f"{upto >> 32:X}/{upto & 0xFFFFFFFF:X}"
    asked = (
        f"SELECT {BEGUN} FROM {_peek(session, name, publication, place, None)} WHERE get_byte(data, 0) = {b'B'[0]} "
        f"AND {BEGUN} >= '{after[:16]}' AND {BEGUN} < '{upto:016x}' LIMIT 2"
    )
    with _slot_border(session, name):
        return [row[0] for row in session.rows(asked)]


def oldest(session: PostgresqlSession, name: str, publication: str, ask: SlotRange) -> datetime | None:
    """When the first transaction committed that counts and changed a table of the publication; None for none."""
    begins = b"B"[0]
    after = "" if ask.after is None else f" AND encode(substring(data FROM 2 FOR 8), 'hex') >= '{ask.after:016x}'"
    asked = (
        "SELECT min(encode(substring(data FROM 10 FOR 8), 'hex')) FROM "
        f"{_peek(session, name, publication, ask.upto, ask.most)} WHERE get_byte(data, 0) = {begins}{after}"
    )
    with _slot_border(session, name):
        ((moment,),) = session.rows(asked)
    return None if moment is None else EPOCH + timedelta(microseconds=int(moment, 16))


def messages(session: PostgresqlSession, name: str, publication: str, *, upto: str) -> Iterator[Row]:
    """The place of every message up to one, and its bytes; a few at a time, and the slot stays where it is."""
    asked = f"SELECT (lsn - '0/0')::bigint, data FROM {_peek(session, name, publication, upto, None)}"
    with _slot_border(session, name):
        yield from session.stream(asked, ROWS_AT_A_TIME)


def values(
    session: PostgresqlSession, relation: Relation, key: Mapping[str, str], names: Sequence[str]
) -> list[str | None] | None:
    """What the columns of one row are now, as output functions write them; None where there is no such row."""
    quote, string = session.dialect.quote, session.dialect.string
    listed = ", ".join(f"CASE WHEN {quote(n)} IS NOT NULL THEN format('%s', {quote(n)}) END" for n in names)
    where = " AND ".join(f"{quote(name)} = {string(text)}" for name, text in key.items())
    rows = session.rows(f"SELECT {listed} FROM {relation.sql} WHERE {where}")
    return list(rows[0]) if rows else None


def identified(session: PostgresqlSession, relation: Relation) -> Identified:
    """How the log identifies a row of the table."""
    rows = session.rows(IDENTITY.format(oid=oid_of(session, relation)))
    ((kind, identity, columns, generated, uniform),) = rows
    return Identified(
        kind=kind, identity=identity, columns=tuple(columns), generated=tuple(generated), uniform=uniform is not False
    )


def check_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise ConfigError(
            f"slot: {name!r} is not a valid replication slot name",
            hint="Use lower-case letters, digits and underscores.",
        )


def columns(session: PostgresqlSession, relation: Relation) -> tuple[Mapping[int, str], int]:
    """The columns that the log carries of a table, by number, and the greatest number that was ever given."""
    rows = session.rows(
        "SELECT attnum::int, attname::text, NOT attisdropped AND attgenerated = '' FROM pg_attribute "
        f"WHERE attrelid = {oid_of(session, relation)} AND attnum > 0"
    )
    return {number: name for number, name, carried in rows if carried}, max((row[0] for row in rows), default=0)


def _peek(session: PostgresqlSession, name: str, publication: str, upto: str, most: int | None) -> str:
    string = session.dialect.string
    options = ("proto_version", "1", "publication_names", session.dialect.quote(publication))
    given: Sequence[str] = (string(name), f"'{upto}'", str(most or "NULL"), *(string(option) for option in options))
    return f"pg_logical_slot_peek_binary_changes({', '.join(given)})"


@contextmanager
def _slot_border(session: PostgresqlSession, name: str) -> Iterator[None]:
    """What the server's refusals mean where a slot is concerned."""
    try:
        yield
    except TidegateError as error:
        found = _meaning(session, name, error.__cause__)
        if found is None:
            raise
        raise found from error


def _meaning(  # noqa: PLR0911 - one answer a refusal
    session: PostgresqlSession, name: str, cause: BaseException | None
) -> TidegateError | None:
    where = f"connection {session.name!r}: "
    match cause:
        case errors.ObjectInUse():
            return SourceUnavailable(
                f"{where}another client is reading slot {name}", hint="Run again once it has finished."
            )
        case errors.UndefinedObject():
            return HistoryGone(f"{where}the slot {name} or its publication does not exist")
        case errors.InsufficientPrivilege():
            return SourceError(
                f"{where}the user may not use replication slots",
                hint=f"Let an administrator run `ALTER ROLE {quoted(session.user)} REPLICATION`, then run again.",
            )
        case errors.LockNotAvailable():
            return SourceUnavailable(
                f"{where}the slot {name} cannot be created while older transactions are open", hint=STILL_OPEN
            )
        case errors.ConfigurationLimitExceeded():
            return ConfigError(
                f"{where}the server has no room for another replication slot",
                hint="`tidegate slot list` shows the project's slots; `max_replication_slots` is the limit.",
            )
        case errors.ObjectNotInPrerequisiteState():
            return HistoryGone(
                f"{where}the slot {name} can no longer be read: the server has removed the log that it retained"
            )
        case _:
            return None


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)
