"""The smoke project: one stream for each strategy and writer, from PostgreSQL, a slot, files and tables of a lake."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from matrix.groups import FLAVOURS
from matrix.histories import Kinds, Step, Writer
from matrix.scripts import crashes
from matrix.shapes import Shape, shapes
from matrix.shrink import Grounds, player, program

SEED = 2
SOURCES = ("database: postgresql", "slot", "json files, debezium", "arrivals: parquet", "lake_table: {format}")
USUAL: Mapping[str, str] = {"checksum": "by_date", "watermark": "lookback", "smart": "column and partitions"}
"""The method by which a strategy is run; for the others, the first one."""
INSERTS = Kinds(updates=False, deletes=False)
KINDS: Mapping[str, Sequence[Kinds]] = {
    "database": (Kinds(), INSERTS),
    "change_log": (Kinds(late=True),),
    "files": (Kinds(deletes=False),),
    "lake_table": (Kinds(), INSERTS),
}
"""What may happen to a source; a stream has the first history that it bears."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """Streams that read one source, whose history they share."""

    source: str
    table_format: str
    kinds: Kinds
    shapes: Sequence[Shape]

    def __str__(self) -> str:
        return f"{self.source}, inserts" if self.kinds == INSERTS else self.source

    @property
    def pairs(self) -> set[tuple[str, str]]:
        return {(shape.strategy, shape.writer) for shape in self.shapes}

    def steps(self) -> list[Step]:
        """A first load, changes, a load that is interrupted and runs again; then tables are damaged and repaired."""
        chance = random.Random(f"{SEED} {self}")
        writer = Writer(seed=SEED, keys=12, kinds=self.kinds)
        interrupted = crashes([shape.name for shape in self.shapes[:2]], chance, share=1)
        return [
            ("change", writer.phase()),
            ("load", {}),
            ("change", writer.phase()),
            ("load", interrupted),
            ("tamper", SEED),
            ("verify", "rows"),
            ("repair", None),
        ]

    def play(self, grounds: Grounds) -> str:
        """What differs from the model, each with a program that shows it alone; empty where nothing does."""
        flavour, steps = FLAVOURS[self.source], self.steps()
        failures = player(flavour, self.table_format, self.shapes, grounds(flavour.server)).play(steps)
        return "\n".join(program(failure, self.source, self.table_format, steps) for failure in failures)


def parts(table_format: str) -> Iterator[Part]:
    """Every pair of strategy and writer once, those of a change log from a slot and from messages."""
    met: set[tuple[str, str]] = set()
    for name in (each.format(format=table_format) for each in SOURCES):
        chosen: dict[tuple[str, str], Shape] = {}
        for shape in FLAVOURS[name].shapes(table_format, SEED):
            if shape.method == USUAL.get(shape.strategy, shape.method) or shape.writer == "append":
                chosen.setdefault((shape.strategy, shape.writer), shape)
        told = FLAVOURS[name].source == "change_log"
        left = [shape for pair, shape in chosen.items() if told or pair not in met]
        met |= chosen.keys()
        for kinds in KINDS[FLAVOURS[name].source]:
            borne = [shape for shape in left if shape.bears(kinds)]
            left = [shape for shape in left if shape not in borne]
            if borne:
                yield Part(source=name, table_format=table_format, kinds=kinds, shapes=borne)
        assert not left, f"no history for {[shape.name for shape in left]}"


def accepted(table_format: str) -> set[tuple[str, str]]:
    """The pairs that `check` accepts."""
    found = (shapes(one.source, one.name, table_format, SEED) for one in FLAVOURS.values())
    return {(shape.strategy, shape.writer) for some in found for shape in some}
