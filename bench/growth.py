"""`python -m bench.growth [--docs]`: one thing grows at a time: rows, streams, columns, past loads.

A Spark that runs already loads with `verify: moved`, beside a MERGE by hand where there is one for the same rows. What
was loaded is compared with the source after each kind of change.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import growth_page, ours, plain
from bench.rivals import EVERY, NEIGHBOURS, NEWEST
from bench.rounds import OUT, WrongResult
from bench.source import Orders, orders

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.api import Project

ROWS = (500_000, 5_000_000, 20_000_000, 50_000_000)
SCATTERED = 10_000
"""Rows that change all over the table, whatever its size."""
STREAMS = (1, 10, 100, 1_000)
OF_A_STREAM = 1_000
"""Rows of each of many tables."""
COLUMNS = (10, 50, 100, 200)
WIDE = 200_000
"""Rows of the table with many columns."""
LOADS = 1_000
ROUNDS = 3
SMALL = 500_000
"""Rows of the table that many loads change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Seconds of one job at one size; the median of its rounds.

    Args:
        by_hand: what a MERGE takes that an engineer writes; None where there is nothing to compare with.
        measured: the day, in UTC.
        load: the machine's load average of a quarter of an hour, this program's own part included.
    """

    grows: str
    size: int
    job: str
    seconds: float
    by_hand: float | None = None
    measured: str = field(default_factory=lambda: f"{datetime.now(UTC):%Y-%m-%d}")
    load: float = field(default_factory=lambda: os.getloadavg()[2])


def main(arguments: list[str] | None = None) -> int:
    """Prints a line for each job and size, and writes `bench/out/growth.json`."""
    parser = argparse.ArgumentParser(prog="python -m bench.growth", description=__doc__)
    parser.add_argument("--rows", type=int, nargs="*", default=ROWS, help="sizes of the table (%(default)s)")
    parser.add_argument("--streams", type=int, nargs="*", default=STREAMS, help="streams in a run (%(default)s)")
    parser.add_argument("--columns", type=int, nargs="*", default=COLUMNS, help="columns of a table (%(default)s)")
    parser.add_argument("--loads", type=int, default=LOADS, help="loads of one table (%(default)s)")
    parser.add_argument("--docs", action="store_true", help="write the table and the plot of docs/benchmarks.md")
    options = parser.parse_args(arguments)
    lines = []
    for found in (
        *(_rows(each) for each in options.rows),
        *(_streams(each) for each in options.streams),
        *(_columns(each) for each in options.columns),
        *([_past_loads(options.loads)] if options.loads else []),
    ):
        for line in found:
            lines.append(line)
            hand = f", by hand {line.by_hand:.1f} s" if line.by_hand is not None else ""
            print(f"{line.size:,} {line.grows}: {line.job} {line.seconds:.1f} s{hand}", flush=True)
    measured = [asdict(line) for line in lines]
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "growth.json").write_text(json.dumps(measured, indent=2) + "\n", encoding="utf-8")
    if options.docs:
        growth_page.write(measured)
    return 0


@dataclass(slots=True, kw_only=True)
class Bench:
    """A Spark, a project on it, and the source of both."""

    orders: Orders
    spark: SparkSession
    made: Project
    sight: SparkSession

    def equal(self, table: str) -> None:
        """Raises WrongResult unless the table holds the source's rows."""
        ours.must_equal(self.sight, table, self.orders.sums())


@contextmanager
def _bench(rows: int, streams: dict[str, Any]) -> Iterator[Bench]:
    with tempfile.TemporaryDirectory(prefix="tidegate-growth-") as folder, orders(rows) as source:
        spark = plain.session(Path(folder))
        made = ours.borrowed(ours.project(source, streams), Path(folder) / "ours", spark)
        try:
            yield Bench(orders=source, spark=spark, made=made, sight=ours.catalogs(made, spark))
        finally:
            made.close()
            spark.stop()


def _rows(rows: int) -> Iterator[Line]:
    with _bench(rows, {"orders": ours.stream()}) as bench:
        spent = _seconds(lambda: ours.load(bench.made, "orders", rows))
        by_hand = _seconds(lambda: plain.reload(bench.spark, bench.orders, "plain.bench.orders", 2))
        yield Line(grows="rows", size=rows, job="first load", seconds=spent, by_hand=by_hand)
        apart = rows // 20
        kinds: tuple[tuple[str, int, Callable[[int], str]], ...] = (
            ("neighbouring", NEIGHBOURS, lambda n: f"id > {n * apart} AND id <= {n * apart + NEIGHBOURS}"),
            ("scattered", SCATTERED, lambda n: f"id % {rows // SCATTERED} = {n}"),
        )
        for kind, changed, condition in kinds:
            mine, hand = [], []
            for number in range(ROUNDS + 1):  # the first warms up
                since = bench.orders.ask(NEWEST)[0][0]
                bench.orders.change_where(condition(number))
                mine.append(_seconds(partial(ours.load, bench.made, "orders", changed)))
                hand.append(_seconds(partial(plain.merge, bench.spark, bench.orders, "plain.bench.orders", since)))
            bench.equal("lake.bench.orders")
            ours.must_equal(bench.spark, "plain.bench.orders", bench.orders.sums())
            job = f"{changed:,} {kind} rows"
            yield Line(grows="rows", size=rows, job=job, seconds=_median(mine), by_hand=_median(hand))


def _streams(streams: int) -> Iterator[Line]:
    tables = [f"t{number:04}" for number in range(streams)]
    named = {}
    for table in tables:
        stream = ours.stream(table=table)
        named[table] = {**stream, "source": {"connection": "shop", "table": table}}
    with _bench(OF_A_STREAM, named) as bench:
        for table in tables:
            bench.orders.ask(f"CREATE TABLE {table} (LIKE orders INCLUDING ALL)")
            bench.orders.ask(f"INSERT INTO {table} SELECT * FROM orders")
        for job, outcome in (("first load of each", "loaded"), ("nothing to do", "unchanged")):
            yield Line(grows="streams", size=streams, job=job, seconds=_run(bench, outcome))
        for table in tables:
            bench.orders.ask(f"UPDATE {table} SET amount = 0, updated_at = clock_timestamp() WHERE id = 1")
        time.sleep(1.5)
        yield Line(grows="streams", size=streams, job="one row of each", seconds=_run(bench, "loaded"))
        for table in {tables[0], tables[-1]}:
            ours.must_equal(bench.sight, f"lake.bench.{table}", bench.orders.sums(table))


def _run(bench: Bench, outcome: str) -> float:
    began = time.monotonic()
    result = bench.made.run()
    spent = time.monotonic() - began
    if wrong := [each.stream for each in result.streams if str(each.outcome) != outcome]:
        raise WrongResult(f"not {outcome}: {wrong[:3]}")
    return spent


KINDS = (("bigint", "id"), ("text", "md5(id::text)"), ("numeric(12,2)", "amount"), ("timestamp", "created_at"))
"""Types of further columns in turn, and what stands in them."""


def _columns(columns: int) -> Iterator[Line]:
    with _bench(WIDE, {"orders": ours.stream()}) as bench:
        more = [(f"c{number:03}", *KINDS[number % len(KINDS)]) for number in range(columns - len(plain.COLUMNS))]
        if more:
            bench.orders.ask("ALTER TABLE orders " + ", ".join(f"ADD COLUMN {name} {kind}" for name, kind, _ in more))
            bench.orders.ask("UPDATE orders SET " + ", ".join(f"{name} = {value}" for name, _, value in more))
        spent = _seconds(lambda: ours.load(bench.made, "orders", WIDE))
        yield Line(grows="columns", size=columns, job=f"first load of {WIDE:,} rows", seconds=spent)
        mine = []
        for number in range(ROUNDS + 1):
            bench.orders.change_where(f"id % {EVERY} = {number}")
            mine.append(_seconds(lambda: ours.load(bench.made, "orders", WIDE // EVERY)))
        bench.equal("lake.bench.orders")
        yield Line(grows="columns", size=columns, job=f"{WIDE // EVERY} scattered rows", seconds=_median(mine))


def _past_loads(loads: int) -> Iterator[Line]:
    with _bench(SMALL, {"orders": ours.stream()}) as bench:
        ours.load(bench.made, "orders", SMALL)
        took = []
        for number in range(loads):
            bench.orders.ask(
                f"UPDATE orders SET amount = amount + 1, updated_at = clock_timestamp() WHERE id > {number * 10} "
                f"AND id <= {number * 10 + 10}"
            )
            time.sleep(1.1)
            took.append(_seconds(lambda: bench.made.run("orders")))
            if number + 1 in {loads // 100, loads // 10, loads}:
                last = statistics.median(took[-max(10, loads // 100) :])
                yield Line(grows="past loads", size=number + 1, job="10 neighbouring rows", seconds=last)
        time.sleep(1.5)
        bench.made.run("orders")
        bench.equal("lake.bench.orders")


def _seconds(work: Callable[[], object]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began


def _median(spent: list[float]) -> float:
    """Of all but the first."""
    return statistics.median(spent[1:])


if __name__ == "__main__":
    sys.exit(main())
