"""Resident memory of a first load and of a log of events, in cold processes: bounded whatever their number."""

from __future__ import annotations

import subprocess
import threading
import time
from pathlib import Path
from typing import Any

from bench import events, ours, plain
from bench.rounds import Result, WrongResult
from bench.source import Orders
from tidegate.api import Project

LIMIT = 2048
HEAP = "1g"
PART = 500_000
GROWN = 1.1
"""How much more Python may take for ten times as many events; Java fills the heap that it is given before it cleans."""


def run(orders: Orders, work: Path, pairs: int) -> Result:  # noqa: ARG001 - one load tells it
    """The peak of each process of `tidegate run`, by what it is."""
    folder = ours.write(ours.project(orders, {"orders": ours.stream(verify="counts")}, HEAP), work / "ours")
    began = time.monotonic()
    outcome, peaks = _watched(folder)
    if outcome["rows_read"] != orders.rows or outcome["verified"] is not True:
        raise WrongResult(f"tidegate: {outcome}")
    seconds = round(time.monotonic() - began, 2)
    _check(orders, folder)
    about = {"rows": orders.rows, "heap": HEAP, "limit": f"{LIMIT} MB for Spark's process"}
    result = Result(name="memory", about=about, ours="tidegate run", goals={})
    result.seconds = {"tidegate run": [seconds]}
    result.extra = {f"peak MB of {name}": peak for name, peak in peaks.items()}
    result.too_much = max(peaks.values()) > LIMIT
    return result


def log(orders: Orders, work: Path, pairs: int) -> Result:  # noqa: ARG001 - as above
    """The same of a log with a tenth as many events, and as many, as the table has rows; loads of a million events."""
    counts = (orders.rows // 10, orders.rows)
    about = {"events": counts, "heap": HEAP, "limit": f"{LIMIT} MB for Spark's process"}
    result = Result(name="logmemory", about=about, ours=f"{orders.rows} events", goals={})
    greatest = []
    for count in counts:
        folder, written = work / str(count), work / str(count) / "events"
        written.mkdir(parents=True)
        spark = plain.session(folder / "plain")
        rounds = max(count // PART, 1)
        for number in range(rounds):
            events.write(spark, written, number, count // rounds, events.ROWS)
        wanted = events.truth(spark, written, events.ROWS)
        spark.stop()
        stream = {**events.stream(written, "logged", "none", events.ROWS), "strategy": "cdc"}
        ours.write({"spark": {"conf": {"spark.driver.memory": HEAP}}, "streams": {"logged": stream}}, folder)
        began = time.monotonic()
        outcome, peaks = _watched(folder)
        result.seconds[f"{count} events"] = [round(time.monotonic() - began, 2)]
        if outcome["error"] is not None:
            raise WrongResult(f"tidegate: {outcome}")
        spark = plain.session(folder / "check")
        with Project.load(folder) as made:
            found = events.sums(ours.catalogs(made, spark), "lake.bench.logged")
        spark.stop()
        if found != wanted:
            raise WrongResult(f"the table holds {found}, the events leave {wanted}")
        greatest.append(peaks)
        result.extra |= {f"peak MB of {name}, {count} events": peak for name, peak in peaks.items()}
    grown = greatest[1]["python"] > GROWN * greatest[0]["python"]
    result.too_much = grown or max(greatest[1].values()) > LIMIT
    return result


def _watched(folder: Path) -> tuple[dict[str, Any], dict[str, int]]:
    """What `tidegate run` says, and the peak of each of its processes in MB."""
    with subprocess.Popen(ours.command(folder), stdout=subprocess.PIPE, text=True) as process:
        peaks = _Peaks(process.pid)
        peaks.start()
        output = process.communicate()[0]
        peaks.ended.set()
        peaks.join()
    return ours.document(output), peaks.found


def _check(orders: Orders, folder: Path) -> None:
    """Raises WrongResult unless the table holds the source's rows."""
    spark = plain.session(folder / "check")
    with Project.load(folder) as made:
        ours.must_equal(ours.catalogs(made, spark), "lake.bench.orders", orders.sums())
    spark.stop()


class _Peaks(threading.Thread):
    """Looks at a process and its children until told to end."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid = pid
        self.ended = threading.Event()
        self.found: dict[str, int] = {}

    def run(self) -> None:
        """Keeps the greatest high-water mark seen of each program."""
        while not self.ended.wait(0.2):
            for pid in _family(self.pid):
                status = _status(pid)
                if "VmHWM" in status:
                    name, peak = status["Name"], int(status["VmHWM"].split()[0]) // 1024
                    self.found[name] = max(peak, self.found.get(name, 0))


def _family(pid: int) -> list[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    except OSError:
        return []
    return [pid, *(member for child in children for member in _family(int(child)))]


def _status(pid: int) -> dict[str, str]:
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}
