"""The tg1 vectors on every engine, and the way of their rows from the databases through Spark."""

from __future__ import annotations

import sqlite3
from hashlib import md5
from pathlib import Path

import psycopg
import pytest

from integration.source import vectors
from tidegate.core.fingerprint import Fingerprint
from tidegate.core.ids import Connection
from tidegate.core.schema import TEXT, Column
from tidegate.core.slices import Everything
from tidegate.dialects.spark import Spark
from tidegate.sources.database import Database
from tidegate.spark import dataframe_ops


def sqlite_source(folder: Path) -> Database:
    """The vectors in a file."""
    file = folder / "vectors.db"
    with sqlite3.connect(file) as connection:
        connection.execute(vectors.SQLITE)
        connection.executemany("INSERT INTO vectors VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", vectors.sqlite_rows())
    connection.close()
    there = Connection(name="file", url=f"sqlite:///{file}")
    return Database(connection=there, table="vectors", columns=vectors.SQLITE_COLUMNS)


def postgresql_source(url: str) -> Database:
    """The vectors in a table."""
    with psycopg.connect(url) as connection:
        connection.execute(vectors.POSTGRESQL)
        for row in vectors.postgresql_rows():
            connection.execute("INSERT INTO vectors VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)", row)
    return Database(connection=Connection(name="server", url=url), table="public.vectors")


def in_source(source: Database) -> Fingerprint:
    """As the database itself computes it."""
    with source.probe() as probe:
        return probe.fingerprint(Everything())


def in_spark(source: Database, spark, zone: str) -> tuple[Fingerprint, list[str]]:
    """Fingerprint and row texts of what arrives in Spark."""
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        with source.probe() as probe:
            columns = probe.schema().columns
            rows = source.read(spark, probe, [Everything()], probe.schema())
            assert [field.simpleString() for field in rows.schema.fields] == [
                f"{column.name}:{column.type.spark}" for column in columns
            ]
            rows.createOrReplaceTempView("vectors")
            sums = spark.sql(Spark().fingerprint("vectors", columns)).collect()[0]
            texts = [row[0] for row in spark.sql(f"SELECT {Spark().row(columns)} FROM vectors").collect()]
            return Fingerprint.of_sums(list(sums)), sorted(texts)
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def test_sqlite(tmp_path: Path) -> None:
    assert in_source(sqlite_source(tmp_path)) == vectors.FINGERPRINT


def test_casts_on_sqlite(tmp_path: Path) -> None:
    vectors.check_casts(sqlite_source(tmp_path))


@pytest.mark.postgres
def test_casts_on_postgresql(pg_url: str) -> None:
    vectors.check_casts(postgresql_source(pg_url))


@pytest.mark.spark
@pytest.mark.parametrize("zone", ["America/New_York", "UTC"])
@pytest.mark.parametrize(("types", "texts"), vectors.CASTS, ids=["text", "more"])
def test_casts_to_spark(tmp_path: Path, spark, zone: str, types, texts) -> None:
    source = vectors.cast(sqlite_source(tmp_path), types)
    assert in_spark(source, spark, zone) == (Fingerprint.of_texts(texts), sorted(texts))


@pytest.mark.postgres
@pytest.mark.parametrize("settings", ["", "SET timezone = 'America/New_York'; SET datestyle = 'SQL, DMY'"])
def test_postgresql(pg_url: str, settings: str) -> None:
    source = postgresql_source(pg_url)
    with source.probe() as probe:
        if settings:
            probe.session.rows(settings)
        assert probe.fingerprint(Everything()) == vectors.FINGERPRINT


@pytest.mark.spark
@pytest.mark.parametrize("zone", ["America/New_York", "UTC"])
def test_sqlite_to_spark(tmp_path: Path, spark, zone: str) -> None:
    assert in_spark(sqlite_source(tmp_path), spark, zone) == (vectors.FINGERPRINT, sorted(vectors.TEXTS))


@pytest.mark.spark
@pytest.mark.postgres
@pytest.mark.parametrize("zone", ["America/New_York", "UTC"])
def test_postgresql_to_spark(pg_url: str, spark, zone: str) -> None:
    assert in_spark(postgresql_source(pg_url), spark, zone) == (vectors.FINGERPRINT, sorted(vectors.TEXTS))


@pytest.mark.spark
@pytest.mark.parametrize("compiled", ["true", "false"])
def test_spark_reads_every_digest_as_four_numbers(spark, compiled: str) -> None:
    """Each row is a bucket of its own, so that no sum hides a number that is wrong."""
    texts = [f"{number}" for number in range(20_000)]
    rows = spark.createDataFrame([(text,) for text in texts], "name string")
    spark.conf.set("spark.sql.codegen.wholeStage", compiled)
    try:
        found = dataframe_ops.partitions(rows, by="name", steps=Spark().steps([Column(name="name", type=TEXT)]))
    finally:
        spark.conf.unset("spark.sql.codegen.wholeStage")
    digests = {text: md5(text.encode()).hexdigest() for text in texts}
    assert found == {
        text: Fingerprint(rows=1, **{f"s{k}": int(digest[8 * k : 8 * k + 8], 16) for k in range(4)})
        for text, digest in digests.items()
    }
