"""Few changes in a big table, in a warm session: against a full reload and against a plain merge-on-read MERGE."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench import ours, plain
from bench.rounds import Contender, Result, compare
from bench.source import Orders, Sums

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHANGED = 1000
# A load of a second is planning more than work, which Java runs twice as fast once it has compiled it.
WARM = 5


@dataclass(slots=True, kw_only=True)
class Now:
    """What the source is: its rows as numbers, and the newest row before the last change."""

    since: str
    sums: Sums


def run(orders: Orders, work: Path, pairs: int) -> Result:
    """1,000 neighbouring rows change before every round."""
    spark = plain.session(work)
    made = ours.borrowed(ours.project(orders, {"orders": ours.stream()}), work / "ours", spark)
    sight = ours.catalogs(made, spark)
    now = Now(since=orders.newest(), sums=orders.sums())
    ours.load(made, "orders", orders.rows)
    for table in ("merged", "reloaded"):
        plain.reload(spark, orders, f"plain.bench.{table}", 2)
        ours.must_equal(spark, f"plain.bench.{table}", now.sums)
    ours.must_equal(sight, "lake.bench.orders", now.sums)
    stages: list[dict[str, float]] = []

    def before(number: int) -> None:
        now.since = orders.newest()
        orders.change(orders.rows // 2 + number * 10 * CHANGED, CHANGED)
        now.sums = orders.sums()

    def check(session: SparkSession, table: str) -> None:
        ours.must_equal(session, table, now.sums)

    def mine(_: int) -> None:
        stages.append(ours.load(made, "orders", CHANGED).seconds)

    contenders = [
        Contender(name="tidegate", run=mine, check=lambda _: check(sight, "lake.bench.orders")),
        Contender(
            name="full reload",
            run=lambda _: plain.reload(spark, orders, "plain.bench.reloaded", 2),
            check=lambda _: check(spark, "plain.bench.reloaded"),
            goal=10,
        ),
        Contender(
            name="plain MERGE",
            run=lambda _: plain.merge(spark, orders, "plain.bench.merged", now.since),
            check=lambda _: check(spark, "plain.bench.merged"),
            goal=3,
        ),
    ]
    about = {"rows": orders.rows, "changed": CHANGED, "verify": "moved"}
    result = compare("changes", contenders, pairs=pairs, about=about, before=before, warm=WARM)
    result.extra["stages of each round"] = stages[-pairs:]
    made.close()
    spark.stop()
    return result
