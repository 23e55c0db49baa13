"""Events of a log in files, a tenth of them twice and shuffled: strategy cdc against row_number and MERGE by hand."""

from __future__ import annotations

import os
import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import ours, plain
from bench.rounds import Contender, Result, WrongResult, compare
from bench.source import Orders

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHUFFLED = 1000
FILES = 4
COLUMNS = "id bigint, name string, amount decimal(12,2), changed timestamp_ntz"
SUMS = "count(*), sum(id), sum(CAST(xxhash64(id, name, amount, changed) AS decimal(20,0)))"


def stream(events: Path, target: str, verify: str) -> dict[str, Any]:
    """The stream of the log."""
    return {
        "source": {
            "path": str(events / "*.parquet"),
            "envelope": {"kind": "rows", "operation": "op", "sequence": ["lsn"]},
        },
        "target": f"lake.bench.{target}",
        "key": ["id"],
        "strategy": {"kind": "cdc", "max_events": 100_000_000},
        "write": "merge",
        "verify": verify,
    }


def run(orders: Orders, work: Path, pairs: int) -> Result:
    """As many events as a fifth of the table's rows come before every round, of a tenth as many keys."""
    spark = plain.session(work)
    events, count = work / "events", max(orders.rows // 5, 10 * SHUFFLED)
    events.mkdir(parents=True)
    streams = {name: stream(events, f"events_{name}", name) for name in ("none", "moved")}
    made = ours.borrowed({"connections": {}, "streams": streams}, work / "ours", spark)
    sight = ours.catalogs(made, spark)
    spark.sql(
        f"CREATE TABLE plain.bench.events ({COLUMNS}, lsn bigint) USING iceberg TBLPROPERTIES ('format-version' = '2')"
    )

    def before(number: int) -> None:
        write(spark, events, work / "tmp", number, count)

    def mine(verify: str) -> None:
        (outcome,) = made.run(verify).streams
        if outcome.error is not None:
            raise WrongResult(f"tidegate: {outcome}")

    def check(session: SparkSession, table: str) -> None:
        found, wanted = sums(session, table), truth(spark, events)
        if found != wanted:
            raise WrongResult(f"{table} holds {found}, the events leave {wanted}")

    contenders = [
        Contender(name="tidegate", run=lambda _: mine("none"), check=lambda _: check(sight, "lake.bench.events_none")),
        Contender(
            name="row_number and MERGE",
            run=lambda number: by_hand(spark, events, number),
            check=lambda _: check(spark, "(SELECT * FROM plain.bench.events WHERE name IS NOT NULL)"),
            goal=1,
        ),
        Contender(
            name="verify: moved", run=lambda _: mine("moved"), check=lambda _: check(sight, "lake.bench.events_moved")
        ),
    ]
    about = {"events": count, "keys": count // 10, "twice": "10 %", "shuffled within": SHUFFLED}
    result = compare("events", contenders, pairs=pairs, about=about, before=before)
    cores = os.cpu_count() or 1
    result.extra["events a second and core"] = {
        name: round(count * 1.1 / statistics.median(seconds) / cores) for name, seconds in result.seconds.items()
    }
    made.close()
    spark.stop()
    return result


def write(spark: SparkSession, events: Path, folder: Path, number: int, count: int) -> None:
    """One round's events: updates, a twentieth deletes; a tenth comes twice, all shuffled."""
    first = number * count
    rows = spark.sql(
        f"SELECT if(xxhash64(lsn, 1) % 20 = 0, 'D', 'U') AS op, lsn, pmod(xxhash64(lsn), {count // 10}) AS id, "
        f"concat('n', lsn) AS name, CAST(lsn % 100000 / 7 AS decimal(12,2)) AS amount, "
        f"CAST(timestamp_micros(1700000000000000 + lsn) AS timestamp_ntz) AS changed FROM "
        f"(SELECT id + {first} AS lsn FROM range({count}))"
    )
    twice = rows.unionAll(rows.where("pmod(xxhash64(lsn, 2), 10) = 0"))
    placed = twice.selectExpr("*", f"lsn + rand(7) * {SHUFFLED} AS place").repartitionByRange(FILES, "place")
    placed.sortWithinPartitions("place").drop("place").write.mode("overwrite").parquet(str(folder))
    for file in sorted(folder.glob("part-*.parquet")):
        file.rename(events / f"{number:04}-{file.name}")


def by_hand(spark: SparkSession, events: Path, number: int) -> None:
    """The newest event of each key, merged; deleted keys stay as rows without a name, so that none comes back."""
    spark.read.parquet(str(events / f"{number:04}-*.parquet")).createOrReplaceTempView("batch")
    spark.sql(
        "MERGE INTO plain.bench.events t USING ("
        "SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY id ORDER BY lsn DESC) AS n FROM batch) WHERE n = 1"
        ") s ON t.id = s.id "
        "WHEN MATCHED AND s.lsn > t.lsn AND s.op = 'D' THEN UPDATE SET name = NULL, lsn = s.lsn "
        "WHEN MATCHED AND s.lsn > t.lsn THEN "
        "UPDATE SET name = s.name, amount = s.amount, changed = s.changed, lsn = s.lsn "
        "WHEN NOT MATCHED THEN INSERT (id, name, amount, changed, lsn) "
        "VALUES (s.id, if(s.op = 'D', NULL, s.name), s.amount, s.changed, s.lsn)"
    )


def truth(spark: SparkSession, events: Path) -> tuple[Any, ...]:
    """What all events leave, by one aggregate."""
    spark.read.parquet(str(events / "*.parquet")).createOrReplaceTempView("everything")
    last = "SELECT id, max_by(struct(op, name, amount, changed), lsn) AS e FROM everything GROUP BY id"
    return sums(spark, f"(SELECT id, e.name, e.amount, e.changed FROM ({last}) WHERE e.op <> 'D')")


def sums(spark: SparkSession, table: str) -> tuple[Any, ...]:
    """Of the rows."""
    return tuple(spark.sql(f"SELECT {SUMS} FROM {table}").collect()[0])
