"""Changes in a big dimension of which every version is kept: against a plain MERGE, and with five times the history."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench import ours, plain
from bench.rounds import Contender, Result, WrongResult, compare
from bench.source import Orders, Sums

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHANGED = 10_000
OLD_VERSIONS = 4
YOUNG, OLD = "young", "old"


@dataclass(slots=True, kw_only=True)
class Now:
    """What the source is: the newest row before the last change, its rows as numbers."""

    since: str
    sums: Sums


def run(orders: Orders, work: Path, pairs: int) -> Result:
    """10,000 neighbouring rows change before every round; one of the dimensions has five times the history."""
    spark = plain.session(work)
    streams = {name: {**ours.stream(table=name), "write": "scd2"} for name in (YOUNG, OLD)}
    made = ours.borrowed(ours.project(orders, streams), work / "ours", spark)
    sight = ours.catalogs(made, spark)
    for name in streams:
        ours.load(made, name, orders.rows)
    _age(sight)
    plain.reload(spark, orders, "plain.bench.merged", 2)
    now = Now(since=orders.newest(), sums=orders.sums())

    def before(number: int) -> None:
        now.since = orders.newest()
        orders.change(orders.rows // 2 + number * 10 * CHANGED % (orders.rows // 4), CHANGED)
        now.sums = orders.sums()

    def check(name: str) -> None:
        sight.sql(f"CREATE OR REPLACE TEMP VIEW current AS SELECT * FROM lake.bench.{name} WHERE is_current")
        ours.must_equal(sight, "current", now.sums)
        several = "SELECT id FROM current GROUP BY id HAVING count(*) > 1"
        if sight.sql(several).take(1):
            raise WrongResult(f"{name}: a key has several current versions")

    def mine(name: str) -> None:
        ours.load(made, name, CHANGED)

    contenders = [
        Contender(
            name="tidegate",
            run=lambda _: mine(YOUNG),
            check=lambda _: check(YOUNG),
        ),
        Contender(
            name="tidegate, five times the history",
            run=lambda _: mine(OLD),
            check=lambda _: check(OLD),
        ),
        Contender(
            name="plain MERGE",
            run=lambda _: plain.merge(spark, orders, "plain.bench.merged", now.since),
            check=lambda _: ours.must_equal(spark, "plain.bench.merged", now.sums),
            goal=1 / 1.3,
        ),
    ]
    about = {"rows": orders.rows, "changed": CHANGED, "verify": "moved"}
    result = compare("scd2", contenders, pairs=pairs, about=about, before=before)
    result.too_much = max(result.ratios("tidegate, five times the history")) > 1.3
    made.close()
    spark.stop()
    return result


def _age(sight: SparkSession) -> None:
    """Versions that ended long ago, four for each row, as earlier loads would have left them."""
    columns = [name for name in sight.table(f"lake.bench.{OLD}").columns if name not in ("valid_from", "valid_to")]
    kept = ", ".join(f"`{name}`" for name in columns if name != "is_current")
    for number in range(OLD_VERSIONS):
        began, ended = f"timestampadd(DAY, {number}, BEGAN)", f"timestampadd(DAY, {number + 1}, BEGAN)"
        began, ended = (text.replace("BEGAN", "TIMESTAMP '2000-01-01 00:00:00'") for text in (began, ended))
        sight.sql(
            f"INSERT INTO lake.bench.{OLD} ({kept}, valid_from, valid_to, is_current) "
            f"SELECT {kept}, {began}, {ended}, false FROM lake.bench.{OLD} WHERE is_current"
        )
