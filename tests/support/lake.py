"""A Spark session and lakes for tests, and PyIceberg and delta-rs as the independent readers.

Asked for by every test marked `spark`. Must never leave a JVM behind, nor share a table between two tests.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tidegate.core.changes import ChangeSet
from tidegate.core.effects import Upsert
from tidegate.core.ids import Target, new_load_id
from tidegate.core.plan import LoadPlan, Mode, WriteChoice
from tidegate.core.ports.format import Layout
from tidegate.core.position import Position
from tidegate.core.schema import BIGINT, TEXT, TIMESTAMP, Column, Schema
from tidegate.core.slices import Everything
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

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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
UID = "0123456789abcdef"
ROWS = Schema(
    columns=(
        Column(name="id", type=BIGINT),
        Column(name="name", type=TEXT),
        Column(name="changed_at", type=TIMESTAMP),
    )
)


@dataclass(kw_only=True)
class Lake:
    """A lake of one test: its format, a session as loads get it, and tables made in it."""

    format: Iceberg | Delta
    session: SparkSession
    folder: Path
    namespace: tuple[str, ...] = ("shop",)
    _names: Iterator[int] = field(default_factory=itertools.count)

    def target(self, name: str | None = None) -> Target:
        """A table that nobody has used."""
        return Target(lake=self.format.name, namespace=self.namespace, table=name or f"t{next(self._names)}")

    def table(self, schema: Schema = ROWS, layout: Layout | None = None, **named: Any) -> Target:
        """A new, empty table."""
        target = self.target(**named)
        self.format.create(self.session, target, schema, layout or Layout())
        return target

    def plan(self, target: Target, mode: Mode, *, uid: str = UID, **changes: Any) -> LoadPlan:
        """A plan on the table as it stands."""
        state = self.format.state(target, uid)
        load_id = new_load_id()
        sequence = state.position.sequence + 1 if state.position else 1
        plan = LoadPlan(
            load_id=load_id,
            stream="orders",
            uid=uid,
            target=str(target),
            created_at=datetime.now(UTC),
            base=state.snapshot,
            since=state.position,
            position=Position(sequence=sequence, load_id=load_id, kind="test", state={"upto": str(sequence)}),
            changes=ChangeSet(slices=(Everything(),), effect=Upsert()),
            columns=ROWS,
            key=("id",),
            write=WriteChoice(mode=mode, reason="the test says so"),
        )
        return replace(plan, **changes)

    def rows(self, *rows: Sequence[Any], schema: Schema = ROWS) -> DataFrame:
        """Rows as a source would give them; times as text."""
        ddl = ", ".join(f"{sql.quote(column.name)} {column.type.spark}" for column in schema)
        values = [
            tuple(
                datetime.fromisoformat(value) if column.type == TIMESTAMP and value else value
                for value, column in zip(row, schema, strict=True)
            )
            for row in rows
        ]
        return self.session.createDataFrame(values, ddl)

    def load(self, target: Target, mode: Mode, *rows: Sequence[Any], uid: str = UID) -> LoadPlan:
        """One whole load, published."""
        plan = self.plan(target, mode, uid=uid)
        staging = self.format.stage(self.session, target, plan)
        put(staging, self.rows(*rows), mode)
        staging.publish()
        return plan

    def oracle(self, target: Target) -> list[dict[str, Any]]:
        """The visible rows, sorted, as PyIceberg or delta-rs reads them."""
        if isinstance(self.format, Delta):
            rows = delta_rows(self.format._location(target))
        else:
            table = self.format._where.table(target)
            assert table is not None
            rows = table.scan().to_arrow().to_pylist()
        return sorted(rows, key=lambda row: [(value is None, str(value)) for value in row.values()])

    def ids(self, target: Target) -> list[int]:
        """The visible ids, with multiplicity, as PyIceberg or delta-rs reads them."""
        return sorted(row["id"] for row in self.oracle(target))

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


def put(staging: Any, rows: DataFrame, mode: Mode) -> None:
    """Writes the rows in that mode."""
    if mode is Mode.APPEND:
        staging.append(rows)
    elif mode is Mode.OVERWRITE:
        staging.overwrite(rows)
    else:
        staging.merge(rows, prune=(), skip_equal=False)


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
    return Lake(format=lake, session=session_of(lake), folder=folder)


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


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The session of all tests."""
    with spark_session() as session:
        yield session


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Lake:
    """An embedded catalog and a warehouse of the test's own."""
    return make_lake(tmp_path, lambda lake: Sessions(borrowed=spark, lakes=[lake.spark_conf()]).load_session())
