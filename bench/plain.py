"""Decides what plain Spark does for the same job: written by hand, as well as one can.

Called by the benchmarks. Must never use anything of the product but the cache of jars.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from bench.source import COLUMNS, Orders
from tidegate.spark import jars
from tidegate.spark.session import CLASSES, local_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FETCH = "20000"


def conf(warehouse: Path) -> dict[str, str]:
    """Settings of a Spark with the catalog `plain`, its jars on the class path."""
    files = jars.resolve([jars.ICEBERG, jars.LOCAL_FILES, jars.POSTGRESQL, jars.SQLITE])
    return {
        "spark.master": "local[*]",
        "spark.driver.memory": "2g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.session.timeZone": "UTC",
        # As in a Spark of Tidegate: the contenders of a round would drive out each other's classes, and small files
        # would be written faster by one than by the other.
        "spark.sql.codegen.cache.maxEntries": CLASSES,
        **local_files("spark.sql.catalog.plain"),
        **local_files("spark.sql.catalog.lake"),
        "spark.driver.extraJavaOptions": "-Duser.timezone=UTC",
        "spark.driver.extraClassPath": os.pathsep.join(str(file) for file in files),
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.plain": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.plain.type": "jdbc",
        "spark.sql.catalog.plain.uri": f"jdbc:sqlite:{warehouse / 'plain.db'}",
        "spark.sql.catalog.plain.jdbc.schema-version": "V1",
        "spark.sql.catalog.plain.warehouse": str(warehouse / "plain"),
    }


def session(warehouse: Path) -> SparkSession:
    """A session with the catalog `plain`."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - only benchmarks that need it pay for it

    warehouse.mkdir(parents=True, exist_ok=True)
    builder = SparkSession.builder.appName("bench")
    for key, value in conf(warehouse).items():
        builder = builder.config(key, value)
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    made.sql("CREATE NAMESPACE IF NOT EXISTS plain.bench")
    return made


def read(spark: SparkSession, orders: Orders, parts: int, where: str = "true", table: str = "orders") -> DataFrame:
    """All columns over JDBC, cut into `parts` equal ranges of the key."""
    step = -(-orders.rows // parts)
    ranges = [f"({where}) AND id > {n * step} AND id <= {(n + 1) * step}" for n in range(parts)]
    options = {"driver": "org.postgresql.Driver", "fetchsize": FETCH}
    return spark.read.jdbc(orders.jdbc, table, predicates=ranges, properties=options)


def reload(spark: SparkSession, orders: Orders, table: str, parts: int) -> None:
    """Everything again."""
    writer = read(spark, orders, parts).writeTo(table).using("iceberg").tableProperty("format-version", "2")
    for operation in ("merge", "update", "delete"):
        writer = writer.tableProperty(f"write.{operation}.mode", "merge-on-read")
    writer.createOrReplace()


def merge(spark: SparkSession, orders: Orders, table: str, since: str) -> None:
    """What is newer than `since`, merged by key."""
    changed = read(spark, orders, 1, f"updated_at > timestamptz '{since}'")
    changed.createOrReplaceTempView("changed")
    updates = ", ".join(f"t.{column} = s.{column}" for column in COLUMNS)
    values = ", ".join(f"s.{column}" for column in COLUMNS)
    spark.sql(
        f"MERGE INTO {table} t USING changed s ON t.id = s.id WHEN MATCHED THEN UPDATE SET {updates} "
        f"WHEN NOT MATCHED THEN INSERT ({', '.join(COLUMNS)}) VALUES ({values})"
    )
