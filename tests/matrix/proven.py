"""Writes `docs/proven.md` from the lines that a run of the matrix left: `python -m matrix.proven RESULTS PAGE`.

A source that this run covered whole gets a new row; every other one keeps the row that the page has of it.
"""

from __future__ import annotations

import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matrix.groups import FLAVOURS, FORMATS

TITLE = "# What has been proven\n\n"
ABOUT = """`make matrix` runs combinations of strategy, writer, delete mode, source, envelope and table format that
`tidegate check` accepts over random histories. After every load it compares the table with a model in plain Python that
shares no code with Tidegate. The tables are read with PyIceberg or delta-rs, and with DuckDB where a table's files hold
its rows unchanged. `make matrix SOURCES="simulated or snowflake"` runs some of the sources and updates their rows; the
last column says when a row was made, of which version, and with which seed.

A *history* is everything that happens to one key: inserts, updates, deletes, unchanged rows, changed keys, changes at
the same time, late changes, a NULL cursor, and in logs events that are repeated or out of order. Keys are integers,
including the smallest and the greatest, or uuids. Loads are interrupted at random boundaries. Between loads, tables
are verified, maintained, rolled back, fully refreshed, changed by others and repaired, positions are rewound, and the
registry is lost. Sources are emptied, gain a column, are restored from a copy, lose files, or hold a value that does
not fit its type. Rows that fail a check go to the quarantine and are replayed.

Oracle, SQL Server and Teradata are simulated at the border of their drivers, Snowflake by a server that speaks its
protocol: this proves the SQL and what becomes of its answers, not the vendors' servers. The histories of 2026-11-24 had
no columns that are left out (`include`, `exclude`), no sources that are empty at their first load, and no tables that
stay untouched because their source stands still. Types that change (`type_change`) are not in the matrix; they have
tests of their own.

Most rows are named by the source. *arrivals* is the strategy `files`, which reads each new file once; *arrivals, named*
the same with the file's name in each row (`file_name:`). *ranges* is the strategy `checksum` with `method: by_range`
over a partitioned table of PostgreSQL. *slot* is a replication slot of PostgreSQL.

"""
ROW = r"^\| (.*) \| (.*) \| ([\d,]+)(?: of [\d,]+)? \| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \| (.*) \|$"
SEED = 2
"""Any; each accepts as many combinations."""
TITLES = "| source | variants | combinations | histories | loads | failures | run |\n|---|---|---|---|---|---|---|\n"
TAIL = """
`failures` counts tables that differed from the model, loads that did not stop where they had to, and tables that
`verify` reported as equal when they were not, or as different when they were equal.
"""


@dataclass(kw_only=True)
class Row:
    """What was run of one source.

    Args:
        run: when, of which version, and with which seeds.
    """

    combinations: int = 0
    flavours: str = "-"
    histories: int = 0
    loads: int = 0
    failures: int = 0
    run: str = ""

    def cells(self, name: str, every: int) -> str:
        """A line of the table.

        Args:
            every: how many combinations are accepted.
        """
        of = "" if self.combinations >= every else f" of {every:,}"
        numbers = f"{self.combinations:,}{of} | {self.histories:,} | {self.loads:,} | {self.failures:,}"
        return f"| {name} | {self.flavours} | {numbers} | {self.run} |\n"


NOTHING = Row(run="not yet")


def row_of(lines: Sequence[Mapping[str, Any]]) -> Row:
    """What the lines of one source say."""
    seeds = ", ".join(str(seed) for seed in sorted({line["seed"] for line in lines}))
    return Row(
        combinations=len(_covered(lines)),
        flavours=", ".join(sorted({line["flavour"] for line in lines})),
        histories=sum(len(line["shapes"]) * line["keys"] for line in lines),
        loads=sum(line["loads"] for line in lines),
        failures=sum(len(line["failed"]) for line in lines),
        run=f"{max(line['run'] for line in lines)}, seed {seeds}",
    )


def rows_of(page: str) -> dict[str, Row]:
    """The rows that a page has, by source, without those of which nothing was run."""
    found = {}
    for name, flavours, *numbers, run in re.findall(ROW, page, re.MULTILINE):
        combinations, histories, loads, failures = (int(number.replace(",", "")) for number in numbers)
        if not combinations:
            continue
        found[name] = Row(
            combinations=combinations, flavours=flavours, histories=histories, loads=loads, failures=failures, run=run
        )
    return found


def _covered(lines: Iterable[Mapping[str, Any]]) -> set[tuple[str, str]]:
    return {(shape, line["format"]) for line in lines for shape in line["shapes"]}


def accepted(source: str, seeds: Iterable[int]) -> set[tuple[str, str]]:
    """The combinations of a source that `check` accepts: shape and table format."""
    return {
        (shape.name, kind)
        for flavour in FLAVOURS.values()
        if flavour.kin == source
        for kind in FORMATS
        for seed in seeds
        for shape in flavour.shapes(kind, seed)
    }


def merged(before: Mapping[str, Row], lines: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Row], list[str]]:
    """The rows of a page after a run, and the sources of which it keeps the row because the run covered them in part.

    Rows of sources that no longer exist go.
    """
    by_source = defaultdict(list)
    for line in lines:
        by_source[line["source"]].append(line)
    rows = {kin: before[kin] for kin in sorted({one.kin for one in FLAVOURS.values()}) if kin in before}
    kept = []
    for source, found in by_source.items():
        whole = accepted(source, {line["seed"] for line in found}) <= _covered(found)
        if whole or source not in before:
            rows[source] = row_of(found)
        else:
            kept.append(source)
    return rows, kept


def page(rows: Mapping[str, Row]) -> str:
    """The whole page."""
    every = {kin: len(accepted(kin, [SEED])) for kin in {flavour.kin for flavour in FLAVOURS.values()}}
    proven = sum(min(row.combinations, every[name]) for name, row in rows.items())
    told = f"Combinations: {proven:,} of {sum(every.values()):,} that `tidegate check` accepts have been run. "
    told += f"Histories: {sum(row.histories for row in rows.values()):,}. "
    told += f"Loads: {sum(row.loads for row in rows.values()):,}. "
    told += f"Failures: {sum(row.failures for row in rows.values()):,}.\nSources with 0 have not been run yet.\n\n"
    table = [rows.get(name, NOTHING).cells(name, number) for name, number in sorted(every.items())]
    return TITLE + told + ABOUT + TITLES + "".join(table) + TAIL


if __name__ == "__main__":
    results, target = map(Path, sys.argv[1:3])
    told = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]
    rows, kept = merged(rows_of(target.read_text(encoding="utf-8")), told)
    target.write_text(page(rows), encoding="utf-8")
    for source in kept:
        print(f"{source}: run in part, so its row stays as it is", file=sys.stderr)
