"""One partition of many has changed: found by checksum and reloaded, against a full reload of the table.

The table is cut into days of `created_at`. In every round some rows of the last day change.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import ours, plain
from bench.rounds import Contender, Result, WrongResult, compare
from bench.source import A_DAY, Orders, Sums

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHANGED = 500
MOST_MOVED = 1.05


def lookback(orders: Orders, work: Path, pairs: int) -> Result:
    """An indexed lookback over the last day."""
    return _run("lookback", orders, work, pairs, goal=10, lookback=_last_day(orders))


def prefilter(orders: Orders, work: Path, pairs: int) -> Result:
    """PostgreSQL's own hash over the whole table."""
    return _run("prefilter", orders, work, pairs, goal=2.5, prefilter=True)


def stream(**options: Any) -> dict[str, Any]:
    """The table by days; without a key a day is replaced by its files."""
    return {
        "source": {"connection": "shop", "table": "orders"},
        "target": "lake.bench.orders",
        "strategy": {"kind": "checksum", "method": "by_date", "column": "created_at", "period": "day", **options},
        "write": "replace",
        "verify": "moved",
    }


def _last_day(orders: Orders) -> str:
    return str(orders.ask("SELECT to_char(max(created_at), 'YYYYMMDD') FROM orders")[0][0])


def _run(name: str, orders: Orders, work: Path, pairs: int, *, goal: float, **options: Any) -> Result:
    orders.ask("CREATE INDEX IF NOT EXISTS orders_created ON orders (created_at)")
    in_day = orders.ask("SELECT count(*) FROM orders WHERE created_at >= %s::timestamp", _last_day(orders))[0][0]
    spark = plain.session(work)
    streams = {"chosen": stream(**options), "plain": {**stream(), "target": "lake.bench.compared"}}
    made = ours.borrowed(ours.project(orders, streams), work / "ours", spark)
    sight = ours.catalogs(made, spark)
    first = {"chosen": stream() if "lookback" in options else stream(**options), "plain": streams["plain"]}
    before_all = ours.borrowed(ours.project(orders, first), work / "ours", spark)
    for each in streams:
        ours.load(before_all, each, orders.rows)
    before_all.close()
    plain.reload(spark, orders, "plain.bench.reloaded", 2)
    sums: list[Sums] = [orders.sums()]

    def before(number: int) -> None:
        orders.change(orders.rows - (number + 1) * CHANGED, CHANGED)
        sums.append(orders.sums())

    def mine(which: str) -> None:
        (outcome,) = made.run(which).streams
        if outcome.error is not None or outcome.rows_read > in_day * MOST_MOVED:
            raise WrongResult(f"{which}: {outcome}")

    def check(session: SparkSession, table: str) -> None:
        ours.must_equal(session, table, sums[-1])

    contenders = [
        Contender(
            name=f"tidegate, {name}", run=lambda _: mine("chosen"), check=lambda _: check(sight, "lake.bench.orders")
        ),
        Contender(
            name="full reload",
            run=lambda _: plain.reload(spark, orders, "plain.bench.reloaded", 2),
            check=lambda _: check(spark, "plain.bench.reloaded"),
            goal=goal,
        ),
        Contender(
            name="tidegate, every fingerprint",
            run=lambda _: mine("plain"),
            check=lambda _: check(sight, "lake.bench.compared"),
        ),
    ]
    about = {"rows": orders.rows, "partitions": orders.rows // A_DAY, "rows of the changed one": in_day}
    result = compare(name, contenders, pairs=pairs, about=about, before=before)
    made.close()
    spark.stop()
    return result
