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
CODES = "SELECT 'k' || id AS code, id, updated_at FROM orders"


def integers(orders: Orders, work: Path, pairs: int) -> Result:
    """The key is one integer: count and sum over ranges."""
    try:
        return _run("keydiff", "orders", "id", 2, orders, work, pairs)
    finally:
        orders.ask(ROWS + " ON CONFLICT DO NOTHING", 1, orders.rows)  # for the benchmarks that follow


def texts(orders: Orders, work: Path, pairs: int) -> Result:
    """The key is a text: the source's own hash, then all keys, which must not be slower."""
    orders.ask(f"CREATE TABLE codes AS {CODES}")
    try:
        orders.ask("ALTER TABLE codes ADD PRIMARY KEY (code), ADD UNIQUE (id)")
        orders.ask("VACUUM ANALYZE codes")
        return _run("keydifftext", "codes", "code", 1, orders, work, pairs)
    finally:
        orders.ask("DROP TABLE codes")


def _run(  # noqa: PLR0913, PLR0917 - what tells the two apart, and what every benchmark takes
    name: str, table: str, key: str, goal: float, orders: Orders, work: Path, pairs: int
) -> Result:
    spark = plain.session(work)
    made = ours.borrowed(ours.project(orders, {"keydiff": _stream(table, key)}), work / "ours", spark)
    sight = ours.catalogs(made, spark)
    (first,) = made.run("keydiff").streams
    if first.error is not None:
        raise WrongResult(f"tidegate: {first}")
    sight.table(SIGHT).writeTo(TARGET).using("iceberg").tableProperty("write.merge.mode", "merge-on-read").create()
    step = orders.rows // GONE

    def before(number: int) -> None:
        orders.ask(f"DELETE FROM {table} WHERE id %% %s = %s", step, 17 * number + 3)

    def mine() -> None:
        (outcome,) = made.run("keydiff").streams
        if outcome.error is not None or not GONE - 1 <= outcome.rows_deleted <= GONE + 1:
            raise WrongResult(f"tidegate: {outcome}")

    def check(target: str) -> None:
        rows, total = orders.ask(f"SELECT count(*), sum(id) FROM {table}")[0]
        found = sight.sql(f"SELECT count(*), sum(id) FROM {target}").collect()[0]
        if (int(rows), int(total)) != tuple(found):
            raise WrongResult(f"{target} holds {tuple(found)}, the source {(rows, total)}")

    contenders = [
        Contender(name="tidegate", run=lambda _: mine(), check=lambda _: check(SIGHT)),
        Contender(
            name="all keys, anti-join",
            run=lambda _: by_hand(sight, orders, table, key),
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


def _stream(table: str, key: str) -> dict[str, Any]:
    return {
        **ours.stream(table="keydiff"),
        "source": {"connection": "shop", "table": table},
        "key": [key],
        "deletes": {"detect": "key_diff"},
    }


def by_hand(sight: SparkSession, orders: Orders, table: str, key: str) -> None:
    """Every key over four connections; what the table has beside them is deleted."""
    plain.read(sight, orders, 4, table=table).selectExpr(key).createOrReplaceTempView("there")
    sight.sql(
        f"MERGE INTO {TARGET} t USING (SELECT h.{key} FROM {TARGET} h LEFT ANTI JOIN there s ON h.{key} = s.{key}) g "
        f"ON t.{key} = g.{key} WHEN MATCHED THEN DELETE"
    )
