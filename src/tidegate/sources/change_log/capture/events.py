"""Turns rows of a change table into events: one for each inserted, updated or deleted row.

Pure. A changed key is a delete and an insert. SQL Server checks that keys are unique once a statement has ended, so
rows may hand their keys on to each other within one: the deletes of one command come before its other changes. Where
it is unknown which of two rows of a key is the last one, the event is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tidegate.dialects.sqlserver.change_capture import AFTER, BEFORE, DELETE, INSERT, Change
from tidegate.errors import SourceError
from tidegate.sources.change_log.events import Event

HANDED_ON = (
    "its key was given to another row earlier in the transaction, and the log does not tell which one it deletes"
)
NOT_SENT = "its key was changed, and the log does not have its value of {}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureRead:
    """What is read of a capture instance.

    Args:
        key: the places of the stream's key among the values.
    """

    instance: str
    key: tuple[int, ...]


def events(changes: Iterable[Change], read: CaptureRead) -> Iterator[Event]:
    """The events of whole transactions, in the order of their commits.

    Raises:
        SourceError: an update without one of its two rows, or an unknown operation.
    """
    at_work = _Transaction(read=read, lsn="")
    for change in changes:
        if change.lsn != at_work.lsn:
            at_work.end()
            at_work = _Transaction(read=read, lsn=change.lsn)
        yield from at_work.take(change)
    at_work.end()


@dataclass(slots=True, kw_only=True)
class _Transaction:
    """What the changes of one transaction so far said.

    Args:
        before: rows before an update, by their place, until the row after it comes.
        moved: keys that rows were given by an update, and by which command.
    """

    read: CaptureRead
    lsn: str
    before: dict[str, list[Change]] = field(default_factory=dict)
    moved: dict[int, int] = field(default_factory=dict)

    def take(self, change: Change) -> Iterator[Event]:
        """The events of one row."""
        if change.operation == BEFORE:
            self.before.setdefault(change.within, []).append(change)
        elif change.operation == AFTER:
            yield from self._updated(change)
        elif change.operation == INSERT:
            yield self._event(change)
        elif change.operation == DELETE:
            yield self._deleted(change)
        else:
            raise SourceError(f"capture instance {self.read.instance} has an unknown operation {change.operation}")

    def end(self) -> None:
        """Raises SourceError where a row is missing."""
        if any(self.before.values()):
            raise self._half()

    def _updated(self, change: Change) -> Iterator[Event]:
        waiting = self.before.get(change.within)
        if not waiting:
            raise self._half()
        old = waiting.pop(0)
        if self._key(old) == self._key(change):
            yield self._event(change)
            return
        yield self._deleted(old)
        self.moved[hash(self._key(change))] = change.command
        refused = NOT_SENT.format(", ".join(change.unsent)) if change.unsent else None
        yield self._event(change._replace(unsent=()), refused=refused)

    def _deleted(self, change: Change) -> Event:
        given = self.moved.get(hash(self._key(change)), change.command)
        return self._event(change, deleted=True, refused=None if given == change.command else HANDED_ON)

    def _event(self, change: Change, *, deleted: bool = False, refused: str | None = None) -> Event:
        return Event(
            order=f"{change.lsn}.{change.command:010d}.{int(not deleted)}.{change.within}.{change.operation}",
            deleted=deleted,
            clears=False,
            values=change.values,
            unknown=change.unsent,
            refused=refused,
            raw=None,
            origin=f"capture instance {self.read.instance}, LSN {change.lsn}, change {change.within}",
        )

    def _key(self, change: Change) -> tuple[object, ...]:
        return tuple(change.values[place] for place in self.read.key)

    def _half(self) -> SourceError:
        return SourceError(
            f"capture instance {self.read.instance} has an update of LSN {self.lsn} without the row before or after it",
            hint="Run `tidegate resync STREAM`.",
        )
