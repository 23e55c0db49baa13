"""Writes `docs/reliability.md`: `python -m faults.page KILLS PAGE [JUNIT…]`.

KILLS are the lines of `faults.kills`; each JUNIT is what pytest's `--junitxml` wrote of tests of the fault matrix. Ends
with 1, once the page is written, if a kill left something wrong, or a test failed.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from faults.kills import STAGES
from faults.matrix import FAULTS
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


def tally(wrong: str) -> Counter[str]:
    """What one load that was killed counts, by what was wrong afterwards."""
    counted = Counter(killed=1, stuck=int(wrong.startswith("stuck")))
    if wrong and not counted["stuck"]:
        counted += Counter({word: int(number) for number, word in (part.split() for part in wrong.split(", "))})
    return counted


def cells(counted: Counter[str]) -> str:
    """The numbers of a row; a rate only where nothing went wrong."""
    killed, *wrong = (counted[each] for each in ("killed", "lost", "doubled", "stuck"))
    bound = f"{min(1.0, 3 / killed):.2%}" if killed and not any(wrong) else "-"
    return " | ".join([*(f"{number:,}" for number in (killed, *wrong)), bound])


def kills_table(lines: Sequence[dict[str, Any]]) -> str:
    """Kills by stream, and where they hit."""
    tallies: dict[str, Counter[str]] = {name: Counter() for name in STREAMS}
    stages = Counter[str]()
    for line in lines:
        for stream, place in line["hit"].items():
            tallies[stream] += tally(line["wrong"].get(stream, line["wrong"].get("all", "")))
            stages[place.split()[0]] += 1
    whole = sum(tallies.values(), Counter[str]())
    again = sum(line["repairing"] for line in lines)
    seeds = ", ".join(str(seed) for seed in sorted({line["seed"] // 10_000 for line in lines}))
    counts = {"Loads killed": "killed", "Lost": "lost", "Doubled": "doubled", "Stuck": "stuck"}
    told = [f"Seed: {seeds}. Processes killed: {len(lines):,}, {again:,} of them during the repair of the kill before."]
    told += [f"{title}: {whole[name]:,}." for title, name in counts.items()]
    text = " ".join(told) + "\n\nStages that were cut: "
    text += ", ".join(f"{stage} {stages[stage]:,}" for stage in STAGES) + ".\n"
    rows = [f"| {' | '.join(name.split('_'))} | {cells(counted)} |\n" for name, counted in tallies.items()]
    return text + COLUMNS + "".join(rows) + f"| all | | {cells(whole)} |\n"


def ran(reports: Sequence[Path]) -> list[tuple[str, bool]]:
    """Every test that ran, as its file below `tests`, and whether it failed; also one that could not be collected."""
    cases = (case for report in reports for case in ET.parse(report).iter("testcase"))
    return [
        (
            case.get("classname", "").removeprefix("tests.").replace(".", "/") + ".py",
            case.find("failure") is not None or case.find("error") is not None,
        )
        for case in cases
        if case.find("skipped") is None
    ]


def page(kills: Sequence[dict[str, Any]], tests: Sequence[tuple[str, bool]]) -> str:
    """The whole page; random kills are cases of the first fault."""
    rows = []
    for number, (what, places) in enumerate(FAULTS, 1):
        within = tuple(f"{place}/" for place in places)
        of_fault = [failed for name, failed in tests if name in places or name.startswith(within)]
        of_fault += [bool(kill["wrong"]) for kill in kills] if number == 1 else []
        numbers = f"{len(of_fault):,} | {sum(of_fault):,}" if of_fault else "- | -"
        rows.append(f"| F{number} | {what} | {numbers} | {', '.join(f'`{each}`' for each in places)} |\n")
    return HEAD + kills_table(kills) + MATRIX + "".join(rows)


def sound(kills: Sequence[dict[str, Any]], tests: Sequence[tuple[str, bool]]) -> bool:
    """Whether tests ran, none of them failed, and every kill was repaired."""
    return bool(tests) and not any(failed for _, failed in tests) and not any(kill["wrong"] for kill in kills)


if __name__ == "__main__":
    results, target, *junit = map(Path, sys.argv[1:])
    lines = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]
    target.write_text(page(lines, ran(junit)), encoding="utf-8")
    sys.exit(0 if sound(lines, ran(junit)) else 1)
