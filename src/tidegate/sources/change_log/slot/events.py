"""Turns the messages of a replication slot into events: one for each inserted, updated or deleted row.

Pure. Never emits a value that was not sent, nor an event of a transaction outside the range.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tidegate.core.log import RESYNC
from tidegate.core.schema import Column, Kind, Schema
from tidegate.dialects.postgresql.output_functions import array_json
from tidegate.errors import HistoryGone, SourceError
from tidegate.sources.change_log.events import Event
from tidegate.sources.change_log.slot.pgoutput import (
    UNCHANGED,
    Begin,
    Commit,
    Delete,
    Insert,
    Relation,
    Truncate,
    Tuple,
    Update,
    Value,
    parse,
)

WHOLE_ROW = "f"
"""The replica identity of a relation whose rows are identified by all of their columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotRead:
    """What is read of a slot.

    Args:
        oid: of the table, whatever it was called in between.
        columns: those of the events, in order.
        places: where the columns of a table stand in its tuples, by the names that a relation has.
        identity: columns whose change makes a row another one; none where only the whole row identifies it. A relation
            must have the whole row, or exactly these, as the identity of its rows.
        after, upto: transactions whose commit begins at or after the one and before the other.
    """

    slot: str
    oid: int
    columns: Schema
    places: Callable[[Sequence[str]], Mapping[str, int]]
    identity: frozenset[str]
    after: int
    upto: int


def lsn(number: int) -> str:
    """A place of the write-ahead log as PostgreSQL writes it.

    Example:
        >>> lsn(0x116B3748), number("0/116B3748") == 0x116B3748
        ('0/116B3748', True)
    """
    return f"{number >> 32:X}/{number & 0xFFFFFFFF:X}"


def number(text: str) -> int:
    """The inverse of `lsn`."""
    high, low = text.split("/")
    return int(high, 16) << 32 | int(low, 16)


def floor(place: int) -> str:
    """The order that every event of a transaction committed before that place is below, and no other."""
    return f"{place:016x}"


def events(messages: Iterable[tuple[int, bytes]], wanted: SlotRead) -> Iterator[Event]:
    """The events of one range, in the order of their commits.

    Args:
        messages: each with its place in the write-ahead log, as the slot gives them.

    Raises:
        HistoryGone: a value's column is unknown, or for a time other columns than these identified a row.
        SourceError: they are not whole transactions of version 1 of the protocol.
    """
    reader = _Reader(wanted)
    for place, data in messages:
        yield from reader.take(place, data)
    if reader.begun is not None:
        raise SourceError("the replication slot ended in the middle of a transaction", hint="Run again.")


class _Reader:
    """What the messages so far said: the transaction at work, and what the table's rows look like."""

    def __init__(self, wanted: SlotRead) -> None:
        self._wanted = wanted
        self._known: dict[int, Relation | None] = {}
        self._positions: _ColumnPositions | None = None
        self.begun: Begin | None = None
        self._place, self._index, self._data = -1, 0, b""

    def take(self, place: int, data: bytes) -> Iterator[Event]:
        message = parse(data)
        match message:
            case Begin():
                self.begun, self._place = message, -1
            case Commit():
                self.begun = None
            case Relation():
                self._known[message.oid] = message if message.oid == self._wanted.oid else None
                self._positions = None if message.oid == self._wanted.oid else self._positions
            case Insert() | Update() | Delete() | Truncate():
                if self.begun is None:
                    raise SourceError("the replication slot returned a change outside a transaction", hint="Run again.")
                if place != self._place:
                    self._place, self._index = place, 0
                self._data = data
                if self._wanted.after <= self.begun.commit < self._wanted.upto:
                    yield from self._changed(self.begun, message)

    def _changed(self, begun: Begin, message: Insert | Update | Delete | Truncate) -> Iterator[Event]:
        if isinstance(message, Truncate):
            if any(self._relation(oid) for oid in message.oids):
                yield self._event(begun, _DecodedTuple(values=(None,) * len(self._wanted.columns.columns)), clears=True)
            return
        relation = self._relation(message.oid)
        if relation is None:
            return
        if self._positions is None:
            self._positions = _ColumnPositions(relation, self._wanted)
        places = self._positions
        match message:
            case Insert():
                yield self._event(begun, places.decoded(message.new, self._data))
            case Delete():
                yield self._event(begun, places.decoded(message.old, self._data), deleted=True)
            case Update(old=None):
                yield self._event(begun, places.decoded(message.new, self._data))
            case Update(old=old) if old is not None:
                new = places.filled(message.new, old, whole=message.whole)
                is_another = places.another(old, new)
                if is_another:
                    yield self._event(begun, places.decoded(old, self._data), deleted=True)
                decoded = places.decoded(new, self._data)
                yield self._event(begun, decoded, not_sent=decoded.unsent if is_another else ())
                self._index += bool(decoded.unsent)  # the place of `completion`

    def _relation(self, oid: int) -> Relation | None:
        """As the log described it last; None for another table."""
        if oid not in self._known:
            raise SourceError(
                "the replication slot returned a row of a table that it had not described", hint="Run again."
            )
        return self._known[oid]

    def _event(
        self,
        begun: Begin,
        decoded: _DecodedTuple,
        *,
        deleted: bool = False,
        clears: bool = False,
        not_sent: tuple[str, ...] = (),
    ) -> Event:
        place, index = self._place, self._index
        self._index += 1
        return Event(
            order=f"{begun.commit:016x}.{place:016x}.{index:08x}",
            deleted=deleted,
            clears=clears,
            values=decoded.values,
            unknown=() if deleted else (*decoded.unsent, *decoded.missing),
            refused=decoded.refused,
            raw=decoded.raw,
            origin=f"slot {self._wanted.slot}, LSN {lsn(place)}, transaction {begun.xid}, event {index}",
            not_sent=not_sent,
        )


class _DecodedTuple(NamedTuple):
    """What one tuple says of the wanted columns; see `Event`.

    Args:
        unsent: columns that it leaves out because they did not change.
        missing: columns that the table did not have yet.
    """

    values: Sequence[str | None]
    unsent: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    refused: str | None = None
    raw: str | None = None


class _ColumnPositions:
    """Where the wanted columns stand in the tuples of a relation."""

    def __init__(self, relation: Relation, wanted: SlotRead) -> None:
        at = wanted.places([column.name for column in relation.columns])
        self._at = [at.get(column.name) for column in wanted.columns]
        self._missing = tuple(column.name for column in wanted.columns if column.name not in at)
        self._columns = wanted.columns.columns
        self._arrays = [place for place, column in enumerate(wanted.columns) if column.type.kind is Kind.ARRAY]
        self._keys = frozenset(place for place, column in enumerate(relation.columns) if column.key)
        identity = {at.get(name) for name in wanted.identity}
        self._identity = [place for place in identity if place is not None] or range(len(relation.columns))
        if relation.identity != WHOLE_ROW and (not identity or self._keys != identity):
            raise HistoryGone(
                "for a time the log identified changed rows by "
                f"{', '.join(column.name for column in relation.columns if column.key) or 'nothing'} and not by "
                f"{', '.join(sorted(wanted.identity)) or 'the whole row'}, so it does not tell every row that changed",
                hint=RESYNC,
            )
        self._whole = not wanted.columns.excluded

    def filled(self, new: Tuple, old: Tuple, *, whole: bool) -> Tuple:
        """The new row, with what the old one says of values that were left alone."""

        def known(place: int, value: Value) -> Value:
            return old[place] if value is UNCHANGED and (whole or place in self._keys) else value

        return tuple(known(place, value) for place, value in enumerate(new))

    def another(self, old: Tuple, new: Tuple) -> bool:
        """Whether the row is another one now."""
        return any(old[place] != new[place] for place in self._identity)

    def decoded(self, row: Tuple, data: bytes) -> _DecodedTuple:
        """The values of the wanted columns as texts; None for NULL and for what is not known.

        Args:
            data: the whole message, which is kept of a row that cannot be taken.
        """
        try:
            values = [None if place is None else _text(row[place]) for place in self._at]
        except UnicodeDecodeError:
            return self._refused("a value is not valid UTF-8", data)
        for place in self._arrays:
            try:
                values[place] = _plain(values[place], self._columns[place])
            except ValueError as error:
                return self._refused(f"column {self._columns[place].name!r} holds {error}", data)
        left = (
            column.name
            for column, place in zip(self._columns, self._at, strict=True)
            if place is not None and row[place] is UNCHANGED
        )
        return _DecodedTuple(values=values, unsent=tuple(left), missing=self._missing)

    def _refused(self, reason: str, data: bytes) -> _DecodedTuple:
        nothing = (None,) * len(self._columns)
        # The message holds the values of every column, also of those that must not be read.
        raw = base64.b64encode(data).decode() if self._whole else None
        return _DecodedTuple(values=nothing, refused=reason, raw=raw)


def completion(event: Event, columns: Schema, key: Collection[str], known: Mapping[str, str | None]) -> Event:
    """What somebody else told of the row later, as texts: an event of its own, right after the row's.

    The event itself stays as the log has it, so that nobody takes these values for those that the row had then.
    """
    head, _, index = event.order.rpartition(".")
    unknown = tuple(name for name in columns.names if name not in key and name not in known)
    later = event._replace(order=f"{head}.{int(index, 16) + 1:08x}", unknown=unknown, not_sent=())
    try:
        texts = {name: _plain(text, column) for name, text in known.items() if (column := columns.find(name))}
    except ValueError as error:
        return later._replace(refused=f"a value of the row holds {error}")
    values = {**dict(zip(columns.names, event.values, strict=True)), **dict.fromkeys(unknown), **texts}
    return later._replace(values=[values[name] for name in columns.names])


def _plain(text: str | None, column: Column) -> str | None:
    """An array as JSON, anything else as it is. Raises ValueError."""
    element = column.type.element
    return text if text is None or element is None else array_json(text, element)


def _text(value: Value) -> str | None:
    return value.decode() if isinstance(value, bytes) else None
