"""What a run of the matrix does with one source: histories, and what happens to its tables between the loads."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from matrix.groups import FLAVOURS, FORMATS, Flavour
from matrix.histories import CODES, SEEN, Kinds, Step, Writer
from matrix.model import CURSOR, Event
from matrix.shapes import OWN_LOGS, Shape
from tidegate.engine.events import BOUNDARIES

UNFIT = ("1,5", "1.105", "1e400", "123456789.00", "1.234,50")
"""What is written for a decimal(10,2) that is none."""
TROUBLES = (Kinds(), Kinds(late=True), Kinds(nulls=True))
FEWER = (Kinds(deletes=False), Kinds(updates=False, deletes=False))
"""For what bears none of the others."""


def chosen(flavour: Flavour, table_format: str, seed: int, *, every_kin: bool = True) -> list[Shape]:
    """The shapes that this flavour runs on this format.

    All flavours of a kin run a shape once on each format; if not `every_kin`, all of a family run it once on one.
    """
    sharing = [
        (other, kind)
        for other in FLAVOURS.values()
        for kind in ([table_format] if every_kin else FORMATS)
        if (other.kin == flavour.kin if every_kin else other.family == flavour.family)
    ]
    runs = {kind: {one.name: one.shapes(kind, seed) for one, _ in sharing} for _, kind in sharing}
    mine = []
    for shape in flavour.shapes(table_format, seed):
        able = [(one, kind) for one, kind in sharing if shape in runs[kind][one.name]]
        if able[(zlib.crc32(shape.name.encode()) + seed) % len(able)] == (flavour, table_format):
            mine.append(shape)
    return mine


def by_kinds(flavour: Flavour, shapes: Sequence[Shape], seed: int) -> dict[Kinds, list[Shape]]:
    """Shapes by their histories."""
    found: dict[Kinds, list[Shape]] = {}
    for shape in shapes:
        turn = seed + zlib.crc32(shape.name.encode())
        found.setdefault(_kinds(flavour, shape, turn), []).append(shape)
    return found


def _kinds(flavour: Flavour, shape: Shape, turn: int) -> Kinds:
    """The first kind of trouble, from the seed on, that the shape bears."""
    aside = turn // len(TROUBLES) % 16 == 0  # which takes four times as long as others
    if flavour.source == "change_log":
        return Kinds(again=flavour.name not in OWN_LOGS, aside=aside, late=not aside)
    if shape.strategy == "files":
        removed = shape.options.get("on_delete") == "remove"
        late = shape.writer == "merge" and turn % 3 > 0
        return Kinds(late=late, deletes=False, removed=removed, aside=aside and not removed)
    troubles = (TROUBLES[(turn + number) % len(TROUBLES)] for number in range(len(TROUBLES)))
    found = next(kinds for kinds in (*troubles, *FEWER) if shape.bears(kinds))
    ties = shape.added_to and shape.options.get("column") == CURSOR
    return replace(found, aside=aside, extreme=shape.strategy == "checksum", ties=ties)


@dataclass(kw_only=True)
class Script:
    """Phases of histories, a load after each, some of them interrupted first; and what happens beside loads."""

    flavour: Flavour
    shapes: Sequence[Shape]
    kinds: Kinds
    format: str
    chance: random.Random
    writer: Writer
    steps: list[Step] = field(default_factory=list)
    past: list[Event] = field(default_factory=list)

    def write(self, phases: int) -> list[Step]:
        if self.flavour.source == "database" and not self.kinds.aside and self._perhaps(0.5):
            self._load()  # of a source without rows
        if not phases:
            self._sample()
        elif self.kinds.aside:
            self._aside(phases)
        else:
            for number in range(phases):
                self._phase(first=number == 0, last=number == phases - 1)
            self._accidents()
        return self.steps

    def _does(self, *steps: Step) -> None:
        self.steps += steps

    def _load(self, share: float = 0.0) -> None:
        self._does(("load", crashes([shape.name for shape in self.shapes], self.chance, share)))

    def _changes(self, share: float = 0.0) -> None:
        """A phase of changes, and a load of them."""
        phase = self.writer.phase()
        self._does(("change", self.writer.delivered(phase, self.past)))
        self.past += phase
        self._load(share)

    def _phase(self, *, first: bool, last: bool) -> None:
        if not first and self._can_widen and self._perhaps(0.5):
            self._widened()
        self._changes(0.05 if first else 0.15)
        if not first and self._can_go_back and self._perhaps(0.35):
            self._went_back()
        if not last and self._perhaps(0.3):
            self._kept_up()
        if last or self._perhaps(0.3):
            self._verified()

    def _sample(self) -> None:
        """The least that a combination has to show: a first load, changes, and one thing that happens beside loads."""
        if self.kinds.aside:
            self._does(("hold", self.chance.sample(CODES, 3)))
        self._changes()
        self._changes(0.3)
        if self.kinds.aside:
            self._does(("accept", None))
        else:
            self.chance.choice(self._incidents())()
        self._verified()

    def _incidents(self) -> list[Callable[[], None]]:
        """What may happen beside loads, as far as this source and these streams bear it."""
        if self.kinds.removed:
            return [self._removed]
        able = {
            self._went_back: self._can_go_back,
            self._kept_up: True,
            self._tampered: True,
            self._refreshed: not self._reads_files_once,
            self._emptied: self.kinds.deletes,
            self._restored: self.flavour.restores and (self.kinds.updates or self.kinds.deletes),
            self._spoiled: self.flavour.states,
            self._widened_and_changed: self._can_widen,
        }
        return [incident for incident, bears in able.items() if bears]

    def _aside(self, phases: int) -> None:
        """Rows are set aside and replayed: all of them at first, then those of some codes."""
        self._does(("hold", CODES))
        self._changes()
        self._load()
        self._does(("hold", self.chance.sample(CODES, 3)))
        for _ in range(phases):
            self._changes(0.3)
        self._does(("accept", None))
        self._changes()
        self._verified()

    def _accidents(self) -> None:
        if self.flavour.states:
            self._spoiled()
        # Where nothing changes but by inserts, a copy may be what the source is anyhow.
        if self.flavour.restores and self._perhaps(0.3) and (self.kinds.updates or self.kinds.deletes):
            self._restored()
        if self.kinds.deletes and self._perhaps(0.3):
            self._emptied()
        if self._reads_files_once or self._perhaps(0.5):
            self._tampered()
        else:
            self._refreshed()
        self._changes()
        if self.kinds.removed:
            self._removed()
            self._changes()

    @property
    def _can_widen(self) -> bool:
        return self.flavour.widens and not self.writer.widened

    @property
    def _can_go_back(self) -> bool:
        """Whether what was read can be read again: a log of the database's own tells nothing twice."""
        return self.kinds.again or not any(shape.strategy == "cdc" for shape in self.shapes)

    @property
    def _reads_files_once(self) -> bool:
        """All files at once hold a key several times."""
        return any(shape.strategy == "files" for shape in self.shapes)

    def _widened(self) -> None:
        self.writer.widened = True
        self._does(("widen", None))

    def _widened_and_changed(self) -> None:
        self._widened()
        self._changes()

    def _went_back(self) -> None:
        self._does((self.chance.choice(("rollback", "rewind")), None))
        self._load()

    def _kept_up(self) -> None:
        # The loads that files came by only the registry remembers, and events of Delta that were not seen to end.
        forgets = self.format == "iceberg" and not (self.kinds.late and self._reads_files_once)
        self._does(("forget" if forgets and self._perhaps(0.5) else "maintain", None))
        self._load()

    def _verified(self) -> None:
        self._does(("verify", self.chance.choice(("checksum", "rows"))))

    def _spoiled(self) -> None:
        self._does(("spoil", self.chance.choice(UNFIT)))

    def _emptied(self) -> None:
        self._does(("empty", self.writer.emptied()))
        self._load()
        self._changes()

    def _tampered(self) -> None:
        self._does(("tamper", self.chance.randrange(1000)), ("verify", "rows"), ("repair", None))

    def _refreshed(self) -> None:
        self._does(("refresh", None))

    def _removed(self) -> None:
        self._does(("remove", self.chance.randrange(2)))
        self._load()

    def _restored(self) -> None:
        """The source is put back to what it was, its numbers with it; time goes on."""
        writer = self.writer
        rows, owned, ids = dict(writer.rows), dict(writer.owned), writer.ids
        self._does(("save", None))
        self._changes()
        writer.rows, writer.owned, writer.ids = rows, owned, ids
        self._does(("restore", writer.phase()))
        self._changes()

    def _perhaps(self, share: float) -> bool:
        return self.chance.random() < share


def script(
    flavour: Flavour, shapes: Sequence[Shape], kinds: Kinds, seed: int, *, keys: int, phases: int, format: str
) -> list[Step]:
    """What is done with these streams; the same seed makes the same script, and no phases make the shortest one."""
    chance = random.Random(f"{seed} {flavour} {format} {[shape.name for shape in shapes]}")
    seen = SEEN[4:] if flavour.narrow else SEEN
    writer = Writer(seed=chance.randrange(2**32), keys=keys, kinds=kinds, seen=seen, blanks=flavour.blanks)
    told = Script(flavour=flavour, shapes=shapes, kinds=kinds, format=format, chance=chance, writer=writer)
    return told.write(phases)


def crashes(names: Sequence[str], chance: random.Random, share: float) -> dict[str, int]:
    """Which streams end in a load first, and where: interrupted at one of the boundaries, or killed at one."""
    return {name: chance.randrange(2 * len(BOUNDARIES)) for name in names if chance.random() < share}
