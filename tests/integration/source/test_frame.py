"""Rows that only Spark can look at answer every question as SQLite answers it for the same rows."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from copy import copy
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from tidegate.core.batch import Latest
from tidegate.core.bounds import SequenceBound, TimeBound
from tidegate.core.bucketing import Buckets
from tidegate.core.grouping import Period, Periods, Prefixes, Steps, Whole
from tidegate.core.ids import Connection
from tidegate.core.ports.source import Probe
from tidegate.core.schema import INT, TEXT, TIMESTAMP, TIMESTAMPTZ, Column, array
from tidegate.core.slices import Everything, Keys, Partition, Range, SnapshotPair
from tidegate.dialects.spark import Spark
from tidegate.errors import ColumnMissing, ConfigError, InternalError, SourceError
from tidegate.sources.database import Database
from tidegate.sources.shared.frame_probe import Frame, FrameProbe, LazySpark
from tidegate.spark.session import Sessions

pytestmark = pytest.mark.spark

ROWS = [
    (1, 7, "ab|c", "1.50", "2025-01-01 10:00:00.000001", 1),
    (2, 7, "~N", None, "2025-01-01 23:59:59.999999", 0),
    (3, None, None, "-2.25", "2025-02-01 00:00:00.000000", None),
    (-4, 105, "abd", "0.00", None, 1),
    (5, 7, "ü🐘", "12345.67", "2025-02-03 00:00:00.000000", 0),
    (5, 7, "ü🐘", "12345.67", "2025-02-03 00:00:00.000000", 0),
    (6, 200, "", "3.00", "2025-02-03 00:00:00.000000", 1),
]
NAMES = ("id", "shop", "name", "amount", "changed_at", "paid")
AFTER = "2025-01-01 10:00:00.000001"
WINDOW = Range(cursor=("changed_at",), after=AFTER, upto="2025-02-02 00:00:00.000000")
SLICES = [
    Everything(),
    WINDOW,
    replace(WINDOW, nulls=True),
    Range(cursor=("changed_at", "changed_at"), after=None, upto=AFTER),
    Partition(column="shop", label="0", low="0", high="100"),
    Partition(column="shop", label="~N"),
    Partition(column="name", label="ab", prefix="ab", length=2),
    Keys(columns=("id", "shop"), values=(("5", "7"), ("6", "200"))),
    Keys(columns=("id",), values=()),
]


@pytest.fixture(scope="module")
def database(tmp_path_factory) -> Database:
    path = tmp_path_factory.mktemp("frame") / "rows.db"
    with sqlite3.connect(path) as connection:
        kinds = ("bigint", "int", "text", "text", "timestamp", "boolean")
        connection.execute(f"CREATE TABLE t ({', '.join(map(' '.join, zip(NAMES, kinds, strict=True)))})")
        connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?)", ROWS)
    connection.close()
    there = Connection(name="file", url=f"sqlite:///{path}")
    return Database(connection=there, table="t", columns={"amount": "decimal(12,2)"})


@pytest.fixture(scope="module")
def oracle(database: Database) -> Iterator[Probe]:
    with database.probe() as probe:
        yield probe


@pytest.fixture(scope="module")
def probe(database: Database, oracle: Probe, spark, tmp_path_factory) -> Iterator[FrameProbe]:
    folder = str(tmp_path_factory.mktemp("frame") / "rows")
    database.read(spark, oracle, [Everything()], oracle.schema()).write.parquet(folder)
    lazy = LazySpark(Sessions(borrowed=spark))
    frame = Frame(label="rows", identity="r", schema=oracle.schema, rows=lambda session: session.read.parquet(folder))
    yield FrameProbe(frame, lazy)
    lazy.close()


def test_every_answer_is_that_of_a_database(probe, oracle):
    for part in SLICES:
        mine, theirs = ((side.fingerprint(part), side.count(part), side.stats(part)) for side in (probe, oracle))
        assert mine[:2] == theirs[:2], part.label
        assert [(stats.rows, stats.last, stats.later) for stats in (mine[2],)] == [
            (stats.rows, stats.last, stats.later) for stats in (theirs[2],)
        ], part.label
    rule = Latest(key=("shop",), order=("changed_at", "id"))
    assert probe.fingerprint(Everything(), latest=rule) == oracle.fingerprint(Everything(), latest=rule)
    assert probe.count(WINDOW, latest=rule) == oracle.count(WINDOW, latest=rule)
    for column in ("id", "changed_at", "name"):
        assert probe.key_bounds(Everything(), column) == oracle.key_bounds(Everything(), column)
    assert probe.key_bounds(Everything(), "paid") is None
    assert probe.key_bounds(Keys(columns=("id",), values=(("99",),)), "id") is None


def test_partitions_are_the_same(probe, oracle):
    for grouping in (
        Whole(),
        Steps(column="id", width=3),
        Periods(column="changed_at", period=Period.MONTH),
        Prefixes(column="name", length=2),
    ):
        found = probe.partitions(grouping)
        assert found == oracle.partitions(grouping)
        some = sorted(found, key=lambda part: part.label)[:1]
        assert probe.partitions(grouping, only=some) == oracle.partitions(grouping, only=some)
        assert set(probe.quick_hashes(grouping)) == set(found)
    fence = Partition(column="changed_at", label="from", low="2025-02-01 00:00:00.000000")
    days = Periods(column="changed_at", period=Period.DAY)
    assert probe.partitions(days, since=fence) == oracle.partitions(days, since=fence)


def test_buckets_and_their_rows_are_the_same(probe, oracle):
    for key in (("id",), ("id", "shop"), ()):
        found = probe.spread(Everything(), key, Buckets(count=4))
        assert found == oracle.spread(Everything(), key, Buckets(count=4))
        within = Buckets(count=8, within=tuple(found)[:2], among=4)
        assert probe.spread(WINDOW, key, within) == oracle.spread(WINDOW, key, within)
        mine, theirs = (sorted(map(repr, side.digests(WINDOW, key, within))) for side in (probe, oracle))
        assert mine == theirs


def test_the_edge_is_the_greatest_value(probe):
    def upto(bound) -> str | None:
        asked = copy(probe)  # a probe is opened with one bound
        asked.bound = bound
        return asked.edge().upto

    assert upto(TimeBound(column="changed_at")) == "2025-02-03 00:00:00.000000"
    assert upto(TimeBound(column="changed_at", lag=timedelta(microseconds=1))) == "2025-02-02 23:59:59.999999"
    assert upto(SequenceBound(column="id")) == "6"
    with pytest.raises(ConfigError, match="needs an integer"):
        upto(SequenceBound(column="name"))
    with pytest.raises(ConfigError, match="needs a date or a timestamp"):
        upto(TimeBound(column="id"))
    with pytest.raises(ColumnMissing, match="rows has no column 'nowhere'"):
        upto(TimeBound(column="nowhere"))


def test_what_is_known_starts_nothing(oracle):
    def refuse(_):
        raise AssertionError("Spark was asked")

    frame = Frame(
        label="rows",
        identity="r",
        schema=oracle.schema,
        rows=refuse,
        version="3",
        clock=9,
        count=7,
        verify_unchanged=lambda: None,
    )
    probe = FrameProbe(frame, LazySpark(None))
    assert (probe.identity(), probe.version(), probe.clock(), probe.unique(("id",))) == ("r", "3", 9, False)
    assert probe.stats(Everything()).rows == 7
    assert "`shop` >= 0L" in probe.condition(SLICES[4])
    assert probe.has_snapshot()
    with pytest.raises(InternalError, match="without Spark"):
        probe.count(Everything())
    with pytest.raises(InternalError, match="has no versions"):
        probe.condition(SnapshotPair(after="1", upto="2"))


def test_rows_that_cannot_be_read_are_an_error_of_the_source(oracle, spark, tmp_path: Path):
    lazy = LazySpark(Sessions(borrowed=spark))
    gone = str(tmp_path / "gone")
    frame = Frame(label="rows", identity="r", schema=oracle.schema, rows=lambda session: session.read.parquet(gone))
    with pytest.raises(SourceError, match="while reading rows"):
        FrameProbe(frame, lazy).count(Everything())
    lazy.close()


def test_a_value_that_moves_to_its_neighbour_is_another_hash(spark):
    columns = [Column(name="a", type=TEXT), Column(name="b", type=TEXT), Column(name="c", type=array(INT))]
    rows = [("x", None, [1]), (None, "x", [1]), ("x", None, [1, None]), ("x", None, [None, 1]), ("x", None, None)]
    frame = spark.createDataFrame(rows, "a string, b string, c array<int>")
    assert frame.selectExpr(Spark().row_hash(columns)).distinct().count() == len(rows)
    for kind in (TIMESTAMP, TIMESTAMPTZ):  # a microsecond apart
        texts = "array(), array(null), array('2025-01-01 00:00:00'), array('2025-01-01 00:00:00.000001')"
        frame = spark.sql(f"SELECT CAST(at AS array<{kind.spark}>) AS at FROM (SELECT explode(array({texts})) AS at)")
        hashed = frame.selectExpr(Spark().row_hash([Column(name="at", type=array(kind))]))
        assert hashed.distinct().count() == 4
