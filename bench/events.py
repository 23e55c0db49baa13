"""Events of a log in files, a tenth of them twice and shuffled: strategy cdc against row_number and MERGE by hand."""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import ours, plain
from bench.rounds import Contender, Result, WrongResult, compare
from bench.source import Orders

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SHUFFLED = 1000
FILES = 4
COLUMNS = "id bigint, name string, amount decimal(12,2), changed timestamp_ntz"
SUMS = "count(*), sum(id), sum(CAST(xxhash64(id, name, amount, changed) AS decimal(20,0)))"


PLACE = (
    "struct('3.5.0.Final' AS version, 'postgresql' AS connector, 'shop' AS name, lsn DIV 1000 AS ts_ms, "
    "'false' AS snapshot, 'shop' AS db, concat('[\"', lsn, '\",\"', lsn, '\"]') AS sequence, 'public' AS schema, "
    "'orders' AS `table`, lsn DIV 10 AS txId, lsn)"
)
ROW = "struct(id, name, CAST(amount AS string) AS amount, unix_micros(CAST(changed AS timestamp)) AS changed)"
AFTER = "id: bigint, name: string, amount: string, changed: bigint"
EVENT = f"before: struct<id: bigint>, after: struct<{AFTER}>, source: struct<lsn: bigint>, op: string"


def _field(field: str, kind: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "optional": True, "field": field, **more}


_ROW = [
    _field("id", "int64"),
    _field("name", "string"),
    _field("amount", "string"),
    _field("changed", "int64", name="io.debezium.time.MicroTimestamp", version=1),
]
_TEXTS = ("version", "connector", "name", "snapshot", "db", "sequence", "schema", "table")
_PLACE = [*(_field(name, "string") for name in _TEXTS), *(_field(name, "int64") for name in ("ts_ms", "txId", "lsn"))]
_PARTS = [
    *(_field(part, "struct", fields=_ROW, name="shop.public.orders.Value") for part in ("before", "after")),
    _field("source", "struct", fields=_PLACE, name="io.debezium.connector.postgresql.Source"),
    *(_field("op", "string"), _field("ts_ms", "int64")),
]
SCHEMA = json.dumps(_field("value", "struct", fields=_PARTS), separators=(",", ":"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """How events lie in files.

    Args:
        form: the files' format.
        envelope: as the project states it.
        encoded: what makes a file's row of an event.
        decoded: the select lists, one over the other, that make the event of it again, as one writes it by hand.
    """

    name: str
    form: str
    envelope: Mapping[str, Any]
    encoded: str
    decoded: tuple[tuple[str, ...], ...]

    @property
    def spark(self) -> str:
        """The format as Spark reads and writes it: JSON is made and parsed here, line by line."""
        return "text" if self.form == "json" else self.form


ROWS = Written(
    name="events",
    form="parquet",
    envelope={"kind": "rows", "operation": "op", "sequence": ["lsn"]},
    encoded="*",
    decoded=(("*",),),
)
DEBEZIUM = Written(
    name="debezium",
    form="json",
    envelope={
        "kind": "debezium",
        "columns": {
            "id": "bigint",
            "name": "text",
            "amount": "decimal(12,2) as string",
            "changed": "timestamp as MicroTimestamp",
        },
    },
    encoded=f"to_json(struct(struct(id) AS before, if(op = 'D', NULL, {ROW}) AS after, {PLACE} AS source, "
    "lower(op) AS op, lsn DIV 1000 AS ts_ms)) AS value",
    decoded=(
        (f"from_json(value, 'struct<{EVENT}>') AS e",),
        (
            "upper(e.op) AS op",
            "e.source.lsn AS lsn",
            "coalesce(e.after.id, e.before.id) AS id",
            "e.after.name AS name",
            "CAST(e.after.amount AS decimal(12,2)) AS amount",
            "CAST(timestamp_micros(e.after.changed) AS timestamp_ntz) AS changed",
        ),
    ),
)


_PAYLOAD = DEBEZIUM.encoded.removesuffix(" AS value")
CONNECT = replace(
    DEBEZIUM,
    name="connect",
    envelope={"kind": "debezium", "columns": {"amount": "decimal(12,2)"}},
    encoded=f"""concat('{{"schema":{SCHEMA},"payload":', {_PAYLOAD}, '}}') AS value""",
    decoded=(
        (f"from_json(value, 'struct<payload: struct<{EVENT}>>').payload AS e",),
        *DEBEZIUM.decoded[1:],
    ),
)


def stream(events: Path, target: str, verify: str, written: Written) -> dict[str, Any]:
    """The stream of the log."""
    return {
        "source": {"path": str(events / f"*.{written.form}"), "envelope": dict(written.envelope)},
        "target": f"lake.bench.{target}",
        "key": ["id"],
        "strategy": {"kind": "cdc", "max_events": 100_000_000},
        "write": "merge",
        "verify": verify,
    }


def rows(orders: Orders, work: Path, pairs: int) -> Result:
    """Plain rows with an operation and a number, in Parquet."""
    return _run(orders, work, pairs, ROWS)


def debezium(orders: Orders, work: Path, pairs: int) -> Result:
    """Debezium's events in JSON, without schemas."""
    return _run(orders, work, pairs, DEBEZIUM)


def connect(orders: Orders, work: Path, pairs: int) -> Result:
    """The same with Kafka Connect's schema in each."""
    return _run(orders, work, pairs, CONNECT)


def _run(orders: Orders, work: Path, pairs: int, written: Written) -> Result:
    """As many events as a fifth of the table's rows come before every round, of a tenth as many keys."""
    spark = plain.session(work)
    events, count = work / "events", max(orders.rows // 5, 10 * SHUFFLED)
    events.mkdir(parents=True)
    streams = {name: stream(events, f"events_{name}", name, written) for name in ("none", "moved")}
    made = ours.borrowed({"connections": {}, "streams": streams}, work / "ours", spark)
    sight = ours.catalogs(made, spark)
    spark.sql(
        f"CREATE TABLE plain.bench.events ({COLUMNS}, lsn bigint) USING iceberg TBLPROPERTIES ('format-version' = '2')"
    )

    def before(number: int) -> None:
        write(spark, events, number, count, written)

    def mine(verify: str) -> None:
        (outcome,) = made.run(verify).streams
        if outcome.error is not None:
            raise WrongResult(f"tidegate: {outcome}")

    def check(session: SparkSession, table: str) -> None:
        found, wanted = sums(session, table), truth(spark, events, written)
        if found != wanted:
            raise WrongResult(f"{table} holds {found}, the events leave {wanted}")

    contenders = [
        Contender(name="tidegate", run=lambda _: mine("none"), check=lambda _: check(sight, "lake.bench.events_none")),
        Contender(
            name="row_number and MERGE",
            run=lambda number: by_hand(spark, events, number, written),
            check=lambda _: check(spark, "(SELECT * FROM plain.bench.events WHERE name IS NOT NULL)"),
            goal=1,
        ),
        Contender(
            name="verify: moved", run=lambda _: mine("moved"), check=lambda _: check(sight, "lake.bench.events_moved")
        ),
    ]
    about = {"events": count, "keys": count // 10, "twice": "10 %", "shuffled within": SHUFFLED}
    result = compare(written.name, contenders, pairs=pairs, about=about, before=before)
    cores = os.cpu_count() or 1
    result.extra["events a second and core"] = {
        name: round(count * 1.1 / statistics.median(seconds) / cores) for name, seconds in result.seconds.items()
    }
    made.close()
    spark.stop()
    return result


def write(spark: SparkSession, events: Path, number: int, count: int, written: Written) -> None:
    """One round's events: updates, a twentieth deletes; a tenth comes twice, all shuffled."""
    first, folder = number * count, events.with_name("written")
    rows = spark.sql(
        f"SELECT if(xxhash64(lsn, 1) % 20 = 0, 'D', 'U') AS op, lsn, pmod(xxhash64(lsn), {count // 10}) AS id, "
        f"concat('n', lsn) AS name, CAST(lsn % 100000 / 7 AS decimal(12,2)) AS amount, "
        f"CAST(timestamp_micros(1700000000000000 + lsn) AS timestamp_ntz) AS changed FROM "
        f"(SELECT id + {first} AS lsn FROM range({count}))"
    )
    twice = rows.unionAll(rows.where("pmod(xxhash64(lsn, 2), 10) = 0"))
    placed = twice.selectExpr("*", f"lsn + rand(7) * {SHUFFLED} AS place").repartitionByRange(FILES, "place")
    sorted_rows = placed.sortWithinPartitions("place").drop("place").selectExpr(written.encoded)
    sorted_rows.write.mode("overwrite").format(written.spark).save(str(folder))
    for file in sorted(folder.glob("part-*")):
        file.rename(events / f"{number:04}-{file.stem}.{written.form}")


def read(spark: SparkSession, events: Path, files: str, written: Written) -> DataFrame:
    """Events as columns, as one writes it by hand."""
    found = spark.read.format(written.spark).load(f"{events}/{files}")
    for step in written.decoded:
        found = found.selectExpr(*step)
    return found


def by_hand(spark: SparkSession, events: Path, number: int, written: Written) -> None:
    """The newest event of each key, merged; deleted keys stay as rows without a name, so that none comes back."""
    read(spark, events, f"{number:04}-*.{written.form}", written).createOrReplaceTempView("batch")
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


def truth(spark: SparkSession, events: Path, written: Written) -> tuple[Any, ...]:
    """What all events leave, by one aggregate."""
    read(spark, events, f"*.{written.form}", written).createOrReplaceTempView("everything")
    last = "SELECT id, max_by(struct(op, name, amount, changed), lsn) AS e FROM everything GROUP BY id"
    return sums(spark, f"(SELECT id, e.name, e.amount, e.changed FROM ({last}) WHERE e.op <> 'D')")


def sums(spark: SparkSession, table: str) -> tuple[Any, ...]:
    """Of the rows."""
    return tuple(spark.sql(f"SELECT {SUMS} FROM {table}").collect()[0])
