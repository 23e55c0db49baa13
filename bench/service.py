"""Few changes in a big table, a process for each load: with a running service, and without one."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from bench import ours
from bench.rounds import Contender, Result, WrongResult, compare
from bench.source import Orders
from tidegate.api import Project
from tidegate.core.ids import Target

CHANGED = 1000
# The first is the format of a lake that says nothing, and has the goals. Without deletion vectors, which many readers
# do not understand, Delta rewrites every file of which a row changes.
LAKES: dict[str, dict[str, Any]] = {
    "iceberg": {"format": "iceberg"},
    "delta, with deletion vectors": {"format": "delta", "deletion_vectors": True},
    "delta": {"format": "delta"},
}


def run(orders: Orders, work: Path, pairs: int) -> Result:
    """1,000 adjacent rows change before each round; `idle` is the same command when nothing is left to load."""
    warm = {
        name: _project(orders, lake, work / f"service-{number}") for number, (name, lake) in enumerate(LAKES.items())
    }
    alone = _project(orders, LAKES["iceberg"], work / "alone")
    for folder in (*warm.values(), alone):
        _load(folder)
    idle: list[float] = []

    def before(number: int) -> None:
        orders.change(orders.rows // 2 + number * 10 * CHANGED, CHANGED)

    def nothing_left(folder: Path) -> None:
        began = time.monotonic()
        outcome = ours.run_cold(folder)
        idle.append(time.monotonic() - began)
        if outcome["outcome"] != "unchanged":
            raise WrongResult(f"tidegate: {outcome}")

    contenders = [
        *(
            Contender(
                name=_served(name),
                run=lambda _, folder=folder: _load(folder),
                check=lambda _, folder=folder: nothing_left(folder),
            )
            for name, folder in warm.items()
        ),
        Contender(name="tidegate to iceberg, alone", run=lambda _: _load(alone), check=lambda _: None),
    ]
    about = {"rows": orders.rows, "changed": CHANGED, "verify": "moved"}
    with ExitStack() as services:
        for folder in warm.values():
            services.enter_context(serving(folder, "--no-schedule"))
        result = compare("service", contenders, pairs=pairs, about=about, before=before, warm=5)
    counted = idle[-len(LAKES) * pairs :]
    result.extra["nothing to do, seconds"] = counted
    result.too_much = statistics.median(result.seconds[_served("iceberg")]) > 1.5 or statistics.median(counted) > 0.4
    for lake, folder in (*zip(LAKES.values(), warm.values(), strict=True), (LAKES["iceberg"], alone)):
        _must_hold(lake, folder, orders)
    return result


def _load(folder: Path) -> None:
    outcome = ours.run_cold(folder)
    if outcome["outcome"] != "loaded" or outcome["verified"] is not True:
        raise WrongResult(f"tidegate: {outcome}")


def _must_hold(lake: Mapping[str, Any], folder: Path, orders: Orders) -> None:
    """Every row and amount of the source, by a reader of the format that is not Spark."""
    if lake["format"] == "delta":
        table = DeltaTable(str(folder / "warehouse" / "bench" / "orders"))
        asked = QueryBuilder().register("t", table).execute("SELECT count(*) AS rows, sum(amount) AS amount FROM t")
        (row,) = pa.table(asked.read_all()).to_pylist()
        found = (row["rows"], row["amount"])
    else:
        with Project.load(folder) as made:
            rows = made.lakes["lake"].rows(Target(lake="lake", namespace=("bench",), table="orders"), ["amount"])
        found = (rows.num_rows, sum(value.as_py() for value in rows["amount"]))
    if found != tuple(orders.ask("SELECT count(*), sum(amount) FROM orders")[0]):
        raise WrongResult(f"{folder.name} holds {found}")


def _served(lake: str) -> str:
    return f"tidegate to {lake}, service"


def _values(orders: Orders, lake: Mapping[str, Any]) -> dict[str, Any]:
    return {**ours.project(orders, {"orders": ours.stream()}), "lakes": {"lake": lake}}


def _project(orders: Orders, lake: Mapping[str, Any], folder: Path) -> Path:
    return ours.write(_values(orders, lake), folder)


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[None]:
    """`tidegate serve` of the project, with a warm Spark."""
    command = [sys.executable, "-m", "tidegate", "serve", "--project", str(folder), *options]
    file = folder / "serve.log"
    with file.open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            deadline = time.monotonic() + 60
            while "Spark is warm" not in file.read_text(encoding="utf-8"):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise WrongResult(file.read_text(encoding="utf-8"))
                time.sleep(0.2)
            yield
        finally:
            process.terminate()
            process.wait(30)
