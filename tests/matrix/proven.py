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
`tidegate check` accepts over random histories. After every load it compares the table with a model in plain Python that
shares no code with Tidegate. The tables are read with PyIceberg or delta-rs, and with DuckDB where a table's files hold
its rows unchanged. This page may combine several runs; *Combinations* says how many of all combinations they covered.

A *history* is everything that happens to one key: inserts, updates, deletes, unchanged rows, changed keys, changes at
the same time, late changes, a NULL cursor, and in logs events that are repeated or out of order. Keys are integers,
including the smallest and the greatest, or uuids. Loads are interrupted at random boundaries. Between loads, tables
are verified, maintained, rolled back, fully refreshed, changed by others and repaired, positions are rewound, and the
registry is lost. Sources are emptied, gain a column, are restored from a copy, lose files, or hold a value that does
not fit its type. Rows that fail a check go to the quarantine and are replayed.

"""
TAIL = """
`failures` counts tables that differed from the model, loads that did not stop where they had to, and tables that
`verify` reported as equal when they were not, or as different when they were equal.
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
    table = "| source | variants | combinations | histories | loads | failures |\n|---|---|---|---|---|---|\n"
    return HEAD + told + table + "".join(row.cells(name) for name, row in sorted(rows.items())) + TAIL


if __name__ == "__main__":
    results, target = map(Path, sys.argv[1:3])
    target.write_text(
        page([json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]), encoding="utf-8"
    )
