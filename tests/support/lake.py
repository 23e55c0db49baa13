"""A Spark session and lakes for tests, and PyIceberg and delta-rs as the independent readers.

Asked for by every test marked `spark`. Must never leave a JVM behind, nor share a table between two tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tidegate.core.ids import Target
from tidegate.dialects.duckdb import Duckdb
from tidegate.dialects.mariadb import Mariadb
from tidegate.dialects.trino import Trino
from tidegate.formats.delta import Delta
from tidegate.formats.delta.ddl import by_path
from tidegate.formats.iceberg import Iceberg
from tidegate.sources.change_log.topic.log import JARS as KAFKA
from tidegate.sources.files.source import AVRO
from tidegate.spark import jars, sql
from tidegate.spark.session import Sessions, local_files
from tidegate.testing import FormatBench

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXTENSIONS = {
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
    ",io.delta.sql.DeltaSparkSessionExtension"
}
DRIVERS = [*Duckdb.jars, *Mariadb.jars, *Trino.jars]
JARS = [jars.ICEBERG, jars.SQLITE, jars.POSTGRESQL, jars.DELTA, jars.DELTA_STORAGE]
# Two cores, another such process beside it, and more code than is ever hot: what C2 compiles of it takes more time than
# it saves, and drives other code out of a smaller cache.
JAVA = ("-XX:+UseParallelGC", "-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=512m")
# Loads of a few rows each: what Spark plans and compiles for more would take most of the time.
QUICK = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.databricks.delta.snapshotPartitions": "1",
}


@dataclass(kw_only=True)
class Lake(FormatBench):
    """A lake of one test: its format, a session as loads get it, and tables made in it."""

    format: Iceberg | Delta
    folder: Path

    def oracle(self, target: Target) -> list[dict[str, Any]]:
        """The visible rows, sorted, as PyIceberg or delta-rs reads them."""
        if isinstance(self.format, Delta):
            rows = delta_rows(self.format._location(target))
        else:
            table = self.format._where.table(target)
            assert table is not None
            rows = table.scan().to_arrow().to_pylist()
        return sorted(rows, key=lambda row: [(value is None, str(value)) for value in row.values()])

    def insert(self, target: Target, *values: Any) -> None:
        literals = ", ".join("NULL" if value is None else repr(value) for value in values)
        self.session.sql(f"INSERT INTO {self.sql_name(target)} VALUES ({literals})")

    def alter(self, target: Target) -> None:
        table = f"ALTER TABLE {self.sql_name(target)}"
        self.session.sql(f"{table} SET TBLPROPERTIES ('comment.of' = 'somebody')")
        self.session.sql(f"{table} ADD COLUMN later string")

    def compact(self, target: Target) -> None:
        if isinstance(self.format, Delta):
            self.session.sql(f"OPTIMIZE {self.sql_name(target)}").collect()
            return
        call = f"CALL {sql.quote(target.lake)}.system.rewrite_data_files"
        name = sql.string(sql.table(target))
        self.session.sql(f"{call}(table => {name}, options => map('rewrite-all', 'true'))").collect()

    def sql_name(self, target: Target) -> str:
        """The table in a statement of somebody else."""
        return by_path(self.format._location(target)) if isinstance(self.format, Delta) else sql.table(target)


def delta_rows(location: str) -> list[dict[str, Any]]:
    """What delta-rs reads of a table, deletion vectors applied."""
    import pyarrow as pa
    from deltalake import DeltaTable, QueryBuilder

    found = QueryBuilder().register("t", DeltaTable(location)).execute("SELECT * FROM t").read_all()
    rows: list[dict[str, Any]] = pa.table(found).to_pylist()
    return rows


def make_lake(
    folder: Path,
    session_of: Callable[[Iceberg], SparkSession],
    *,
    catalog: Mapping[str, Any] | None = None,
    name: str = "lake",
    warehouse: str | None = "./warehouse",
) -> Lake:
    """A lake in a folder of its own; `session_of` gives a load's session from the lake's settings."""
    lake = Iceberg(name=name, warehouse=warehouse, catalog=catalog or {"type": "sqlite"}, folder=folder)
    return Lake(format=lake, session=session_of(lake), lake=name, folder=folder)


def make_delta_lake(folder: Path, session_of: Callable[[Delta], SparkSession], **options: Any) -> Lake:
    """Delta tables in a folder of their own."""
    lake = Delta(name="lake", folder=folder, **options)
    session = session_of(lake)
    for name, value in QUICK.items():
        session.conf.set(name, value)
    return Lake(format=lake, session=session, folder=folder)


@contextmanager
def spark_session() -> Iterator[SparkSession]:
    """A classic session, as a caller might bring it: two cores, 2 GB, the formats' extensions, no lake."""
    with Sessions(
        master="local[2]",
        conf={
            "spark.driver.memory": "2g",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",  # VACUUM lists folders by as many tasks
            "spark.ui.enabled": "false",
            "spark.driver.extraJavaOptions": " ".join(JAVA),
            **local_files("spark.sql.catalog.lake"),
        },
        lakes=[EXTENSIONS],
        jars=[*JARS, *DRIVERS, jars.LOCAL_FILES, AVRO, *KAFKA],
    ) as sessions:
        sessions.load_session()
        assert sessions._built is not None
        yield sessions._built


def with_driver(session: SparkSession, *coordinates: str) -> None:
    """Gives a session that is there a driver more, which only this thread finds."""
    for jar in jars.resolve(coordinates):
        session.sql(f"ADD JAR '{jar}'")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The session of all tests."""
    with spark_session() as session:
        yield session


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Lake:
    """An embedded catalog and a warehouse of the test's own."""
    return make_lake(tmp_path, lambda lake: Sessions(borrowed=spark, lakes=[lake.spark_conf()]).load_session())
