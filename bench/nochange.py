"""A run that finds nothing, in a cold process: against the same question asked by plain PySpark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from bench import ours
from bench.rounds import Contender, Result, WrongResult, compare
from bench.source import Orders


def run(orders: Orders, work: Path, pairs: int) -> Result:
    """Both tables are loaded first; every round starts two processes."""
    folder = ours.write(ours.project(orders, {"orders": ours.stream(verify="counts")}), work / "ours")
    first = ours.run_cold(folder)
    if first["rows_read"] != orders.rows:
        raise WrongResult(f"tidegate: {first}")
    _cold(orders, work, "load")
    answers: dict[str, object] = {}

    def mine(_: int) -> None:
        answers["ours"] = ours.run_cold(folder)

    def check_mine(_: int) -> None:
        outcome = answers["ours"]
        if not isinstance(outcome, dict) or outcome["outcome"] != "unchanged" or outcome["spark_started"]:
            raise WrongResult(f"tidegate: {outcome}")

    def theirs(_: int) -> None:
        answers["plain"] = _cold(orders, work, "new")

    def check_theirs(_: int) -> None:
        if answers["plain"] != "0":
            raise WrongResult(f"plain PySpark: {answers['plain']}")

    contenders = [
        Contender(name="tidegate run", run=mine, check=check_mine),
        Contender(name="plain PySpark", run=theirs, check=check_theirs, goal=5),
    ]
    return compare("nochange", contenders, pairs=pairs, about={"rows": orders.rows, "processes": "cold"})


def _cold(orders: Orders, work: Path, what: str) -> str:
    command = [sys.executable, "-m", "bench.cold", what, orders.url, str(orders.rows), str(work)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1800)
    if done.returncode:
        raise WrongResult(f"plain PySpark: {done.stderr[-2000:]}")
    return done.stdout.strip()
