"""A PostgreSQL replication slot as a change log: what follows a position, and its events.

Never continues if the slot has lost changes after the position, and never moves the slot.

The position is a place in the write-ahead log (LSN); a transaction is after it if its commit starts there or later,
which is the server's own rule for a slot. The LSN that the slot has confirmed may be behind the table's position (a
crash before the confirmation: events in between are read again and skipped), but only if the log in between is the one
that was loaded, which its last transaction shows: a restored server has another one there. It may never be ahead of the
position (the slot was recreated, or moved by another client: events are lost), and the position may never be ahead of
the server's log. A table without changes keeps its position, and with it log that other tables fill: once that is more
than `QUIET_BYTES`, a load without events moves the position, and then the slot. Confirming beyond the position just
once would save that load, but leave a slot that cannot be distinguished from a recreated one.

Rows of the first load come from a snapshot taken after the slot was created. What was committed in between is both in
the rows and in the log; the first load of the log reads at least up to the snapshot, so that no table is left with rows
older than its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from tidegate.core.log import Lag, LogSpan
from tidegate.core.ports.source import Probe
from tidegate.core.schema import Schema
from tidegate.core.slices import Everything, LogRange
from tidegate.dialects.postgresql import output_functions as output
from tidegate.dialects.postgresql import replication_slots as slots
from tidegate.dialects.postgresql.session import PostgresqlSession
from tidegate.errors import HistoryGone, SourceMoved
from tidegate.sources.change_log import spool
from tidegate.sources.change_log.database_log import DatabaseLog
from tidegate.sources.change_log.events import Event
from tidegate.sources.change_log.slot import slot
from tidegate.sources.change_log.slot.attributes import Attributes, places
from tidegate.sources.change_log.slot.events import SlotRead, completion, events, floor, lsn, number

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUIET_BYTES = 256 * 1024 * 1024
COUNTED = 1_000_000
"""Messages after which a lag is not counted any further: the server decodes its log again for every question."""
KEPT = ("slot", "publication", "identity", "unique", "columns")
"""Keys of a position's state that every load keeps; it renews the columns unless they may have changed since."""


@contextmanager
def opened(options: slot.SlotOptions, table: Probe) -> Iterator[SlotLog]:
    """The log, beside the table that it is of."""
    with slot.session_of(options) as session, ExitStack() as held:
        slots.check_server(session)
        yield SlotLog(options, session, table, held)


class SlotLog(DatabaseLog):
    """A replication slot as a log of one table."""

    def __init__(self, options: slot.SlotOptions, session: PostgresqlSession, table: Probe, held: ExitStack) -> None:
        super().__init__(table, held, options.place)
        self._options = options
        self._session = session
        self._notes: list[str] = []
        self._kept: str | None = None

    @property
    def label(self) -> str:
        return f"slot {self._options.slot}"

    def verify_unchanged(self) -> None:
        """Nothing to ask: what the log holds of a range never changes."""

    def notes(self) -> tuple[str, ...]:
        """Of a slot that keeps much of the write-ahead log."""
        return tuple(self._notes)

    def after(self, state: Mapping[str, Any] | None, *, most: int | None) -> LogSpan:
        """What lies after a position; for None the table itself, in a snapshot that is taken now."""
        found = slots.find(self._session, self._options.slot)
        if found is not None and (warning := slot.warning_of(found)):
            self._notes.append(warning)
        if state is None:
            return self._bulk(found)
        position, lagging, proofs = self._checked(state, found)
        columns, known_at = self._columns(), slots.written(self._session)
        self._kept = state.get("columns")
        self._check_columns(columns)
        end = slots.flushed(self._session)
        if end < position:
            raise HistoryGone(
                f"the table was loaded up to {lsn(position)}, but the server's log ends at {lsn(end)}", restored=True
            )
        slot.check_history(self._session, self._options, state)
        span = self._span(state, position, end, None if lagging else most, lagging=lagging)
        reached = {**span.state, **proofs}
        span = replace(span, state=reached)
        if number(reached["lsn"]) < known_at:  # columns may have changed in what is read later
            return span
        return replace(span, state={**reached, "columns": columns.kept()})

    def lag(self, state: Mapping[str, Any] | None) -> Lag:
        """The table's changes after the position, of `COUNTED` messages at most, and when the first one committed."""
        if state is None:
            return Lag()
        position, lagging, _ = self._checked(state, slots.find(self._session, self._options.slot))
        name, publication, end = self._options.slot, self._options.publication, slots.flushed(self._session)
        ask = slots.SlotRange(oid=self._oid, after=position if lagging else None, upto=lsn(end), most=COUNTED)
        events = slots.count(self._session, name, publication, ask).events
        oldest = slots.oldest(self._session, name, publication, ask) if events else None
        return Lag(events=events, seconds=max(0, int((self.now() - oldest).total_seconds())) if oldest else 0)

    def carried(self, session: SparkSession, schema: Schema) -> Sequence[spool.Carried]:  # noqa: ARG002 - as stored
        """As the texts that the server's output functions write."""
        return [spool.Carried(wire="string", value=partial(output.stored, column=column)) for column in schema]

    def _bulk(self, found: slots.Slot | None) -> LogSpan:
        """The table as one snapshot has it; without a slot (nobody has claimed it) its position leads nowhere."""
        state: dict[str, Any] = {"slot": self._options.slot}
        position, last = self._beginning(found)
        self._table.schema()  # takes the snapshot: what was committed before is seen, and lies before `through`
        if found is None or found.confirmed is None:
            reason = f"read completely, then its log from there by slot {self._options.slot}, which the run creates"
            return LogSpan(slices=(Everything(),), state=state, bulk=True, reason=reason)
        state |= {
            "lsn": lsn(position),
            **({"last": last} if last else {}),
            "through": lsn(slots.written(self._session)),
            **self._proofs(slot.check_identity(self._session, self._options)),
            "columns": self._columns().kept(),
        }
        reason = f"read completely, then its log from {state['lsn']} on by slot {self._options.slot}"
        return LogSpan(slices=(Everything(),), state=state, bulk=True, floor=floor(position), reason=reason)

    def _beginning(self, found: slots.Slot | None) -> tuple[int, str | None]:
        """Where the log goes on once the table was read, and the last transaction before that.

        A slot that has changes of the table already is not read from its beginning: these are in the rows, and what may
        be missing among them is why a table is read again. What committed before is seen by any snapshot from now on.
        """
        if found is None or found.confirmed is None:
            return 0, None
        end = slots.flushed(self._session)
        ask = slots.SlotRange(oid=self._oid, after=None, upto=lsn(end), most=None)
        counted = None
        with suppress(HistoryGone):  # of a publication that was there for a part of it
            counted = slots.count(self._session, found.name, self._options.publication, ask)
        if counted is not None and not counted.events:
            return found.confirmed, slots.NO_TRANSACTION
        slots.wait_for_writers(self._session, found.name)
        return (end, None) if counted is None else (max(counted.upto or 0, end), counted.last)

    def _proofs(self, identified: slots.Identified) -> dict[str, Any]:
        """What a position keeps of all that the log's telling every change depends on."""
        return {
            "publication": slot.check_publication(self._session, self._options).mark,
            "identity": list(identified.columns),
            "unique": list(slot.check_key(self._session, self._options, identified)),
        }

    def _checked(self, state: Mapping[str, Any], found: slots.Slot | None) -> tuple[int, bool, dict[str, Any]]:
        """The position, if the slot still has everything after it; whether it has more; what the next position keeps.

        What it has more was not confirmed. All that the first load asked for is asked for again, and has to have been
        so all the time.
        """
        name = self._options.slot
        if state.get("slot") != name or "lsn" not in state:
            raise HistoryGone(f"the table was loaded with slot {state.get('slot')}, and the stream now names {name}")
        if found is None:
            raise HistoryGone(f"the slot {name} no longer exists, and changes since the last load are lost with it")
        if found.status == slots.LOST or found.confirmed is None:
            raise HistoryGone(
                f"the slot {name} has lost changes: the server retains no more than `max_slot_wal_keep_size`"
            )
        position = number(state["lsn"])
        if found.confirmed > position:
            raise HistoryGone(
                f"the table was loaded up to {state['lsn']}, but the slot {name} begins at {lsn(found.confirmed)}: "
                "it was recreated, or read by another client, or the table was set back"
            )
        if not slot.check_publication(self._session, self._options).continues(state.get("publication")):
            raise HistoryGone(f"the table was not in the publication {self._options.publication} all the time")
        identified = slot.check_identity(self._session, self._options)
        if state.get("identity") != list(identified.columns):
            raise HistoryGone(
                f"the log used to identify changed rows by columns other than {', '.join(identified.columns) or 'all'}"
            )
        proofs = self._proofs(identified)
        if "unique" in state and proofs["unique"] and not set(state["unique"]) & set(proofs["unique"]):
            raise HistoryGone(
                f"nothing kept two rows from having the same {', '.join(self._options.key)} all the time, and of such "
                "rows the log does not tell which one changed"
            )
        return position, found.confirmed < position, proofs

    def _check_columns(self, now: Attributes) -> None:
        """Raises HistoryGone where a column is another one than the table was loaded from."""
        for name in now.replaced(self._kept or ""):
            if self._options.selection.takes(name):
                raise HistoryGone(
                    f"column {name!r} was replaced by another one of its name since the last load, and the log does "
                    "not tell what its rows have now"
                )

    def _span(self, state: Mapping[str, Any], position: int, end: int, most: int | None, *, lagging: bool) -> LogSpan:
        """What lies between; `lagging` says that the slot has more, of which a limit might never let anything pass."""
        name, publication = self._options.slot, self._options.publication
        through = number(state["through"]) if "through" in state else 0
        if end < through:  # committed without waiting for the disk, a moment ago
            return LogSpan(slices=(), state=state, events=0)
        if position < through:
            most = None
        ask = slots.SlotRange(oid=self._oid, after=position if lagging else None, upto=lsn(end), most=most)
        counted, messages, ends, last = slots.count(self._session, name, publication, ask)
        limited = most is not None and messages >= most
        upto = ends if limited and ends is not None else max(ends or 0, end)
        known = {"last": found} if (found := last or state.get("last")) else {}
        if not counted and not limited and upto - position < QUIET_BYTES:
            return LogSpan(slices=(), state=state, events=0)
        return LogSpan(
            slices=(LogRange(part=name, after=lsn(position), upto=lsn(upto)),),
            state={**{name: kept for name, kept in state.items() if name in KEPT}, "lsn": lsn(upto), **known},
            events=counted,
            taken=upto - position,
            behind=max(end - upto, 0) if limited else 0,
            reason=f"{counted} changes up to {lsn(upto)}"
            if counted
            else f"no change up to {lsn(upto)}, recorded so that the server need not retain its log",
        )

    def decoded(self, part: LogRange, schema: Schema) -> Iterator[Event]:
        """The events of one range, completed from the table where the log does not tell a value."""
        identity = slot.check_identity(self._session, self._options)
        now = self._columns()
        if missing := sorted(set(schema.names) - set(now.names.values())):
            raise SourceMoved(f"column {missing[0]!r} was renamed or dropped while the load began", hint="Run again.")
        wanted = SlotRead(
            slot=part.part,
            oid=self._oid,
            columns=schema,
            places=partial(places, now=now, kept=self._kept or now.kept()),
            identity=frozenset(identity.columns),
            after=number(part.after or ""),
            upto=number(part.upto),
        )
        self._session.rows(output.SETTINGS)
        read = slots.messages(self._session, part.part, self._options.publication, upto=part.upto)
        for event in events(read, wanted):
            yield event
            if event.not_sent and (later := self._looked_up(event, schema, identity.columns)) is not None:
                yield later

    def _looked_up(self, event: Event, schema: Schema, key: Sequence[str]) -> Event | None:
        """The values that the table has now of a row whose key changed, where the log does not tell them.

        Whatever changed them since is an event that comes later, and so is the end of a row that is not there.
        """
        texts = dict(zip(schema.names, event.values, strict=True))
        named = {name: text for name in key if (text := texts.get(name)) is not None}
        found = slots.values(self._session, self._options.relation, named, event.not_sent)
        if found is None:
            return None
        return completion(event, schema, named, dict(zip(event.not_sent, found, strict=True)))

    def _columns(self) -> Attributes:
        names, last = slots.columns(self._session, self._options.relation)
        return Attributes(names=names, last=last)

    @property
    def _oid(self) -> int:
        return int(self.identity().rpartition(":")[2])
