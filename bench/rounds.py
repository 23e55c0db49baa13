"""Decides how two ways are compared: interleaved in one run, checked after every time, medians and ratios told.

Called by every benchmark. Must never keep a figure of a run whose result was wrong.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

OUT = Path(__file__).parent / "out"


class WrongResult(Exception):
    """A contender left other rows than the source holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """One way to do the job.

    Args:
        run: does it; this alone is timed. Called with the number of the round, from 1; warm-ups end with 0.
        check: raises WrongResult when the result is not what the source holds; not timed.
        counts: 0 for a figure that is shown but has no goal, else the least ratio (its seconds to ours).
    """

    name: str
    run: Callable[[int], None]
    check: Callable[[int], None]
    goal: float = 0.0


@dataclass(slots=True, kw_only=True)
class Result:
    """The figures of one benchmark.

    Units: seconds of each round, by contender; `cpu` is how long cores worked for the processes that a contender
    started and waited for, on which other work on the machine has little influence; `load` is the machine's load
    average before each round; `too_much` says that a bound was passed that no ratio tells.
    """

    name: str
    about: Mapping[str, Any]
    ours: str
    goals: dict[str, float]
    seconds: dict[str, list[float]] = field(default_factory=dict)
    cpu: dict[str, list[float]] = field(default_factory=dict)
    load: list[float] = field(default_factory=list)
    extra: dict[str, Any] = field(default_factory=dict)
    too_much: bool = False

    def ratios(self, name: str) -> list[float]:
        """How many times longer a contender took than we did, round by round."""
        return [theirs / mine for theirs, mine in zip(self.seconds[name], self.seconds[self.ours], strict=True)]

    @property
    def reached(self) -> bool:
        """Whether every goal is reached, by the median of the ratios."""
        fast = all(statistics.median(self.ratios(name)) >= goal for name, goal in self.goals.items())
        return fast and not self.too_much

    def to_dict(self) -> dict[str, Any]:
        """JSON types only."""
        ratios = {name: self.ratios(name) for name in self.seconds if name != self.ours}
        return {
            **asdict(self),
            "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "ratios": ratios,
            "reached": self.reached,
        }


def compare(  # noqa: PLR0913 - what a comparison is made of
    name: str,
    contenders: list[Contender],
    *,
    pairs: int,
    about: Mapping[str, Any],
    before: Callable[[int], None] = lambda _: None,
    warm: int = 1,
) -> Result:
    """Runs all contenders in turn, `pairs` times after `warm` rounds that are not counted; the first one is ours.

    Args:
        before: called before every round, for example to change rows at the source.

    Raises:
        WrongResult: the whole benchmark has no figures.
    """
    ours = contenders[0].name
    result = Result(name=name, about=about, ours=ours, goals={c.name: c.goal for c in contenders if c.goal})
    print(f"\n{name}: {', '.join(f'{key} {value}' for key, value in about.items())}", flush=True)
    for number in range(1 - warm, pairs + 1):
        before(number)
        load = os.getloadavg()[0]
        # Whoever goes first in one round goes last in the next.
        order = contenders if number % 2 else contenders[::-1]
        spent = {contender.name: _timed(contender, number) for contender in order}
        told = ", ".join(f"{c.name} {spent[c.name][0]:.2f} s" for c in contenders)
        print(f"  {f'round {number}' if number > 0 else 'warm-up'}: {told} (load {load:.1f})", flush=True)
        if number > 0:
            result.load.append(load)
            for key, (seconds, cpu) in spent.items():
                result.seconds.setdefault(key, []).append(seconds)
                result.cpu.setdefault(key, []).append(cpu)
    return result


def _timed(contender: Contender, number: int) -> tuple[float, float]:
    began, busy = time.monotonic(), _cpu()
    contender.run(number)
    spent = time.monotonic() - began, _cpu() - busy
    contender.check(number)
    return spent


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def report(result: Result) -> None:
    """Prints the table and writes `bench/out/<name>.json`."""
    width = max(len(name) for name in result.seconds)
    print(f"  {'':{width}}  {'median':>8}  {'min':>7}  {'max':>7}   ratio (min to max)   goal")
    for name, seconds in result.seconds.items():
        figures = f"{statistics.median(seconds):>8.2f}  {min(seconds):>7.2f}  {max(seconds):>7.2f}"
        if name == result.ours:
            print(f"  {name:{width}}  {figures}")
            continue
        ratios = result.ratios(name)
        goal = result.goals.get(name)
        middle = statistics.median(ratios)
        verdict = "" if goal is None else f">= {goal:g}: {'reached' if middle >= goal else 'MISSED'}"
        spread = f"{middle:>5.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        print(f"  {name:{width}}  {figures}   {spread:<19}  {verdict}")
    for key, value in result.extra.items():
        print(f"  {key}: {value}")
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / f"{result.name}.json").write_text(json.dumps(result.to_dict(), indent=2) + "\n", encoding="utf-8")
