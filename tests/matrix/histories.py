"""Random histories of keys: what happens to the rows of a source between two loads.

Every key has a history of its own, so one table of many keys tests as many histories at once. Nothing here knows a
database or a file: rows are dictionaries, and a cursor is a number of ticks until `stamp` makes a time of it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from matrix.model import CREATED, CURSOR, KEY, Event, Row

TYPES: dict[str, str] = {
    "id": "bigint",
    "code": "text",
    "qty": "int",
    "price": "decimal(10,2)",
    "name": "text",
    "day": "date",
    "created_at": "timestamp",
    "updated_at": "timestamp",
}
BEGIN = datetime(2025, 1, 1, 12)
CODES = ("aa", "ab", "AA", "b", "ca", "c b", "é1", "")
QUANTITIES = (0, -1, 7, 2**31 - 1, -(2**31), None)
PRICES = (Decimal("0.00"), Decimal("-1.10"), Decimal("99999999.99"), Decimal("1.05"), None)
NAMES = (
    "plain", "", None, "a|b", "~N", 'say "hi"', "C:\\dir\\", "née 🚲", "a,b;c", "it's", " padded ", "line\nbreak", "\t",
    "NULL", "0012", "true",
)  # fmt: skip
DAYS = (date(2024, 12, 31), date(2025, 1, 31), date(2025, 2, 28), date(1999, 1, 1), date(9999, 12, 31), None)


def stamp(tick: int) -> datetime:
    """The moment of a tick: a minute each, with microseconds."""
    return BEGIN + timedelta(minutes=tick, microseconds=(tick * 7919) % 1_000_000)


@dataclass(frozen=True, kw_only=True)
class Kinds:
    """What may happen in a history, as a source and the strategies that look at it can bear.

    Args:
        late: a change with a cursor below those that were loaded.
        nulls: a cursor of NULL.
        deletes, updates: such changes at all.
        again: events that are delivered once more, later than they should be, and in any order.
    """

    late: bool = False
    nulls: bool = False
    updates: bool = True
    deletes: bool = True
    again: bool = False


Step = tuple[str, Any]


@dataclass(kw_only=True)
class Writer:
    """Makes histories; the same seed makes the same ones."""

    seed: int
    keys: int
    kinds: Kinds
    rows: dict[int, Row] = field(default_factory=dict)
    ids: int = 0
    tick: int = 0
    commit: int = 0

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.owned: dict[int, int | None] = dict.fromkeys(range(self.keys))  # by history, the id that it has now

    def phase(self) -> list[Event]:
        """What happens between two loads, in the order of the commits."""
        turns = [key for key in range(self.keys) for _ in range(self.random.choice((0, 1, 1, 1, 2, 3)))]
        self.random.shuffle(turns)
        return [event for history in turns for event in self._change(history)]

    def delivered(self, phase: Sequence[Event], before: Sequence[Event]) -> list[Event]:
        """The events as a careless carrier brings them: some again, in another order."""
        if not self.kinds.again:
            return list(phase)
        chosen = [*phase, *(event for event in [*before, *phase] if self.random.random() < 0.15)]
        places = {id(event): place for place, event in enumerate(chosen)}
        return sorted(chosen, key=lambda event: places[id(event)] + self.random.random() * 6)

    def _change(self, history: int) -> Iterator[Event]:
        key = self.owned[history]
        if key is None:
            self.ids += 1
            self.owned[history] = key = self.ids
        row = self.rows.get(key)
        if row is None:
            yield self._put(key, self._row(key))
            return
        doing = ["nothing"]
        if self.kinds.updates:
            doing += ["update", "update", "update", "touch", *(["late"] if self.kinds.late else [])]
        if self.kinds.deletes:
            doing += ["delete", "delete"]
        if self.kinds.updates and self.kinds.deletes:
            doing += ["rename", "again"]
        match self.random.choice(doing):
            case "update":
                yield self._put(key, self._row(key))
            case "touch":
                yield self._put(key, {**row, CURSOR: self._cursor()})
            case "late":
                yield self._put(key, {**self._row(key), CURSOR: stamp(self.random.randrange(1, max(2, self.tick)))})
            case "delete":
                yield self._drop(key)
            case "again":
                yield self._drop(key)
                yield self._put(key, self._row(key))
            case "rename":
                yield self._drop(key)
                self.ids += 1
                self.owned[history] = self.ids
                yield self._put(self.ids, self._row(self.ids))
            case _:
                pass

    def _put(self, key: int, row: Row) -> Event:
        self.rows[key] = row
        return Event(key=key, row=row, order=self._order(), at=row[CURSOR])

    def _drop(self, key: int) -> Event:
        del self.rows[key]
        return Event(key=key, row=None, order=self._order(), at=self._cursor())

    def _order(self) -> tuple[int, int]:
        self.commit += self.random.choice((1, 1, 3))
        return (self.commit, self.random.choice((0, 1)))

    def _cursor(self) -> datetime | None:
        self.tick += 1
        if self.kinds.nulls and self.random.random() < 0.1:
            return None
        return stamp(self.tick)

    def _row(self, key: int) -> Row:
        pick = self.random.choice
        return {
            KEY: key,
            "code": pick(CODES),
            "qty": pick(QUANTITIES),
            "price": pick(PRICES),
            "name": pick(NAMES),
            "day": pick(DAYS),
            CREATED: self.rows[key][CREATED] if key in self.rows else stamp(self.tick + 1),
            CURSOR: self._cursor(),
        }


def restricted(steps: Sequence[Step], keys: frozenset[int]) -> list[Step]:
    """The same steps, of these keys alone."""
    return [
        (kind, [event for event in what if event.key in keys]) if kind == "change" else (kind, what)
        for kind, what in steps
    ]


def without(steps: Sequence[Step], number: int) -> list[Step]:
    """The same steps but one."""
    return [step for place, step in enumerate(steps) if place != number]


def smaller(steps: Sequence[Step]) -> Iterator[list[Step]]:
    """Shorter histories, the boldest cuts first."""
    for number in range(len(steps) - 1, -1, -1):
        yield without(steps, number)
    for number, (kind, what) in enumerate(steps):
        if kind == "change":
            for place in range(len(what)):
                fewer = [event for other, event in enumerate(what) if other != place]
                yield [*steps[:number], (kind, fewer), *steps[number + 1 :]]


def plainer(steps: Sequence[Step]) -> list[Step]:
    """The same steps with plain values in every column that is neither key nor cursor."""
    plain = {"code": "a", "qty": 1, "price": Decimal("1.00"), "name": "n", "day": date(2025, 1, 1)}

    def simple(event: Event) -> Event:
        if event.row is None:
            return event
        return replace(event, row={**event.row, **plain, "qty": hash((event.key, event.order)) % 1000})

    return [(kind, [simple(event) for event in what]) if kind == "change" else (kind, what) for kind, what in steps]
