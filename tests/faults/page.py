"""Writes `docs/reliability.md`: `python -m faults.page KILLS PAGE [JUNIT…]`.

KILLS are the lines of `faults.kills`; each JUNIT is what pytest's `--junitxml` wrote of tests of the fault matrix. Ends
with 1, once the page is written, if a kill left something wrong, or a test failed.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from faults.kills import STAGES
from faults.matrix import FAULTS, Fault
from faults.world import STREAMS

HEAD = """# Reliability

What happens to rows when something breaks, and how often it was tried. `make test-faults` makes this page:
`TIDEGATE_KILLS` is how many processes it kills, `TIDEGATE_SEED` the seed of every random choice.

## Killed at a random moment

Six streams load in parallel: append, upsert and a change log, each into Iceberg and into Delta. The whole process group
gets SIGKILL, Java included: half of the times at any moment of the run, else within a second of a random stage of one
of the streams. Some kills come while the kill before is still being repaired. Then **one** run must repair everything,
and the next one must find nothing to do and commit nothing. PyIceberg and delta-rs read the tables, and every row is
compared with a model in plain Python that shares no code with Tidegate.

"""
COLUMNS = """
*Lost* are rows of the model that the table did not hold, *doubled* rows of the table beyond the model, *stuck* loads
that one run did not repair. Zero of N tries is no proof of never: the last column is the upper limit of the failure
rate at 95 % confidence, about 3/N.

| load | table | loads killed | lost | doubled | stuck | at most |
|---|---|---|---|---|---|---|
"""
MATRIX = """
## Fault by fault

The tests in the last column cause each fault: the rows must be exact after the next run, and errors have to be those of
[the list of errors](errors.md). *Cases* counts only the tests run for this page, and for F1 also the processes killed
above; a dash means that none of the fault's tests were run for it.

| | fault | cases | failed | tests |
|---|---|---|---|---|
"""


@dataclass(kw_only=True)
class Tally:
    """What became of one stream's loads."""

    killed: int = 0
    lost: int = 0
    doubled: int = 0
    stuck: int = 0

    def add(self, wrong: str) -> None:
        """Counts one load that was killed, and what was wrong afterwards."""
        self.killed += 1
        if wrong.startswith("stuck"):
            self.stuck += 1
        elif wrong:
            lost, doubled = (int(part.split()[0]) for part in wrong.split(", "))
            self.lost, self.doubled = self.lost + lost, self.doubled + doubled

    def cells(self) -> str:
        """Its numbers; a rate only where nothing went wrong."""
        sound = self.killed and not (self.lost or self.doubled or self.stuck)
        bound = f"{min(1.0, 3 / self.killed):.2%}" if sound else "-"
        return f"{self.killed:,} | {self.lost:,} | {self.doubled:,} | {self.stuck:,} | {bound}"


@dataclass(kw_only=True)
class Cases:
    """Tests of a fault that ran."""

    run: int = 0
    failed: int = 0


def kills_table(lines: Sequence[dict[str, Any]]) -> str:
    """Kills by stream, and where they hit."""
    tallies, stages = {name: Tally() for name in STREAMS}, Counter[str]()
    for line in lines:
        for stream, place in line["hit"].items():
            tallies[stream].add(line["wrong"].get(stream, line["wrong"].get("all", "")))
            stages[place.split()[0]] += 1
    whole = Tally(
        **{each: sum(getattr(one, each) for one in tallies.values()) for each in (one.name for one in fields(Tally))}
    )
    again = sum(line["repairing"] for line in lines)
    seeds = ", ".join(str(seed) for seed in sorted({line["seed"] // 10_000 for line in lines}))
    text = f"Seed: {seeds}. Processes killed: {len(lines):,}, {again:,} of them during the repair of the kill before. "
    text += (
        f"Loads killed: {whole.killed:,}. Lost: {whole.lost:,}. Doubled: {whole.doubled:,}. Stuck: {whole.stuck:,}.\n\n"
    )
    text += "Stages that were cut: " + ", ".join(f"{stage} {stages[stage]:,}" for stage in STAGES) + ".\n"
    rows = [f"| {' | '.join(name.split('_'))} | {tally.cells()} |\n" for name, tally in tallies.items()]
    return text + COLUMNS + "".join(rows) + f"| all | | {whole.cells()} |\n"


def cases_of(fault: Fault, reports: Sequence[Path]) -> Cases:
    """What ran of a fault's tests."""
    found = Cases()
    for case in (case for report in reports for case in ET.parse(report).iter("testcase")):
        name = f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name', '').partition('[')[0]}"
        ran = case.find("skipped") is None
        if ran and any(name == test or name.startswith((f"{test}::", f"{test}/")) for test in fault.tests):
            found.run += 1
            found.failed += _failed(case)
    return found


def sound(kills: Sequence[dict[str, Any]], reports: Sequence[Path]) -> bool:
    """Whether every kill was repaired and no test failed, those included that could not be collected."""
    cases = [case for report in reports for case in ET.parse(report).iter("testcase")]
    return not any(kill["wrong"] for kill in kills) and bool(cases) and not any(map(_failed, cases))


def _failed(case: ET.Element) -> bool:
    return case.find("failure") is not None or case.find("error") is not None


def fault_row(fault: Fault, kills: Sequence[dict[str, Any]], reports: Sequence[Path]) -> str:
    """A line of the fault matrix; random kills are cases of the first fault."""
    cases = cases_of(fault, reports)
    if fault.number == 1:
        cases.run += len(kills)
        cases.failed += sum(bool(kill["wrong"]) for kill in kills)
    numbers = f"{cases.run:,} | {cases.failed:,}" if cases.run else "- | -"
    tests = ", ".join(dict.fromkeys(f"`{test.partition('::')[0].removeprefix('tests/')}`" for test in fault.tests))
    untried = "**not tried**" if not fault.tests else f"; not tried: {fault.untried}" if fault.untried else ""
    return f"| F{fault.number} | {fault.what} | {numbers} | {tests}{untried} |\n"


def page(kills: Sequence[dict[str, Any]], reports: Sequence[Path]) -> str:
    """The whole page."""
    return HEAD + kills_table(kills) + MATRIX + "".join(fault_row(fault, kills, reports) for fault in FAULTS)


if __name__ == "__main__":
    results, target, *junit = map(Path, sys.argv[1:])
    lines = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]
    target.write_text(page(lines, junit), encoding="utf-8")
    sys.exit(0 if sound(lines, junit) else 1)
