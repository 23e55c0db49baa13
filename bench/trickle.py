"""Events committed at the source, 500 or 5,000 a second, followed by `watch`: when they are seen in the table."""

from __future__ import annotations

import os
import signal
import statistics
import threading
import time
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

from bench import ours, plain
from bench.rounds import Result, WrongResult
from bench.source import Orders

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.api import Project
    from tidegate.engine.watch import WatchResult

SECONDS = 40
"""Of each round that is asked for: three make two minutes."""
EVENTS = 500
PATIENCE = 120
"""Seconds after the last commit in which it has to be seen."""
ROWS = 100_000
"""Of the table, for each 500 events a second."""
FILES = 60
"""Files of the table and of what is kept beside it, at most, with a maintenance every half minute."""
TABLE = "lake.bench.trickle"
MADE = (
    "CREATE TABLE trickle (LIKE orders INCLUDING DEFAULTS)",
    "INSERT INTO trickle SELECT * FROM orders WHERE id <= {rows}",
    "ALTER TABLE trickle ADD PRIMARY KEY (id)",
)
# One second's events, `times` as many as 500: mostly updates, a fifth new rows, a tenth deletes.
SECOND = (
    (
        "INSERT INTO trickle SELECT {new} + i, 1, 'n', 1, 1, true, 'de', '', now(), now() "
        "FROM generate_series(1, 100 * {times}) i"
    ),
    (
        "UPDATE trickle SET amount = amount + 1, updated_at = clock_timestamp() "
        "WHERE id > {old} AND id <= {old} + 350 * {times}"
    ),
    "DELETE FROM trickle WHERE id > {old} + 350 * {times} AND id <= {old} + 400 * {times}",
)


@dataclass(kw_only=True)
class Trickle:
    """An application that commits once a second, and asks the watch to stop when it has done so often enough.

    Units: `commits` and `seen` (loads, told by the watch) are the clock's seconds and a place of the log.
    """

    url: str
    seconds: int
    times: int
    commits: list[tuple[float, int]] = field(default_factory=list)
    seen: list[tuple[float, int]] = field(default_factory=list)

    def write(self) -> None:
        """In a thread of its own; whatever happens, the watch ends."""
        try:
            with psycopg.connect(self.url) as session:
                session.execute("SET synchronous_commit = on")
                began = time.monotonic()
                for number in range(self.seconds):
                    time.sleep(max(0.0, began + number - time.monotonic()))
                    new, old = (10 * ROWS + number * 100) * self.times, number * 400 * self.times
                    for statement in SECOND:
                        session.execute(statement.format(new=new, old=old, times=self.times))
                    session.commit()
                    now = time.time()
                    ((place,),) = session.execute("SELECT (pg_current_wal_lsn() - '0/0')::bigint").fetchall()
                    session.commit()
                    self.commits.append((now, place))
            for _ in range(PATIENCE):
                if self.seen and self.seen[-1][1] >= self.commits[-1][1]:
                    break
                time.sleep(1)
        finally:
            os.kill(os.getpid(), signal.SIGINT)


def few(orders: Orders, work: Path, pairs: int) -> Result:
    """500 events a second, for so many rounds of 40 seconds."""
    return _run(orders, work, pairs, name="trickle", times=1)


def many(orders: Orders, work: Path, pairs: int) -> Result:
    """5,000 events a second."""
    return _run(orders, work, pairs, name="flow", times=10)


def _run(orders: Orders, work: Path, pairs: int, *, name: str, times: int) -> Result:
    rows = ROWS * times
    for statement in ("DROP TABLE IF EXISTS trickle", *MADE):
        orders.ask(statement.format(rows=rows))
    spark = plain.session(work)
    stream = {
        "source": {"connection": "shop", "slot": name, "table": "public.trickle"},
        "target": TABLE,
        "key": ["id"],
        "strategy": "cdc",
        "write": "merge",
        "schedule": {"every": "1s"},
        "maintenance": {"every": "30s"},
    }
    made = ours.borrowed(ours.project(orders, {"trickle": stream}), work / "ours", spark)
    try:
        ours.load(made, "trickle", rows)
        about = {"events a second": EVENTS * times, "seconds": SECONDS * pairs, "rows": rows, "verify": "moved"}
        print(f"\n{name}: {', '.join(f'{key} {value}' for key, value in about.items())}", flush=True)
        trickle = Trickle(url=orders.url, seconds=SECONDS * pairs, times=times)
        watched(made, trickle)
        seconds = delays(trickle.commits, trickle.seen)
        (last,) = made.run("trickle").streams
        if last.error is not None:
            raise WrongResult(f"tidegate: {last}")
        sight = ours.catalogs(made, spark)
        ours.must_equal(sight, TABLE, orders.sums("trickle"))
        files = {each: counted(sight, each) for each in (TABLE, f"{TABLE}__tidegate_applied")}
    finally:
        made.close()
        orders.ask("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE NOT active")
        spark.stop()
    result = Result(name=name, about=about, ours="seen after a commit", goals={})
    result.seconds = {"seen after a commit": seconds}
    result.extra = {
        "p50": round(statistics.median(seconds), 2),
        "p95": round(statistics.quantiles(seconds, n=20)[-1], 2),
        "loads": len(trickle.seen),
        **{f"files of {each}": number for each, number in files.items()},
    }
    result.too_much = max(files.values()) > FILES
    return result


def watched(made: Project, trickle: Trickle) -> None:
    """Loads until the application asks to stop."""

    def tell(turned: WatchResult) -> None:
        outcome: Any = turned.outcome
        if outcome.error is not None:
            raise WrongResult(f"tidegate: {outcome}")
        if outcome.outcome == "loaded":
            high, _, low = outcome.position["state"]["lsn"].partition("/")
            trickle.seen.append((turned.ended_at.timestamp(), (int(high, 16) << 32) + int(low, 16)))

    writer = threading.Thread(target=trickle.write, daemon=True)
    writer.start()
    made.watch("trickle", every=timedelta(seconds=1), tell=tell)
    writer.join()


def delays(commits: list[tuple[float, int]], seen: list[tuple[float, int]]) -> list[float]:
    """Seconds from each commit to the end of the load that has it.

    Raises:
        WrongResult: one was not seen before the watch ended.
    """
    found = []
    for at, place in commits:
        first = next((when for when, upto in seen if upto >= place), None)
        if first is None:
            raise WrongResult(f"a commit at {place} was not seen by the loads up to {seen[-1:]}")
        found.append(first - at)
    return found


def counted(sight: SparkSession, table: str) -> int:
    """Data files and files of deletes that a reader of the table opens."""
    return int(sight.sql(f"SELECT count(*) FROM {table}.files").collect()[0][0])
