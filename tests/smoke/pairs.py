"""The smoke project: one stream for each strategy and writer, from PostgreSQL, a slot, files and tables of a lake."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from matrix.groups import FLAVOURS
from matrix.histories import Kinds, Step, Writer
from matrix.scripts import crashes
from matrix.shapes import Shape, shapes
from matrix.shrink import Grounds, player, program

SEED = 2
RARE = {
    *(("checksum", "scd2"), ("files", "scd2"), ("full", "merge"), ("sequence", "scd2"), ("smart", "scd2")),
    *(("snapshot_diff", "replace"), ("snapshot_diff", "scd2"), ("table_changes", "scd2")),
}
"""Pairs that few people use; the matrix runs them as all others."""
USUAL: Mapping[str, str] = {"checksum": "by_date", "watermark": "lookback", "smart": "column and partitions"}
"""The method by which a strategy is run; for the others, and where rows are appended, the first one."""
SOURCES: Mapping[str, Callable[[Shape], bool]] = {
    "files: csv": lambda shape: (shape.strategy, shape.writer) == ("watermark", "append"),
    "database: postgresql": lambda shape: shape.writer == "append" or USUAL.get(shape.strategy) in (shape.method, None),
    "slot": lambda shape: shape.writer == "scd2",
    "json files, debezium": lambda _: True,
    "arrivals: parquet": lambda _: True,
    "lake_table: {format}": lambda _: True,
}
"""By source, the streams that are taken from it if no source before it has their strategy and writer."""
INSERTS = Kinds(updates=False, deletes=False)
KINDS: Mapping[str, Sequence[Kinds]] = {
    "database": (Kinds(), INSERTS),
    "change_log": (Kinds(late=True),),
    "files": (Kinds(deletes=False), INSERTS),
    "lake_table": (Kinds(deletes=False), INSERTS),
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
        return f"{self.table_format}: {self.source}{', inserts' if self.kinds == INSERTS else ''}"

    @property
    def pairs(self) -> set[tuple[str, str]]:
        return {(shape.strategy, shape.writer) for shape in self.shapes}

    def steps(self) -> list[Step]:
        """A first load, changes, and a load that is interrupted for two of the streams and runs again."""
        chance = random.Random(f"{SEED} {self}")
        writer = Writer(seed=SEED, keys=12, kinds=self.kinds)
        interrupted = crashes([shape.name for shape in self.shapes[:2]], chance, share=1)
        return [("change", writer.phase()), ("load", {}), ("change", writer.phase()), ("load", interrupted)]

    def play(self, grounds: Grounds, *further: Step) -> str:
        """What differs from the model, each with a program that shows it alone; empty where nothing does."""
        flavour, steps = FLAVOURS[self.source], [*self.steps(), *further]
        failures = player(flavour, self.table_format, self.shapes, grounds(flavour.server)).play(steps)
        return "\n".join(program(failure, self.source, self.table_format, steps) for failure in failures)


def parts(table_format: str) -> Iterator[Part]:
    """Every pair of strategy and writer once."""
    met: set[tuple[str, str]] = set()
    for name, takes in SOURCES.items():
        flavour = FLAVOURS[name.format(format=table_format)]
        left: dict[tuple[str, str], Shape] = {}
        for shape in flavour.shapes(table_format, SEED):
            pair = (shape.strategy, shape.writer)
            if pair not in met | RARE and takes(shape):
                left.setdefault(pair, shape)
        met |= left.keys()
        for kinds in KINDS[flavour.source]:
            borne = {pair: shape for pair, shape in left.items() if shape.bears(kinds)}
            left = {pair: shape for pair, shape in left.items() if pair not in borne}
            if borne:
                shapes = list(borne.values())
                yield Part(source=str(flavour), table_format=table_format, kinds=kinds, shapes=shapes)
        assert not left, f"no history for {left}"


def damaged(table_format: str) -> Part:
    """One stream, to change its table behind its back."""
    shapes = FLAVOURS["database: sqlite"].shapes(table_format, SEED)
    usual = next(one for one in shapes if (one.strategy, one.method, one.writer) == ("watermark", "lookback", "merge"))
    return Part(source="database: sqlite", table_format=table_format, kinds=Kinds(), shapes=[usual])


def accepted(table_format: str) -> set[tuple[str, str]]:
    """The pairs that `check` accepts, but for the rare ones."""
    found = (shapes(one.source, one.name, table_format, SEED) for one in FLAVOURS.values())
    return {(shape.strategy, shape.writer) for some in found for shape in some} - RARE
