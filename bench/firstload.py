"""The first load of a whole table, in a warm session: against hand-partitioned Spark JDBC into Iceberg."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench import ours, plain
from bench.rounds import Contender, Result, compare
from bench.source import Orders

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTS = (2, 4, 8)


def run(orders: Orders, work: Path, pairs: int) -> Result:
    """Every round loads into new tables and drops them afterwards."""
    spark = plain.session(work)
    sums = orders.sums()
    parts, tried = _best(spark, orders)
    print(f"  plain Spark by number of parts: {tried}; {parts} is its best", flush=True)
    streams = {
        f"{level}_{number}": ours.stream(table=f"{level}_{number}", verify=level)
        for level in ("counts", "moved")
        for number in range(pairs + 1)
    }
    made = ours.borrowed(ours.project(orders, streams), work / "ours", spark)
    sight = ours.catalogs(made, spark)
    stages: dict[str, list[dict[str, float]]] = {"counts": [], "moved": []}

    def mine(level: str, number: int) -> None:
        stages[level].append(ours.load(made, f"{level}_{number}", orders.rows).seconds)

    def check(session: SparkSession, table: str) -> None:
        ours.must_equal(session, table, sums)
        session.sql(f"DROP TABLE {table} PURGE")

    contenders = [
        Contender(
            name="tidegate, counts",
            run=lambda number: mine("counts", number),
            check=lambda number: check(sight, f"lake.bench.counts_{number}"),
        ),
        Contender(
            name=f"Spark JDBC, {parts} parts",
            run=lambda _: plain.reload(spark, orders, "plain.bench.first", parts),
            check=lambda _: check(spark, "plain.bench.first"),
            goal=1,
        ),
        Contender(
            name="tidegate, moved",
            run=lambda number: mine("moved", number),
            check=lambda number: check(sight, f"lake.bench.moved_{number}"),
        ),
    ]
    result = compare("firstload", contenders, pairs=pairs, about={"rows": orders.rows, "columns": 10})
    result.extra["stages of each round"] = stages
    made.close()
    spark.stop()
    return result


def _best(spark: SparkSession, orders: Orders) -> tuple[int, dict[int, float]]:
    """The number of parts with which plain Spark is fastest here, after a warm-up."""
    plain.reload(spark, orders, "plain.bench.tried", PARTS[0])
    tried = {}
    for parts in PARTS:
        began = time.monotonic()
        plain.reload(spark, orders, "plain.bench.tried", parts)
        tried[parts] = round(time.monotonic() - began, 2)
    spark.sql("DROP TABLE plain.bench.tried PURGE")
    return min(tried, key=lambda parts: tried[parts]), tried
