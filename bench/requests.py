"""A load through the service while its pages are asked for all the time, against the same load alone.

Needs `hey`, which asks a thousand times a second, half of it each page, at the lowest priority: on a machine of its own
it would take nothing from the load.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from bench import ours
from bench.rounds import Contender, Result, WrongResult, compare
from bench.service import serving
from bench.source import Orders

TOKEN = "of-the-benchmark"
PORT = 8497
PAGES = {"metrics": "/metrics", "overview": "/"}
STREAMS = 50
CONNECTIONS = 4
"""To each page."""
A_SECOND = 500
"""Requests for each page."""
MOST = 1.1
"""Times as long as alone: the requests may slow a load by a tenth."""


@dataclass(kw_only=True)
class Asking:
    """One `hey` for each page, from the start of a load to its end."""

    served: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in PAGES})
    _at_work: dict[str, subprocess.Popen[str]] = field(default_factory=dict)

    def begin(self) -> None:
        """Asks from now on."""
        for name, path in PAGES.items():
            address = f"http://127.0.0.1:{PORT}{path}"
            pace = f"-z 600s -c {CONNECTIONS} -q {A_SECOND // CONNECTIONS}"
            sent = ["-H", f"Authorization: Bearer {TOKEN}", address]
            command = ["nice", "-n", "19", "hey", *pace.split(), *sent]
            self._at_work[name] = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def end(self) -> None:
        """Keeps how many requests a second were answered; raises WrongResult where one was refused."""
        for process in self._at_work.values():
            process.send_signal(signal.SIGINT)
        for name, process in self._at_work.items():
            said, _ = process.communicate(timeout=30)
            found = re.search(r"Requests/sec:\s+([\d.]+)", said)
            if found is None or set(re.findall(r"\[(\d+)\]\t\d+ responses", said)) != {"200"}:
                raise WrongResult(f"hey: {said}")
            self.served[name].append(float(found[1]))


def run(orders: Orders, work: Path, pairs: int) -> Result:
    """Both load the whole table by a stream of their own, after a few rows have changed."""
    if shutil.which("hey") is None:
        raise WrongResult("there is no `hey`")
    os.environ["TIDEGATE_DASHBOARD_TOKEN"] = TOKEN
    whole = {"source": {"connection": "shop", "table": "orders"}, "strategy": "full", "write": "replace"}
    names = ("alone", "beside", *(f"other_{number}" for number in range(STREAMS - 2)))
    streams = {name: {**whole, "target": f"lake.bench.{name}"} for name in names}
    folder = ours.write(ours.project(orders, streams), work / "project")
    asking = Asking()

    def load(name: str) -> None:
        command = [sys.executable, "-m", "tidegate", "run", name, "--project", str(folder), "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        outcome = ours.document(done.stdout)
        if outcome["outcome"] != "loaded" or outcome["verified"] is not True:
            raise WrongResult(f"tidegate: {outcome}")

    def beside(_: int) -> None:
        asking.begin()
        load("beside")

    contenders = [
        Contender(name="beside requests", run=beside, check=lambda _: asking.end()),
        Contender(name="alone", run=lambda _: load("alone"), check=lambda _: None, goal=1 / MOST),
    ]
    about = {"rows": orders.rows, "streams": STREAMS}
    with serving(folder, "--no-schedule", "--port", str(PORT)):
        result = compare(
            "requests",
            contenders,
            pairs=pairs,
            about=about,
            before=lambda number: orders.change(number + 100, 10),
            warm=2,
        )
    served = {f"{name}, requests a second": rates[-pairs:] for name, rates in asking.served.items()}
    result.extra.update(served)
    return result
