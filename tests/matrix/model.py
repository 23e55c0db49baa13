"""What a table must hold after a history, in plain Python: nothing here is shared with the engine.

A source is a dictionary of rows by key, or the events of a log. A *view* says what a strategy can see of it since the
last load, as one effect; a *table* says what an effect leaves. `Model` joins the two for one stream.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

Row = Mapping[str, Any]
Key = int
KEY, UID, CREATED, CURSOR = "id", "uid", "created_at", "updated_at"


@dataclass(frozen=True, kw_only=True)
class Event:
    """One change of one key: `row` is None for a delete; `order` is (commit, place within it)."""

    key: Key
    row: Row | None
    order: tuple[int, int]
    at: Any = None


class Stop(Exception):
    """The load must stop with this error code; the table stays as it is."""

    def __init__(self, *codes: str) -> None:
        super().__init__(", ".join(codes))
        self.codes = codes


@dataclass(frozen=True, kw_only=True)
class Insert:
    """Rows that the table cannot hold yet."""

    rows: Sequence[Row]


@dataclass(frozen=True, kw_only=True)
class Upsert:
    """Rows by key, the last of several of one key in `rows` being the latest; `gone` are keys to delete."""

    rows: Sequence[Row]
    gone: frozenset[Key] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Mirror:
    """The table becomes exactly these rows; the others are deletes."""

    rows: Sequence[Row]


@dataclass(frozen=True, kw_only=True)
class Apply:
    """Events of a log, each applied once, whatever comes again or late."""

    events: Sequence[Event]


@dataclass(frozen=True, kw_only=True)
class Reset:
    """A full refresh that somebody asked for."""

    rows: Sequence[Row]


Effect = Insert | Upsert | Mirror | Apply | Reset


def multiset(rows: Iterable[Row]) -> Counter[tuple[Any, ...]]:
    """Rows without order, duplicates counted."""
    return Counter(tuple(sorted((name, _text(value)) for name, value in row.items())) for row in rows)


def _text(value: Any) -> str:
    return f"{type(value).__name__}:{value!s}"


@dataclass(kw_only=True)
class Appended:
    """Everything that was read, as often as it was read."""

    held: list[Row] = field(default_factory=list)

    def apply(self, effect: Effect) -> None:
        match effect:
            case Insert(rows=rows) | Upsert(rows=rows):
                self.held = [*self.held, *rows]
            case Reset(rows=rows):
                self.held = list(rows)
            case _:
                raise Stop("plan")

    def rows(self) -> list[Row]:
        return list(self.held)

    def current(self) -> list[Row]:
        return list(self.held)


@dataclass(kw_only=True)
class Replaced:
    """Exactly the rows of the last load."""

    held: list[Row] = field(default_factory=list)

    def apply(self, effect: Effect) -> None:
        match effect:
            case Mirror(rows=rows) | Reset(rows=rows):
                self.held = list(rows)
            case _:
                raise Stop("plan")

    def rows(self) -> list[Row]:
        return list(self.held)

    def current(self) -> list[Row]:
        return list(self.held)


@dataclass(kw_only=True)
class Merged:
    """The latest row of each key; with `soft`, deleted rows stay, marked."""

    soft: bool = False
    live: dict[Key, Row] = field(default_factory=dict)
    marked: dict[Key, Row] = field(default_factory=dict)
    seen: dict[Key, list[Event]] = field(default_factory=dict)

    def apply(self, effect: Effect) -> None:
        match effect:
            case Insert(rows=rows) | Upsert(rows=rows):
                for row in rows:
                    self._put(row)
                if isinstance(effect, Upsert):
                    for key in effect.gone:
                        self._drop(key)
            case Mirror(rows=rows):
                keys = {row[KEY] for row in rows}
                for key in [key for key in self.live if key not in keys]:
                    self._drop(key)
                for row in rows:
                    self._put(row)
            case Apply(events=events):
                for event in events:
                    self.seen.setdefault(event.key, []).append(event)
                for key in {event.key for event in events}:
                    newest = max(self.seen[key], key=lambda event: event.order)
                    if newest.row is None:
                        self._drop(key)
                    else:
                        self._put(newest.row)
            case Reset(rows=rows):
                self.live, self.marked, self.seen = {row[KEY]: row for row in rows}, {}, {}

    def rows(self) -> list[Row]:
        marked = [{**row, "deleted": True} for row in self.marked.values()]
        return [*({**row, "deleted": False} for row in self.live.values()), *marked] if self.soft else self.current()

    def current(self) -> list[Row]:
        return list(self.live.values())

    def _put(self, row: Row) -> None:
        self.live[row[KEY]] = row
        self.marked.pop(row[KEY], None)

    def _drop(self, key: Key) -> None:
        row = self.live.pop(key, None)
        if row is not None and self.soft:
            self.marked[key] = row


LOAD = "the time of the load"


@dataclass(frozen=True, kw_only=True)
class Change:
    """What a key became, and when: a row of None is its end."""

    at: Any
    row: Row | None
    order: tuple[int, int] = (0, 0)


@dataclass(frozen=True, kw_only=True)
class Version:
    """A row and the time in which it held; `until` is None while it does, LOAD where the load's own time dates it."""

    row: Row
    since: Any
    until: Any


@dataclass(kw_only=True)
class Versioned:
    """Every version of a row.

    Args:
        moment: the columns of which the first that is not NULL says when a row took effect; none where the load's
            own time does.
    """

    moment: tuple[str, ...]
    changes: dict[Key, list[Change]] = field(default_factory=dict)
    clock: int = 0

    def apply(self, effect: Effect) -> None:
        self.clock += 1
        match effect:
            case Insert(rows=rows) | Upsert(rows=rows):
                for row in rows:
                    self._add(row[KEY], Change(at=self._at(row), row=row))
            case Mirror(rows=rows):
                self._mirror(rows)
            case Apply(events=events):
                self._events(events)
            case Reset(rows=rows):
                self.changes = {}
                for row in rows:
                    self._add(row[KEY], Change(at=self._at(row), row=row))

    def _at(self, row: Row) -> Any:
        said = (row[name] for name in self.moment if row[name] is not None)
        return next(said) if self.moment else (self.clock, (0, 0))

    def _mirror(self, rows: Sequence[Row]) -> None:
        now = {row[KEY]: row for row in rows}
        current = {row[KEY]: row for row in self.current()}
        for key, row in current.items():
            if key in now and self.moment and now[key] != row and not self._at(row) < self._at(now[key]):
                raise Stop("a row of an older sequence, or another one of the same")
        for key in current.keys() - now.keys():
            self._add(key, Change(at=LOAD, row=None))
        for key, row in now.items():
            if current.get(key) != row:
                self._add(key, Change(at=self._at(row), row=row))

    def _events(self, events: Sequence[Event]) -> None:
        """Events of a log, each once. Without a moment of its own, one that is late has no place between versions."""
        for event in sorted(set_of(events), key=lambda one: one.order):
            known = self.changes.setdefault(event.key, [])
            if any(change.order == event.order for change in known):
                continue
            if not self.moment and known and event.order < max(change.order for change in known):
                continue
            at = event.at if self.moment else (self.clock, event.order)
            known.append(Change(at=at, row=event.row, order=event.order))

    def _add(self, key: Key, change: Change) -> None:
        known = self.changes.setdefault(key, [])
        if change.at is LOAD or change not in known:
            known.append(change)

    def versions(self) -> dict[Key, list[Version]]:
        """Of each key, in order."""
        found = {key: _versions(changes) for key, changes in self.changes.items()}
        return {key: versions for key, versions in found.items() if versions}

    def current(self) -> list[Row]:
        return [versions[-1].row for versions in self.versions().values() if versions[-1].until is None]

    def rows(self) -> list[Row]:
        return self.current()


def _versions(changes: Sequence[Change]) -> list[Version]:
    """The versions of one key: each row until the next change; rows that are alike are one."""
    loaded = any(change.at is LOAD for change in changes)  # which lies after every row that the load has seen
    ordered = changes if loaded else sorted(changes, key=lambda change: (change.at, change.order))
    found: list[Version] = []
    for change in ordered:
        last = found[-1] if found and found[-1].until is None else None
        if change.row is not None and last is not None and last.row == change.row:
            continue
        if last is not None:
            found[-1] = Version(row=last.row, since=last.since, until=change.at)
        if change.row is not None:
            found.append(Version(row=change.row, since=change.at, until=None))
    return [version for version in found if version.since != version.until]


def set_of(events: Sequence[Event]) -> list[Event]:
    """Events without those that came again."""
    return list({(event.key, event.order): event for event in events}.values())


Table = Appended | Replaced | Merged | Versioned


@dataclass(kw_only=True)
class Source:
    """What a stream can look at: the rows now, the events that have been delivered, and the files that hold them.

    Args:
        files: of each delivery, its rows at the end of it; None for a file that is gone.
    """

    rows: dict[Key, Row] = field(default_factory=dict)
    delivered: list[Event] = field(default_factory=list)
    files: list[Mapping[Key, Row] | None] = field(default_factory=list)

    def tell(self, events: Sequence[Event]) -> None:
        """Events happen."""
        self.delivered += events
        for event in events:
            self.rows.pop(event.key, None)
            if event.row is not None:
                self.rows[event.key] = event.row
        self.files.append({event.key: event.row for event in events if event.row is not None})


View = Callable[["Memory", Source, Table], Effect | None]


@dataclass(kw_only=True)
class Memory:
    """What a strategy remembers.

    Args:
        through: how far it has read.
        at, undated: the rows that carried that value, and those without one.
        unsure: it is no longer known which files have been loaded.
    """

    through: Any = None
    at: Sequence[Row] | None = None
    undated: Sequence[Row] = ()
    events: int = 0
    files: Sequence[Any] = ()
    loaded: bool = False
    rows: dict[Key, Row] = field(default_factory=dict)
    unsure: bool = False

    def again(self, since: Memory) -> Memory:
        """What is remembered where the table went back to this, after it had come as far as `since`."""
        return replace(deepcopy(self), unsure=self.files != since.files)


@dataclass(kw_only=True)
class Model:
    """One stream: what it sees, what its table holds."""

    view: View
    table: Table
    memory: Memory = field(default_factory=Memory)

    def load(self, source: Source) -> None:
        """Raises Stop where the load has to stop."""
        effect = self.view(self.memory, source, self.table)
        if effect is not None:
            self.table.apply(effect)

    def refresh(self, source: Source) -> None:
        """A full refresh: the table is what a first load of a new one would be."""
        self.memory = Memory()
        self.table.apply(Reset(rows=()))
        effect = self.view(self.memory, source, self.table)
        if effect is None:
            return
        self.table.apply(effect if isinstance(effect, Apply) else Reset(rows=effect.rows))
