"""`python -m bench.rivals [--rows N] [--rounds N] [--docs]`: the jobs of a nightly load, by Tidegate, dlt and ingestr.

A process for each run, in turn; every table that a run leaves is compared with the source by PyIceberg or delta-rs.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench import lakes, ours, rivals_page
from bench.rounds import OUT, Contender, WrongResult, compare
from bench.service import serving
from bench.source import Orders, orders

ENVIRONMENTS = Path(__file__).parent.parent / ".tools" / "rivals"
VERSIONS = {"dlt": "1.31.0", "ingestr": "1.1.22"}
FORMATS = {"iceberg": "Iceberg", "delta": "Delta"}
NEIGHBOURS = 1000
EVERY = 500
"""Each `EVERY`th row is one of the scattered ones."""
RIVALS = ("dlt to Delta", "dlt to Iceberg", "ingestr to Iceberg")


Change = Callable[[int], str]
"""The condition of the rows that change before a round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """At most this share of the seconds of the fastest of some rivals."""

    job: str
    ours: str
    rivals: tuple[str, ...]
    share: float


DLT = RIVALS[:2]
GOALS = tuple(
    Goal(job=job, ours=f"Tidegate to {table_format}{way}", rivals=rivals, share=share)
    for job, way, rivals, share in (
        ("nothing to do", "", DLT, 0.25),
        ("first load", "", DLT, 0.8),
        ("first load", ", counts", DLT, 0.6),
        ("neighbouring rows", "", RIVALS, 1.0),
        ("scattered rows", "", RIVALS[:1], 1.0),
        ("scattered rows", ", service", RIVALS[:1], 0.5),
    )
    for table_format in FORMATS.values()
)


@dataclass(slots=True, kw_only=True)
class Race:
    """The tables of every contender, and the source that they load."""

    orders: Orders
    work: Path
    sums: lakes.Sums = (0, 0, 0)
    since: str = ""
    """The newest `updated_at` before the last change: ingestr keeps no position, its user has to say it."""
    jobs: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    cpu: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    load: list[float] = field(default_factory=list)

    def folder(self, name: str) -> Path:
        """Where a contender keeps everything."""
        return self.work / name.replace(" ", "-").replace(",", "")

    def job(
        self, name: str, contenders: list[Contender], rounds: int, *, change: Change | None = None, warm: int = 0
    ) -> None:
        """Runs the contenders in turn, each round after a change."""

        def before(number: int) -> None:
            self.since = self.orders.ask(NEWEST)[0][0]
            if change:
                self.orders.change_where(change(number + warm))
            if number > 0:
                self.sums = tuple(int(value) for value in self.orders.ask(lakes.OF_POSTGRES)[0])

        result = compare(name, contenders, pairs=rounds, about={"rows": self.orders.rows}, before=before, warm=warm)
        self.jobs[name] = result.seconds
        self.cpu[name] = result.cpu
        self.load += result.load

    def check(self, number: int, table_format: str, folder: Path) -> None:
        """Warm-ups are not checked; their rows are, with the next round."""
        found = lakes.sums(table_format, folder) if number > 0 else self.sums
        if found != self.sums:
            raise WrongResult(f"{folder.name} holds {found}, the source {self.sums}")


NEWEST = """SELECT to_char(max(updated_at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') FROM orders"""


def main(arguments: list[str] | None = None) -> int:
    """0 when every table is right and every goal is reached."""
    parser = argparse.ArgumentParser(prog="python -m bench.rivals", description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000, help="rows of the table (%(default)s)")
    parser.add_argument("--rounds", type=int, default=2, help="rounds of each job (%(default)s)")
    parser.add_argument("--work", type=Path, help="where tables are written (a temporary folder)")
    parser.add_argument("--docs", action="store_true", help="write the table and the plot of docs/benchmarks.md")
    options = parser.parse_args(arguments)
    # Ended from outside, it still ends its services and its server.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    work = Path(tempfile.mkdtemp(prefix="tidegate-rivals-", dir=options.work))
    try:
        with orders(options.rows) as table:
            race = Race(orders=table, work=work)
            run(race, options.rounds)
    finally:
        shutil.rmtree(work)
    document = _document(race)
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "rivals.json").write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    print(rivals_page.table(document))
    print(rivals_page.goals(document))
    if options.docs:
        rivals_page.write(document)
    return 0 if all(goal["reached"] for goal in document["goals"]) else 1


def run(race: Race, rounds: int) -> None:
    """Every job; the tables of the last first load are those that change afterwards."""

    def near(number: int) -> str:
        return f"id > {number * apart} AND id <= {number * apart + NEIGHBOURS}"

    def scattered(number: int) -> str:
        return f"id % {EVERY} = {number}"

    apart = race.orders.rows // 20
    for table_format in FORMATS:
        _installed(ours.write(_project(race, table_format, "moved"), race.work / f"installed-{table_format}"))
    race.job("first load", list(_first(race)), rounds)
    for table_format, name in FORMATS.items():
        ours.write(_project(race, table_format, "moved"), race.folder(f"Tidegate to {name}, counts"))
    with ExitStack() as services:
        for name in FORMATS.values():
            services.enter_context(serving(race.folder(f"Tidegate to {name}, counts"), "--no-schedule"))
        race.job("nothing to do", list(_again(race, "unchanged")), rounds, warm=1)
        # A service runs for days: its Java has compiled what a load needs.
        race.job("neighbouring rows", list(_again(race, "loaded")), rounds, change=near, warm=3)
        race.job("scattered rows", list(_again(race, "loaded")), rounds, change=scattered, warm=1)


def _installed(folder: Path) -> None:
    """As the page on installing says: without its archive of classes Spark starts in twice the time."""
    command = [sys.executable, "-m", "tidegate", "doctor", "--fetch", "--project", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode:
        raise WrongResult(done.stdout + done.stderr)


def _first(race: Race) -> Iterator[Contender]:
    """First loads; every round starts with empty folders."""
    for table_format, name in FORMATS.items():
        for way, verify in (("", "moved"), (", counts", "counts")):
            yield _contender(
                race, f"Tidegate to {name}{way}", table_format, _tidegate_first(race, table_format, verify)
            )
    for rival in RIVALS:
        yield _contender(race, rival, _format(rival), lambda folder, rival=rival: _rival(race, rival, "first", folder))


def _tidegate_first(race: Race, table_format: str, verify: str) -> Callable[[Path], None]:
    values = _project(race, table_format, verify)

    def load(folder: Path) -> None:
        _must_be("loaded", ours.run_cold(ours.write(values, folder)))

    return load


def _again(race: Race, outcome: str) -> Iterator[Contender]:
    """The same commands as the first time, for ingestr with the time since when."""
    for table_format, name in FORMATS.items():
        for way, tables in (("", ""), (", service", ", counts")):
            folder = race.folder(f"Tidegate to {name}{tables}")
            yield _contender(
                race,
                f"Tidegate to {name}{way}",
                table_format,
                lambda folder: _must_be(outcome, ours.run_cold(folder)),
                folder,
            )
    for rival in RIVALS:
        folder = race.folder(rival)
        yield _contender(
            race, rival, _format(rival), lambda folder, rival=rival: _rival(race, rival, "run", folder), folder
        )


def _contender(
    race: Race, name: str, table_format: str, load: Callable[[Path], None], folder: Path | None = None
) -> Contender:
    """Without a folder it starts with an empty one of its own."""
    place = folder or race.folder(name)

    def timed(_: int) -> None:
        if folder is None:
            shutil.rmtree(place, ignore_errors=True)
        load(place)

    return Contender(name=name, run=timed, check=lambda number: race.check(number, table_format, place))


def _project(race: Race, table_format: str, verify: str) -> dict[str, Any]:
    values = ours.project(race.orders, {"orders": ours.stream(verify=verify)})
    return {**values, "lakes": {"lake": {"format": table_format}}}


def _must_be(outcome: str, document: Mapping[str, Any]) -> None:
    if document["outcome"] != outcome or (outcome == "loaded" and document["verified"] is not True):
        raise WrongResult(f"tidegate: {document}")


def _format(rival: str) -> str:
    return rival.rpartition(" ")[2].lower()


def _rival(race: Race, rival: str, what: str, folder: Path) -> None:
    """One run, in the environment of the rival and without ours."""
    folder.mkdir(parents=True, exist_ok=True)
    tool = rival.partition(" ")[0]
    command = _ingestr(race, what, folder) if tool == "ingestr" else _dlt(race, what, _format(rival), folder)
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    # Neither asks the network for anything that it does not need.
    quiet = {"RUNTIME__DLTHUB_TELEMETRY": "false", "DISABLE_TELEMETRY": "true", "INGESTR_DISABLE_TELEMETRY": "true"}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=3600, env={**environment, **quiet}
    )
    if done.returncode:
        raise WrongResult(f"{rival}: {done.stderr[-2000:] or done.stdout[-2000:]}")


def _dlt(race: Race, what: str, table_format: str, folder: Path) -> list[str]:
    python = str(ENVIRONMENTS / "dlt" / "bin" / "python")
    # Without -P this folder comes first on dlt's path, and its `requests` is not the library.
    return [python, "-P", str(Path(__file__).parent / "dlt_job.py"), what, table_format, race.orders.url, str(folder)]


def _ingestr(race: Race, what: str, folder: Path) -> list[str]:
    """Copy on write, which every reader can read; the first load replaces, as a merge into nothing takes longer."""
    merge = ["--incremental-strategy", "merge", "--incremental-key", "updated_at", "--primary-key", "id"]
    lake = f"iceberg+sqlite://{folder}/catalog.db?warehouse_path={folder}/lake&table.write.merge.mode=copy-on-write"
    return [
        *(str(ENVIRONMENTS / "ingestr" / "bin" / "ingestr"), "ingest", "--yes", "--progress", "log"),
        *("--source-uri", f"{race.orders.url}?sslmode=disable", "--source-table", "public.orders"),
        *("--dest-uri", lake, "--dest-table", "bench.orders"),
        *(["--incremental-strategy", "replace"] if what == "first" else [*merge, "--interval-start", race.since]),
    ]


def _document(race: Race) -> dict[str, Any]:
    """JSON types only."""
    medians = {
        job: {name: statistics.median(spent) for name, spent in seconds.items()} for job, seconds in race.jobs.items()
    }
    reached = []
    for goal in GOALS:
        best = min(goal.rivals, key=lambda rival, job=goal.job: medians[job][rival])
        ratio = medians[goal.job][goal.ours] / medians[goal.job][best]
        told = {"job": goal.job, "ours": goal.ours, "rival": best, "share": goal.share}
        reached.append({**told, "ratio": ratio, "reached": ratio <= goal.share})
    about = {"rows": race.orders.rows, "neighbouring": NEIGHBOURS, "scattered": race.orders.rows // EVERY}
    return {
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "about": {**about, "cores": os.cpu_count(), "versions": VERSIONS},
        "load": race.load,
        "seconds": race.jobs,
        "cpu": race.cpu,
        "medians": medians,
        "goals": reached,
    }


if __name__ == "__main__":
    sys.exit(main())
