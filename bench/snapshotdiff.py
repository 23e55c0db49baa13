"""A thousandth of a big lake table changes and nothing tells which rows: against a full outer join by hand."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bench import ours, plain
from bench.feeds import SOURCE, fill, stream
from bench.rounds import Contender, Result, WrongResult, compare
from bench.source import COLUMNS, Orders, spark_sums

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHARE = 1_000
TARGET = "plain.bench.byhand"


def run(orders: Orders, work: Path, pairs: int) -> Result:
    """One row of a thousand, spread over the whole table, changes before every round."""
    spark = plain.session(work)
    made = ours.borrowed(ours.project(orders, {"snapshot_diff": stream("snapshot_diff")}), work / "ours", spark)
    sight = ours.catalogs(made, spark)
    fill(work / "ours", sight, spark, orders)
    plain.reload(spark, orders, TARGET, 4)
    ours.load(made, "snapshot_diff", orders.rows)
    changed = orders.rows // SHARE

    def before(number: int) -> None:
        sight.sql(f"UPDATE {SOURCE} SET amount = amount + 1, note = 'new' WHERE id % {SHARE} = {number + 1}")

    def mine(_: int) -> None:
        (outcome,) = made.run("snapshot_diff").streams
        if outcome.error is not None or (outcome.rows_updated, outcome.rows_inserted) != (changed, 0):
            raise WrongResult(f"tidegate: {outcome}")

    def check(table: str) -> None:
        ours.must_equal(sight, table, spark_sums(sight, SOURCE))

    contenders = [
        Contender(name="tidegate", run=mine, check=lambda _: check("lake.bench.snapshot_diff")),
        Contender(name="outer join on hashes", run=lambda _: by_hand(sight), check=lambda _: check(TARGET), goal=1),
    ]
    about = {"rows": orders.rows, "changed": changed, "verify": "moved"}
    result = compare("snapshotdiff", contenders, pairs=pairs, about=about, before=before)
    made.close()
    spark.stop()
    return result


def by_hand(sight: SparkSession) -> None:
    """Row hashes of both sides, joined on the key; what differs is merged."""
    texts = ", ".join(f"coalesce(CAST({column} AS string), '~')" for column in COLUMNS)
    text = f"sha2(concat_ws('|', {texts}), 256)"
    sight.sql(f"SELECT *, {text} AS h FROM {SOURCE}").createOrReplaceTempView("hashed_source")
    sight.sql(f"SELECT id AS there, {text} AS was FROM {TARGET}").createOrReplaceTempView("hashed_target")
    sight.sql(
        "SELECT s.*, t.there, s.id IS NULL AS gone FROM hashed_source s FULL OUTER JOIN hashed_target t "
        "ON s.id = t.there WHERE NOT (s.h <=> t.was)"
    ).persist().createOrReplaceTempView("differing")
    sight.table("differing").count()
    updates = ", ".join(f"t.{column} = s.{column}" for column in COLUMNS)
    values = ", ".join(f"s.{column}" for column in COLUMNS)
    sight.sql(
        f"MERGE INTO {TARGET} t USING (SELECT * FROM differing WHERE coalesce(id, there) >= 0) s "
        f"ON t.id = coalesce(s.id, s.there) WHEN MATCHED AND s.gone THEN DELETE WHEN MATCHED THEN UPDATE SET {updates} "
        f"WHEN NOT MATCHED THEN INSERT ({', '.join(COLUMNS)}) VALUES ({values})"
    )
    sight.catalog.clearCache()
