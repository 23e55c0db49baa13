"""Decides how a replication slot of PostgreSQL is a log of changes: made before the table is read, confirmed after.

Opened by the source of change logs. Must never confirm to the server what no table's own position covers.

The position is a place of the write-ahead log; a transaction lies after it if its commit begins there or later, which
is the server's own rule for a slot. So three numbers tell everything: what the slot is confirmed to may lag behind the
table's position (a crash before the confirmation: events in between are read again and passed over), but may never be
ahead of it (a slot that was recreated, or moved by somebody else: events are gone), and the position may never be
ahead of the server's log. A table that nobody changes keeps its position, and with it the log that other tables fill:
once that is more than `QUIET_BYTES`, a load without events moves the position, and then the slot. Confirming beyond
the position for once would save that load, and leave a slot of which nobody can tell that it was not recreated.

Rows of the first load are those of a snapshot that is taken after the slot was made. What was committed in between is
in the rows and in the log; the first load of the log reads at least up to the snapshot, so that no table is ever left
with rows that are older than its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate.core.ids import Connection
from tidegate.core.log import LogSpan
from tidegate.core.position import Position
from tidegate.core.protocols import Probe
from tidegate.core.retention import Retained
from tidegate.core.schema import Schema
from tidegate.core.slices import Everything, LogRange, Slice
from tidegate.dialects import _postgresql_output as output
from tidegate.dialects import _postgresql_slots as slots
from tidegate.dialects._dialect import Relation
from tidegate.dialects._postgresql_session import PostgresqlSession
from tidegate.dialects.postgresql import Postgresql
from tidegate.errors import ConfigError, HistoryGone, InternalError, SchemaRefused
from tidegate.sources import _slot_spool as spool
from tidegate.sources._relation import of_table
from tidegate.sources._slot_events import Event, Wanted, events, floor, lsn, number

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

QUIET_BYTES = 256 * 1024 * 1024
KEPT_BYTES = 1024 * 1024 * 1024
SPOOL = "spool"
KEPT = ("slot", "publication", "identity")
"""What of a position's state is as it was after every load."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotOptions:
    """What a log in a slot is, as the project says; see `ChangeLog`.

    Args:
        folder: the project's.
    """

    connection: Connection
    slot: str
    table: str
    publication: str
    folder: Path

    def __post_init__(self) -> None:
        slots.check_name(self.slot)
        if self.connection.url.partition(":")[0].split("+")[0] not in ("postgresql", "postgres"):
            raise ConfigError(f"connection {self.connection.name!r} is not PostgreSQL, and only that has slots")

    @property
    def place(self) -> Path:
        """Where its events wait for Spark."""
        return self.folder / ".tidegate" / SPOOL / self.slot

    @property
    def relation(self) -> Relation:
        """The table."""
        return of_table(Postgresql(), self.table)


def claim(options: SlotOptions, key: Sequence[str]) -> None:
    """Makes the server keep every change from now on, where it does not yet; called before the table is read.

    Args:
        key: by which the changes will be applied.

    Raises:
        ConfigError: the server cannot, the slot or the publication are made for something else, or the log does not
            tell the key of a row that went.
        SchemaRefused: the table's log would not say which row changed.
    """
    with _session(options) as session:
        slots.check_server(session)
        told = check_identity(session, options.relation).columns
        if told and not set(key) <= set(told):
            raise ConfigError(
                f"the log of {options.relation.label} tells a row that changed by {', '.join(told)}, "
                f"and the key of the stream is {', '.join(key)}",
                hint=f"Take `key: [{', '.join(told)}]`, or `ALTER TABLE … REPLICA IDENTITY USING INDEX …`.",
            )
        found = slots.find(session, options.slot)
        if found is not None and found.plugin != slots.PLUGIN:
            raise ConfigError(
                f"the slot {options.slot} is made for the plugin {found.plugin}, not {slots.PLUGIN}",
                hint="Name another `slot:`; it is made by the first run.",
            )
        unpublished = slots.published(session, options.publication, options.relation) is None
        if unpublished:
            slots.publish(session, options.publication, options.relation)
        _check_publication(session, options)
        # A slot decodes with the publications of the time of a change.
        if found is not None and (unpublished or found.status == slots.LOST):
            slots.drop(session, options.slot)
            found = None
        if found is None:
            slots.make(session, options.slot)


def acknowledge(options: SlotOptions, position: Position) -> None:
    """Lets the server forget what the table's own position covers; nothing where it has already."""
    place = position.state.get("lsn")
    if place is None or position.state.get("slot") != options.slot:
        return
    with _session(options) as session:
        found = slots.find(session, options.slot)
        if found is not None and found.confirmed is not None and found.confirmed < number(place):
            slots.advance(session, options.slot, place)


def retained(options: SlotOptions) -> Retained:
    """What the server keeps for the slot."""
    with _session(options) as session:
        found = slots.find(session, options.slot)
    where = options.connection.name
    if found is None:
        return Retained(name=options.slot, where=where, exists=False)
    return Retained(
        name=found.name,
        where=where,
        exists=True,
        active=found.active is not None,
        status=found.status or "",
        bytes=found.retained,
        behind=found.behind,
        warning=_warning(found),
    )


def release(options: SlotOptions) -> None:
    """Drops the slot, and the publication that was made with it."""
    with _session(options) as session:
        slots.drop(session, options.slot)
        if options.publication == options.slot:
            slots.unpublish(session, options.publication)


def _warning(found: slots.Slot) -> str:
    if found.status == slots.LOST:
        return f"slot {found.name} has lost changes: the server keeps no more than `max_slot_wal_keep_size`"
    if found.retained > KEPT_BYTES or found.status not in ("reserved", None):
        return f"slot {found.name} keeps {found.retained / 2**20:,.0f} MiB of write-ahead log ({found.status})"
    return ""


def check_identity(session: PostgresqlSession, relation: Relation) -> slots.Identified:
    """How a row is identified in the log.

    Raises:
        SchemaRefused: it is not, or the log does not carry every column.
    """
    found, table = slots.identified(session, relation), relation.sql
    if found.kind not in ("r", "p"):
        raise SchemaRefused(f"{relation.label} is no table, and only tables have a log")
    if found.identity == "n" or (found.identity in "di" and not found.columns):
        raise SchemaRefused(
            f"the log of {relation.label} does not say which row an update or a delete is about: it has no primary key",
            hint=f"`ALTER TABLE {table} REPLICA IDENTITY FULL`, or give it a primary key; then run again.",
        )
    if found.kind == "p" and (found.identity in "fi" or not found.uniform):
        raise SchemaRefused(
            f"the partitions of {relation.label} do not all identify their rows by the primary key alone",
            hint="`ALTER TABLE … REPLICA IDENTITY DEFAULT` for the table and each of its partitions.",
        )
    if found.generated:
        raise SchemaRefused(
            f"column {found.generated[0]!r} of {relation.label} is generated, and the log does not carry it",
            hint=f"`ALTER TABLE {table} ALTER COLUMN … DROP EXPRESSION`, or load the table by another strategy.",
        )
    return found


@contextmanager
def opened(options: SlotOptions, table: Probe) -> Iterator[SlotLog]:
    """The log, beside the table that it is of."""
    with _session(options) as session, ExitStack() as held:
        slots.check_server(session)
        yield SlotLog(options, session, table, held)


class SlotLog:
    """A replication slot as a log of one table."""

    def __init__(self, options: SlotOptions, session: PostgresqlSession, table: Probe, held: ExitStack) -> None:
        self._options = options
        self._session = session
        self._table = table
        self._held = held
        self._notes: list[str] = []

    @property
    def label(self) -> str:
        """How people call it."""
        return f"slot {self._options.slot}"

    def identity(self) -> str:
        """Server, database and table."""
        return self._table.identity()

    def clock(self) -> int | None:
        """The end of the write-ahead log."""
        return self._table.clock()

    def schema(self) -> Schema:
        """The columns of the table."""
        return self._table.schema()

    def now(self) -> datetime:
        """The time."""
        return datetime.now(UTC)

    def still(self) -> None:
        """Nothing to ask: what the log holds of a range never changes."""

    def notes(self) -> tuple[str, ...]:
        """Of a slot that keeps much of the write-ahead log."""
        return tuple(self._notes)

    def after(self, state: Mapping[str, Any] | None, *, most: int | None) -> LogSpan:
        """What lies after a position; for None the table itself, in a snapshot that is taken now.

        `behind` is 1 where more than `most` lies after the position: how much, only reading all of it would tell.
        """
        found = slots.find(self._session, self._options.slot)
        if found is not None and (warning := _warning(found)):
            self._notes.append(warning)
        if state is None:
            return self._bulk(found)
        position, lagging = self._checked(state, found)
        end = slots.flushed(self._session)
        if end < position:
            raise HistoryGone(f"the table was loaded up to {lsn(position)}, and the server's log ends at {lsn(end)}")
        return self._span(state, position, end, None if lagging else most, lagging=lagging)

    def events(self, session: SparkSession, parts: Sequence[Slice], schema: Schema) -> DataFrame:
        """The events of one range; decoded here a chunk at a time, and read by Spark from files beside the project.

        A session that does not share this machine's files is handed them in memory.
        """
        (part,) = parts
        if not isinstance(part, LogRange) or part.after is None:
            raise InternalError("a replication slot is read by one range of its log")
        return self._held.enter_context(spool.spooled(session, self._events(part, schema), schema, self._options.place))

    def _bulk(self, found: slots.Slot | None) -> LogSpan:
        """The table as one snapshot has it; without a slot (nobody has claimed it) its position leads nowhere."""
        state: dict[str, Any] = {"slot": self._options.slot}
        self._table.schema()  # takes the snapshot: what was committed before is seen, and lies before `through`
        if found is None or found.confirmed is None:
            reason = f"read whole, and its log from then on by slot {self._options.slot}, which the run makes"
            return LogSpan(slices=(Everything(),), state=state, bulk=True, reason=reason)
        state |= {
            "lsn": lsn(found.confirmed),
            "through": lsn(slots.written(self._session)),
            "publication": _check_publication(self._session, self._options).mark,
            "identity": list(check_identity(self._session, self._options.relation).columns),
        }
        reason = f"read whole, and its log from {state['lsn']} on by slot {self._options.slot}"
        return LogSpan(slices=(Everything(),), state=state, bulk=True, floor=floor(found.confirmed), reason=reason)

    def _checked(self, state: Mapping[str, Any], found: slots.Slot | None) -> tuple[int, bool]:
        """The position, if the slot still has everything after it; and whether it has more, which was not confirmed."""
        name = self._options.slot
        if state.get("slot") != name or "lsn" not in state:
            raise HistoryGone(f"the table was loaded by slot {state.get('slot')}, and the stream now names {name}")
        if found is None:
            raise HistoryGone(f"the slot {name} is not there any more, and with it what changed since the last load")
        if found.status == slots.LOST or found.confirmed is None:
            raise HistoryGone(
                f"the slot {name} has lost changes: the server keeps no more than `max_slot_wal_keep_size`"
            )
        position = number(state["lsn"])
        if found.confirmed > position:
            raise HistoryGone(
                f"the table was loaded up to {state['lsn']}, and the slot {name} begins at {lsn(found.confirmed)}: "
                "it was recreated, or read by somebody else, or the table was set back"
            )
        if state.get("publication") != _check_publication(self._session, self._options).mark:
            raise HistoryGone(f"the table was not in the publication {self._options.publication} all the time")
        told = check_identity(self._session, self._options.relation).columns
        if state.get("identity") != list(told):
            raise HistoryGone(f"the log told a row that changed by other columns than by {', '.join(told) or 'all'}")
        return position, found.confirmed < position

    def _span(self, state: Mapping[str, Any], position: int, end: int, most: int | None, *, lagging: bool) -> LogSpan:
        """What lies between; `lagging` says that the slot has more, of which a limit might never let anything pass."""
        name, publication = self._options.slot, self._options.publication
        through = number(state["through"]) if "through" in state else 0
        if end < through:  # committed without waiting for the disk, a moment ago
            return LogSpan(slices=(), state=state, events=0)
        if position < through:
            most = None
        oid = int(self.identity().rpartition(":")[2])
        ask = slots.Ask(oid=oid, after=position if lagging else None, upto=lsn(end), most=most)
        counted, messages, last = slots.count(self._session, name, publication, ask)
        limited = most is not None and messages >= most
        upto = last if limited and last is not None else max(last or 0, end)
        if not counted and not limited and upto - position < QUIET_BYTES:
            return LogSpan(slices=(), state=state, events=0)
        return LogSpan(
            slices=(LogRange(part=name, after=lsn(position), upto=lsn(upto)),),
            state={**{name: kept for name, kept in state.items() if name in KEPT}, "lsn": lsn(upto)},
            events=counted,
            behind=int(limited and upto < end),
            reason=f"{counted} changes up to {lsn(upto)}"
            if counted
            else f"no change up to {lsn(upto)}, so that the server need not keep its log",
        )

    def _events(self, part: LogRange, schema: Schema) -> Iterator[Event]:
        identity = check_identity(self._session, self._options.relation)
        wanted = Wanted(
            slot=part.part,
            table=self._table_name(),
            columns=schema,
            identity=frozenset(identity.columns),
            after=number(part.after or ""),
            upto=number(part.upto),
        )
        self._session.rows(output.SETTINGS)
        return events(slots.messages(self._session, part.part, self._options.publication, upto=part.upto), wanted)

    def _table_name(self) -> tuple[str, str]:
        """Schema and name, also of a table that was named without its schema."""
        string = Postgresql().string(self._options.relation.sql)
        asked = (
            "SELECT n.nspname::text, c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            f"WHERE c.oid = {string}::regclass"
        )
        ((schema, name),) = self._session.rows(asked)
        return schema, name


@contextmanager
def _session(options: SlotOptions) -> Iterator[PostgresqlSession]:
    """A connection of its own: what is asked about slots must not run inside the snapshot of the rows."""
    session = PostgresqlSession(Postgresql(), options.connection)
    try:
        session.rows("SET statement_timeout = 0")
        yield session
    finally:
        session.close()


def _check_publication(session: PostgresqlSession, options: SlotOptions) -> slots.Publication:
    name, table = options.publication, options.relation
    found = slots.published(session, name, table)
    if found is None:
        raise HistoryGone(f"there is no publication {name} any more")
    if not found.holds:
        raise ConfigError(
            f"the publication {name} does not hold {table.label}",
            hint=f"Name another `publication:`, or `ALTER PUBLICATION {name} ADD TABLE {table.sql}` and load it anew.",
        )
    if not found.whole or found.limited:
        raise ConfigError(
            f"the publication {name} leaves out some changes, rows or columns of {table.label}",
            hint="Name another `publication:`; without one the first run makes it.",
        )
    return found
