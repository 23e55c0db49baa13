"""Few new rows in a big lake table: its feed against a full compare, and finding nothing against asking Spark."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import ours, plain
from bench.rounds import Contender, Result, WrongResult, compare
from bench.source import COLUMNS, Orders, spark_sums

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ADDED = 10_000
SOURCE = "lake.raw.orders"
# What one writes to ask Spark whether the table has moved on; told without the start of Python and its imports.
SCRIPT = """
import sys, time
from pathlib import Path
began = time.monotonic()
from bench import plain
spark = plain.session(Path(sys.argv[1]))
for pair in sys.argv[3:]:
    spark.conf.set(*pair.split("=", 1))
rows = spark.sql(f"SELECT snapshot_id FROM {sys.argv[2]}.snapshots ORDER BY committed_at DESC LIMIT 1").collect()
print(rows[0][0], time.monotonic() - began)
spark.stop()
"""


def stream(strategy: str) -> dict[str, Any]:
    """A stream from the lake table into one of its own."""
    return {
        "source": {"iceberg": SOURCE},
        "target": f"lake.bench.{strategy}",
        "key": ["id"],
        "strategy": strategy,
        "write": "merge",
    }


def run(orders: Orders, work: Path, pairs: int) -> Result:
    """10,000 rows are appended before every round; then nothing is, and cold processes look."""
    spark = plain.session(work)
    values = ours.project(orders, {kind: stream(kind) for kind in ("table_changes", "snapshot_diff")})
    folder = ours.write(values, work / "ours")
    made = ours.borrowed(values, folder, spark)
    sight = ours.catalogs(made, spark)
    fill(folder, sight, spark, orders)
    for kind in ("table_changes", "snapshot_diff"):
        ours.load(made, kind, orders.rows)

    def before(number: int) -> None:
        append(sight, orders.rows + number * ADDED)

    def load(kind: str) -> None:
        (outcome,) = made.run(kind).streams
        if outcome.error is not None or outcome.rows_inserted != ADDED:
            raise WrongResult(f"tidegate: {outcome}")

    def check(kind: str) -> None:
        ours.must_equal(sight, f"lake.bench.{kind}", spark_sums(sight, SOURCE))

    contenders = [
        Contender(name="feed", run=lambda _: load("table_changes"), check=lambda _: check("table_changes")),
        Contender(
            name="full compare",
            run=lambda _: load("snapshot_diff"),
            check=lambda _: check("snapshot_diff"),
            goal=10,
        ),
    ]
    about = {"rows": orders.rows, "added": ADDED, "verify": "moved"}
    result = compare("feeds", contenders, pairs=pairs, about=about, before=before)
    conf = [f"{key}={value}" for key, value in made.lakes["lake"].spark_conf().items() if "extensions" not in key]
    made.close()
    spark.stop()
    shares = [_unchanged(folder) / _asked(work, conf) for _ in range(pairs)]
    result.extra["finding nothing, of the time that asking Spark takes"] = [round(share, 3) for share in shares]
    result.too_much = sorted(shares)[len(shares) // 2] > 1 / 10
    return result


def fill(folder: Path, sight: SparkSession, spark: SparkSession, orders: Orders) -> None:
    """The source: all rows of the database."""
    (folder / ".tidegate").mkdir(exist_ok=True)  # for the catalog's file, which no load of the project has made yet
    plain.reload(spark, orders, "plain.bench.source", 4)
    sight.sql("CREATE NAMESPACE IF NOT EXISTS lake.raw")
    sight.sql(f"CREATE TABLE {SOURCE} USING iceberg AS SELECT * FROM plain.bench.source")


def append(sight: SparkSession, above: int) -> None:
    """Rows like those that are there, with keys above them."""
    others = ", ".join(column for column in COLUMNS if column != "id")
    sight.sql(f"INSERT INTO {SOURCE} SELECT id + {above}, {others} FROM plain.bench.source WHERE id <= {ADDED}")


def _unchanged(folder: Path) -> float:
    command = [*ours.command(folder)[:4], "table_changes", *ours.command(folder)[4:]]
    began = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    spent = time.monotonic() - began
    outcome = ours.document(done.stdout)
    if outcome["outcome"] != "unchanged" or outcome["spark_started"]:
        raise WrongResult(f"tidegate: {outcome}")
    return spent


def _asked(work: Path, conf: list[str]) -> float:
    command = [sys.executable, "-c", SCRIPT, str(work), SOURCE, *conf]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode:
        raise WrongResult(f"plain PySpark: {done.stderr[-2000:]}")
    return float(done.stdout.split()[-1])
