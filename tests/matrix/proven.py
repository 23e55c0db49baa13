"""Writes `docs/proven.md` from the lines that a run of the matrix left: `python -m matrix.proven RESULTS PAGE`."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from matrix.groups import FLAVOURS

FORMATS = ("iceberg", "delta")

HEAD = """# What has been proven

`make matrix` runs every combination of strategy, writer, delete mode, source, envelope and table format that
`tidegate check` accepts over random histories, and compares the table after every load with a model in plain Python
that shares no code with Tidegate. Tables are read by PyIceberg or delta-rs, and by DuckDB where their files hold every
row as it is. This page may be put together from several runs; *Combinations* says what they played of all there are.

A *history* is what happens to one key: inserts, updates, deletes, the same row again, a new key for a row, changes of
one moment, changes that come late, NULL in the cursor, and for logs events that come again and in any order. Keys are
integers, the least and the greatest among them, or uuids. Loads are interrupted at random boundaries. Between them
tables are verified, maintained, rolled back, refreshed, changed by somebody else and repaired, positions go back, and
the registry is lost; sources are emptied, get a column more, are put back from a copy, lose files, or hold a value that
its type does not; rows that break a check are set aside and replayed.

"""
TAIL = """
`failures` counts tables that differed from the model, loads that did not stop where they had to, and tables that
`verify` called equal when they were not, or different when they were equal.
"""


@dataclass(kw_only=True)
class Row:
    """What was run of one source."""

    combinations: set[tuple[str, str]] = field(default_factory=set)
    flavours: set[str] = field(default_factory=set)
    histories: int = 0
    loads: int = 0
    failures: int = 0

    def add(self, line: dict) -> None:
        """Counts one run."""
        self.combinations |= {(shape, line["format"]) for shape in line["shapes"]}
        self.flavours.add(line["flavour"])
        self.histories += len(line["shapes"]) * line["keys"]
        self.loads += line["loads"]
        self.failures += len(line["failed"])

    def cells(self, name: str) -> str:
        """A line of the table."""
        numbers = (len(self.combinations), self.histories, self.loads, self.failures)
        return f"| {name} | {', '.join(sorted(self.flavours))} | " + " | ".join(f"{n:,}" for n in numbers) + " |\n"


def page(lines: list[dict]) -> str:
    """The whole page."""
    rows: dict[str, Row] = defaultdict(Row)
    whole = Row()
    for line in lines:
        rows[line["source"]].add(line)
        whole.add({**line, "shapes": [f"{line['source']} {shape}" for shape in line["shapes"]]})
    seeds = ", ".join(str(seed) for seed in sorted({line["seed"] for line in lines}))
    every = {
        (flavour.kin, shape.name, kind)
        for flavour in FLAVOURS.values()
        for kind in FORMATS
        for seed in {line["seed"] for line in lines}
        for shape in flavour.shapes(kind, seed)
    }
    told = (
        f"Seed: {seeds}. Combinations: {len(whole.combinations):,} of {len(every):,}. Histories: {whole.histories:,}. "
    )
    told += f"Loads: {whole.loads:,}. Failures: {whole.failures:,}.\n\n"
    table = "| source | run as | combinations | histories | loads | failures |\n|---|---|---|---|---|---|\n"
    return HEAD + told + table + "".join(row.cells(name) for name, row in sorted(rows.items())) + TAIL


if __name__ == "__main__":
    results, target = map(Path, sys.argv[1:3])
    target.write_text(
        page([json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]), encoding="utf-8"
    )
