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

from matrix.model import CREATED, CURSOR, KEY, UID, Event, Row
from tidegate_scenarios.samples import MOMENTS

TYPES: dict[str, str] = {
    "id": "bigint",
    "uid": "uuid",
    "code": "text",
    "qty": "int",
    "price": "decimal(10,2)",
    "name": "text",
    "day": "date",
    "seen_at": "timestamp",
    "created_at": "timestamp",
    "updated_at": "timestamp",
}
ADDED = "note"
HELD = {**TYPES, ADDED: "text"}
"""What a table may hold in the end: a source gets one column more, and every row has NULL in it until then."""
HIDDEN = "secret"
"""What a source may have and no table may get."""
BEGIN = datetime(2025, 1, 1, 12)
CODES = ("aa", "ab", "AA", "b", "ca", "c b", "é1", "")
QUANTITIES = (0, -1, 7, 2**31 - 1, -(2**31), None)
PRICES = (Decimal("0.00"), Decimal("-1.10"), Decimal("99999999.99"), Decimal("1.05"), None)
NAMES = (
    "plain", "", None, "a|b", "~N", 'say "hi"', "C:\\dir\\", "née 🚲", "a,b;c", "it's", " padded ", "line\nbreak", "\t",
    "NULL", "0012", "true",
)  # fmt: skip
DAYS = (date(2024, 12, 31), date(2025, 1, 31), date(2025, 2, 28), date(1999, 1, 1), date(9999, 12, 31), None)
SEEN = (*MOMENTS, datetime(1678, 1, 1), datetime(2025, 3, 9, 2, 30), None)


ENDS = {1: -(2**63), 2: 2**63 - 1}
"""The keys at the ends of a bigint, instead of the first ones."""


def identity(key: int) -> dict[str, Any]:
    """What never changes of a row: its key, under two names of two types."""
    return {KEY: key, UID: f"00000000-0000-4000-8000-{key % 2**48:012x}"}


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
        removed: files that go.
        aside: rows that break a check, wait and are replayed.
        extreme: keys at both ends of their type.
        ties: a cursor that was the greatest when the last load ended.
    """

    late: bool = False
    nulls: bool = False
    updates: bool = True
    deletes: bool = True
    again: bool = False
    removed: bool = False
    aside: bool = False
    extreme: bool = False
    ties: bool = False


Step = tuple[str, Any]
CHANGES = ("change", "empty", "restore")
"""The steps that are events."""


@dataclass(kw_only=True)
class Writer:
    """Makes histories; the same seed makes the same ones.

    Args:
        blanks: there are texts without a character.
    """

    seed: int
    keys: int
    kinds: Kinds
    seen: Sequence[datetime | None] = SEEN
    blanks: bool = True
    rows: dict[int, Row] = field(default_factory=dict)
    ids: int = 0
    tick: int = 0
    commit: int = 0
    widened: bool = False

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.owned: dict[int, int | None] = dict.fromkeys(range(self.keys))  # by history, the id that it has now

    def phase(self) -> list[Event]:
        """What happens between two loads, in the order of the commits."""
        self.begun = self.tick
        self.tied = {key for key, row in self.rows.items() if row[CURSOR] == stamp(self.tick)}
        turns = [key for key in range(self.keys) for _ in range(self.random.choice((0, 1, 1, 1, 2, 3)))]
        self.random.shuffle(turns)
        return [event for history in turns for event in self._change(history)]

    def emptied(self) -> list[Event]:
        """Every row goes, as a TRUNCATE or an empty file takes it."""
        self.begun = self.tick
        return [self._drop(key) for key in sorted(self.rows)]

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
            self.owned[history] = key = self._new()
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
                self.owned[history] = new = self._new()
                yield self._put(new, self._row(new))
            case _:
                pass

    def _new(self) -> int:
        self.ids += 1
        return ENDS.get(self.ids, self.ids) if self.kinds.extreme else self.ids

    def _put(self, key: int, row: Row) -> Event:
        self.rows[key] = row
        return Event(key=key, row=row, order=self._order(), at=row[CURSOR])

    def _drop(self, key: int) -> Event:
        written, at = self.rows.pop(key)[CURSOR], self._cursor()
        if self.kinds.late and at is not None:  # else a row of the key before the last one may have said the same
            self.tick += 1
            at = stamp(self.tick)
        while at is not None and at == written:  # which would say no more than the row said
            at = self._cursor()
        return Event(key=key, row=None, order=self._order(), at=at)

    def _order(self) -> tuple[int, int]:
        self.commit += self.random.choice((1, 1, 3))
        return (self.commit, self.random.choice((0, 1)))

    def _cursor(self) -> datetime | None:
        if self.tick == self.begun or self.random.random() < 0.8:  # else at the same moment as the last change
            self.tick += 1
        if self.kinds.nulls and self.random.random() < 0.1:
            return None
        return stamp(self.tick)

    def _row(self, key: int) -> Row:
        codes, names = (
            texts if self.blanks else tuple(text for text in texts if text != "") for texts in (CODES, NAMES)
        )
        pick = self.random.choice
        ties = self.kinds.ties and self.begun > 0 and key not in self.tied and self.random.random() < 0.15
        return {
            **identity(key),
            "code": pick(codes),
            "qty": pick(QUANTITIES),
            "price": pick(PRICES),
            "name": pick(names),
            "day": pick(DAYS),
            "seen_at": pick(self.seen),
            CREATED: self.rows[key][CREATED] if key in self.rows else stamp(self.tick + 1),
            CURSOR: stamp(self.begun) if ties else self._cursor(),
            ADDED: pick(names) if self.widened else None,
        }


def restricted(steps: Sequence[Step], keys: frozenset[int]) -> list[Step]:
    """The same steps, of these keys alone."""
    return [
        (kind, [event for event in what if event.key in keys]) if kind in CHANGES else (kind, what)
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
        if kind in CHANGES:
            for place in range(len(what)):
                fewer = [event for other, event in enumerate(what) if other != place]
                yield [*steps[:number], (kind, fewer), *steps[number + 1 :]]


def plainer(steps: Sequence[Step]) -> list[Step]:
    """The same steps with plain values in every column that is neither key nor cursor."""
    plain = {"code": "a", "qty": 1, "price": Decimal("1.00"), "name": "n", "day": date(2025, 1, 1)}
    plain |= {"seen_at": None, ADDED: None}

    def simple(event: Event) -> Event:
        if event.row is None:
            return event
        return replace(event, row={**event.row, **plain, "qty": hash((event.key, event.order)) % 1000})

    return [(kind, [simple(event) for event in what]) if kind in CHANGES else (kind, what) for kind, what in steps]
