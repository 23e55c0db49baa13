"""`python -m bench [NAME …] [--rows N] [--pairs N] [--work DIR]`: every benchmark, or those that are named."""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import shutil
import sys
import tempfile
from pathlib import Path

from bench.rounds import WrongResult, report
from bench.source import orders

BENCHES = {
    "nochange": "bench.nochange:run",
    "service": "bench.service:run",
    "requests": "bench.requests:run",
    "changes": "bench.changes:run",
    "firstload": "bench.firstload:run",
    "lookback": "bench.partitions:lookback",
    "prefilter": "bench.partitions:prefilter",
    "tablesize": "bench.tablesize:run",
    "feeds": "bench.feeds:run",
    "snapshotdiff": "bench.snapshotdiff:run",
    "events": "bench.events:rows",
    "debezium": "bench.events:debezium",
    "connect": "bench.events:connect",
    "trickle": "bench.trickle:few",
    "flow": "bench.trickle:many",
    "keydiff": "bench.keydiff:integers",
    "keydifftext": "bench.keydiff:texts",
    "verify": "bench.verify:run",
    "scd2": "bench.scd2:run",
    "memory": "bench.memory:run",
    "logmemory": "bench.memory:log",
}


def main() -> int:
    """0 when every result is right and every goal is reached."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(BENCHES)}; all by default")
    parser.add_argument("--rows", type=int, default=5_000_000, help="rows of the table (%(default)s)")
    parser.add_argument("--pairs", type=int, default=3, help="rounds after the warm-up (%(default)s)")
    parser.add_argument("--work", type=Path, help="where tables are written (a temporary folder)")
    options = parser.parse_args()
    names = options.names or list(BENCHES)
    if unknown := set(names) - set(BENCHES):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(BENCHES)}")
    print(f"{os.cpu_count()} cores, Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}")
    work = Path(tempfile.mkdtemp(prefix="tidegate-bench-", dir=options.work))
    missed = []
    try:
        with orders(options.rows) as table:
            for name in names:
                folder = work / name
                try:
                    module, _, function = BENCHES[name].partition(":")
                    result = getattr(importlib.import_module(module), function)(table, folder, options.pairs)
                except WrongResult as error:
                    print(f"  {name}: WRONG RESULT, no figures: {error}")
                    missed.append(name)
                    continue
                finally:
                    shutil.rmtree(folder, ignore_errors=True)
                report(result)
                if not result.reached:
                    missed.append(name)
    finally:
        shutil.rmtree(work)
    print(f"\nnot reached: {', '.join(missed)}" if missed else "\nall reached")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
