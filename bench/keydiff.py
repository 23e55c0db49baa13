"""A hundred rows are gone at the source and no cursor says so: key fingerprints against all keys and an anti-join."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import ours, plain
from bench.rounds import Contender, Result, WrongResult, compare
from bench.source import ROWS, Orders

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GONE = 100
SIGHT = "lake.bench.keydiff"
TARGET = "plain.bench.byhand"
CODE = "'k' || id"


def integers(orders: Orders, work: Path, pairs: int) -> Result:
    """The key is one integer: count and sum over ranges."""
    return _run("keydiff", "id", 2, orders, work, pairs)


def texts(orders: Orders, work: Path, pairs: int) -> Result:
    """The key is a text: fingerprints of hash buckets, which must not be slower."""
    return _run("keydifftext", "code", 1, orders, work, pairs)


def _run(name: str, key: str, goal: float, orders: Orders, work: Path, pairs: int) -> Result:  # noqa: PLR0913, PLR0917
    spark = plain.session(work)
    made = ours.borrowed(ours.project(orders, {"keydiff": _stream(key)}), work / "ours", spark)
    sight = ours.catalogs(made, spark)
    (first,) = made.run("keydiff").streams
    if first.error is not None:
        raise WrongResult(f"tidegate: {first}")
    sight.table(SIGHT).writeTo(TARGET).using("iceberg").tableProperty("write.merge.mode", "merge-on-read").create()
    step = orders.rows // GONE

    def before(number: int) -> None:
        orders.ask("DELETE FROM orders WHERE id %% %s = %s", step, 17 * number + 3)

    def mine() -> None:
        (outcome,) = made.run("keydiff").streams
        if outcome.error is not None or not GONE - 1 <= outcome.rows_deleted <= GONE + 1:
            raise WrongResult(f"tidegate: {outcome}")

    def check(table: str) -> None:
        rows, total = orders.ask("SELECT count(*), sum(id) FROM orders")[0]
        found = sight.sql(f"SELECT count(*), sum(id) FROM {table}").collect()[0]
        if (int(rows), int(total)) != tuple(found):
            raise WrongResult(f"{table} holds {tuple(found)}, the source {(rows, total)}")

    contenders = [
        Contender(name="tidegate", run=lambda _: mine(), check=lambda _: check(SIGHT)),
        Contender(
            name="all keys, anti-join",
            run=lambda _: by_hand(sight, orders, key),
            check=lambda _: check(TARGET),
            goal=goal,
        ),
    ]
    about = {"rows": orders.rows, "deleted": GONE, "key": key, "verify": "moved"}
    try:
        return compare(name, contenders, pairs=pairs, about=about, before=before)
    finally:
        made.close()
        spark.stop()
        orders.ask(ROWS + " ON CONFLICT DO NOTHING", 1, orders.rows)  # for the benchmarks that follow


def _stream(key: str) -> dict[str, Any]:
    relation = {"table": "orders"} if key == "id" else {"query": f"SELECT {CODE} AS code, id, updated_at FROM orders"}
    return {
        **ours.stream(table="keydiff"),
        "source": {"connection": "shop", **relation},
        "key": [key],
        "deletes": {"detect": "key_diff"},
    }


def by_hand(sight: SparkSession, orders: Orders, key: str) -> None:
    """Every key over four connections; what the table has beside them is deleted."""
    keys = plain.read(sight, orders, 4)
    keys.selectExpr("id" if key == "id" else "concat('k', id) AS code").createOrReplaceTempView("there")
    sight.sql(
        f"MERGE INTO {TARGET} t USING (SELECT h.{key} FROM {TARGET} h LEFT ANTI JOIN there s ON h.{key} = s.{key}) g "
        f"ON t.{key} = g.{key} WHEN MATCHED THEN DELETE"
    )
