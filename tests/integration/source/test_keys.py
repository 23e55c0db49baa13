"""Rows that are named by their keys: every type that a key can have, on every database that runs here."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import psycopg
import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from tidegate.core.bucketing import Buckets
from tidegate.core.ids import Connection
from tidegate.core.slices import Everything, Keys
from tidegate.errors import SchemaRefused, TidegateError
from tidegate.sources.database import Database
from tidegate.sources.database.probe import DatabaseProbe

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from support.mariadb import MariadbServer

pytest_plugins = ["support.mariadb"]

Values = Mapping[str, Sequence[str]]
"""By the type of a column, distinct values as SQL."""

MOMENTS = ("0001-01-01 00:00:00", "1969-12-31 23:59:59.999999", "2025-03-30 02:30:00.000001", "9999-12-31 23:59:59")
DAYS = ("0001-01-01", "1969-12-31", "2025-03-30", "9999-12-31")
UUIDS = (
    "00000000-0000-0000-0000-000000000000",
    "123e4567-e89b-12d3-a456-426614174000",
    "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11",
    "ffffffff-ffff-ffff-ffff-ffffffffffff",
)
TEXTS = ("a", "A", "it''s", "~N|\u00e9\u2603", "")
SMALL = ("-32768", "-1", "0", "32767")
WIDE = ("-9223372036854775808", "-1", "0", "9223372036854775807")
EXACT = ("-99999999999999.9999", "-0.0001", "0", "1.5", "99999999999999.9999")


def quoted(values: Sequence[str], cast: str = "") -> tuple[str, ...]:
    return tuple(f"'{value}'{cast}" for value in values)


POSTGRESQL: Values = {
    "smallint": SMALL,
    "integer": SMALL,
    "bigint": WIDE,
    "oid": ("0", "7", "4294967295"),
    "numeric(18,4)": EXACT,
    "numeric": ("-1.50", "1.5", "1e40"),
    "boolean": ("true", "false"),
    "text": quoted(TEXTS),
    "varchar(40)": quoted(TEXTS),
    "char(4)": quoted(("a", "A", "it''s", "")),
    "name": quoted(TEXTS),
    'text collate "en_insensitive"': quoted(("a", "A", "B")),
    "uuid": quoted(UUIDS),
    "date": quoted(DAYS),
    "time": quoted(("00:00:00", "23:59:59.999999")),
    "timestamp": quoted(MOMENTS),
    "timestamptz": tuple(f"'{moment}+00'" for moment in MOMENTS),
    "bytea": (r"'\x'", r"'\x00ff'", r"'\x5c27'"),
    "mood": quoted(("sad", "ok", "it''s")),
    "digits": quoted(("1", "22")),
    "marks": ("1.50", "-2.25"),
    "inet": quoted(("10.0.0.1", "10.0.0.1/24", "::1", "2001:db8::/32")),
    "cidr": quoted(("10.0.0.0/8", "10.0.0.1/32")),
    "macaddr": quoted(("08:00:2b:01:02:03", "08:00:2b:01:02:04")),
    "jsonb": quoted(('{"a": 1}', "[]", '"its"')),
}
PREPARED = (
    "CREATE TYPE mood AS ENUM ('sad', 'ok', 'it''s')",
    "CREATE DOMAIN digits AS varchar(8) CHECK (VALUE ~ '^[0-9]+$')",
    "CREATE DOMAIN marks AS numeric(6,2)",
    "CREATE COLLATION en_insensitive (provider = icu, locale = 'en-u-ks-level2', deterministic = false)",
)
SQLITE: Values = {
    "integer": WIDE,
    "bigint": WIDE,
    "decimal(18,4)": ("-0.0001", "0", "'1.5'", "'99999.9999'", "-7"),
    "boolean": ("0", "1"),
    "text": quoted(TEXTS),
    "varchar(40)": quoted(TEXTS),
    "text collate nocase": quoted(("a", "A")),
    "uuid": quoted(UUIDS),
    "date": quoted(DAYS),
    "time": quoted(("00:00:00", "23:59:59.999999")),
    "timestamp": quoted(MOMENTS),
    "blob": ("x''", "x'00ff'", "x'5c27'"),
}
DUCKDB: Values = {
    "tinyint": ("-128", "0", "127"),
    "integer": SMALL,
    "bigint": WIDE,
    "ubigint": ("0", "1", "18446744073709551615"),
    "hugeint": ("'-9223372036854775809'", "0", "'9223372036854775808'"),
    "decimal(18,4)": EXACT,
    "boolean": ("true", "false"),
    "varchar": quoted(TEXTS),
    "varchar collate nocase": quoted(("a", "A")),
    "uuid": quoted(UUIDS),
    "date": quoted(DAYS),
    "time": quoted(("00:00:00", "23:59:59.999999")),
    "timestamp": quoted(MOMENTS),
    "timestamp_s": quoted(("1969-12-31 23:59:59", "2025-03-30 02:30:00")),
    "timestamp_ns": quoted(("1969-12-31 23:59:59.999999", "2025-03-30 02:30:00")),
    "timestamptz": quoted(MOMENTS, "::timestamptz"),
    "blob": (r"'\x00\xFF'", "''", "'a'"),
    "enum('sad', 'ok')": quoted(("sad", "ok")),
}
MARIADB: Values = {
    "tinyint": ("-128", "0", "127"),
    "int zerofill": ("0", "7", "4294967295"),
    "bigint": WIDE,
    "bigint unsigned": ("0", "1", "18446744073709551615"),
    "decimal(18,4)": EXACT,
    "varchar(40) charset utf8mb4": quoted(("a", "A", "it''s", "a ", "~N|\u00e9")),
    "varchar(40) charset latin1": quoted(("a", "A", "\u00e9", "")),
    "char(4)": quoted(("a", "A", "it''s", "")),
    "text charset utf8mb4": quoted(TEXTS),
    "uuid": quoted(UUIDS),
    "inet6": quoted(("::1", "::ffff:10.0.0.1")),
    "date": quoted(DAYS),
    "time(6)": quoted(("00:00:00", "23:59:59.999999")),
    "datetime(6)": quoted(MOMENTS),
    "timestamp(6) null": quoted(("1970-01-02 00:00:00.000001", "2025-03-09 02:30:00")),
    "binary(2)": ("x'00ff'", "x'5c27'"),
    "varbinary(8)": ("x''", "x'00ff'", "x'5c27'"),
    "enum('sad', 'ok')": quoted(("sad", "ok")),
    "year": ("1901", "2155"),
}


def statements(values: Values) -> list[str]:
    """A table of one nullable column a type; the rows repeat each column's values."""
    columns = ", ".join(f"k{number} {kind}" for number, kind in enumerate(values))
    rows = [
        ", ".join(each[min(row, len(each) - 1)] for each in values.values())
        for row in range(max(map(len, values.values())))
    ]
    return [f"CREATE TABLE t ({columns})", *(f"INSERT INTO t VALUES ({row})" for row in rows)]


def must_be_found(source: Database, values: Values, spark: SparkSession) -> None:
    """By each column alone, and by all of them together, every row is found by its own key and by no other.

    Spark reads them, too, whatever it thinks of the column's type.
    """
    wrong: dict[str, str] = {}
    names = tuple(f"k{number}" for number in range(len(values)))
    for name, kind in zip(names, values, strict=True):
        with source.probe() as probe:
            try:
                keys = must_be_found_by(probe, name, len(values[kind]))
                part = Keys(columns=(name,), values=tuple(set(keys)))
                assert source.read(spark, probe, (part,), probe.schema()).count() == len(keys)
            except (AssertionError, TidegateError, PySparkException, Py4JError) as error:
                wrong[kind] = f"{type(error).__name__}: {error}"
    assert not wrong, "\n".join(f"{kind}: {error}" for kind, error in wrong.items())
    with source.probe() as probe:
        every = [row.key for row in probe.digests(Everything(), names, Buckets(count=1, keys=True))]
        assert [probe.count(Keys(columns=names, values=(key,))) for key in every] == [1] * len(every)
        assert probe.count(Keys(columns=names, values=tuple(every))) == len(every)


def must_be_found_by(probe: DatabaseProbe, name: str, distinct: int) -> list[tuple[str | None, ...]]:
    keys = [row.key for row in probe.digests(Everything(), (name,), Buckets(count=1, keys=True))]
    assert len(set(keys)) == distinct, keys
    found = {key: probe.count(Keys(columns=(name,), values=(key,))) for key in keys}
    assert found == {key: keys.count(key) for key in keys}
    assert probe.count(Keys(columns=(name,), values=tuple(set(keys)))) == len(keys)
    assert probe.count(Keys(columns=(name,), values=())) == 0
    bounds = probe.key_bounds(Everything(), name)
    assert bounds is None or {bounds.low, bounds.high} <= {text for (text,) in keys}
    return keys


@pytest.mark.spark
def test_sqlite(tmp_path: Path, spark: SparkSession) -> None:
    file = tmp_path / "shop.db"
    with sqlite3.connect(file) as connection:
        for statement in statements(SQLITE):
            connection.execute(statement)
    connection.close()
    must_be_found(Database(connection=Connection(name="file", url=f"sqlite:///{file}"), table="t"), SQLITE, spark)


@pytest.mark.spark
def test_duckdb(tmp_path: Path, spark: SparkSession) -> None:
    file = tmp_path / "shop.duckdb"
    with duckdb.connect(str(file)) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for statement in statements(DUCKDB):
            connection.execute(statement)
    must_be_found(Database(connection=Connection(name="file", url=f"duckdb:///{file}"), table="t"), DUCKDB, spark)


@pytest.mark.spark
@pytest.mark.postgres
def test_postgresql(pg_url: str, spark: SparkSession) -> None:
    with psycopg.connect(pg_url, autocommit=True) as connection:
        for statement in (*PREPARED, *statements(POSTGRESQL)):
            connection.execute(statement)
    must_be_found(Database(connection=Connection(name="server", url=pg_url), table="public.t"), POSTGRESQL, spark)


@pytest.mark.spark
def test_mariadb(mariadb: MariadbServer, maria_database: str, spark: SparkSession) -> None:
    mariadb.run(*statements(MARIADB), database=maria_database)
    must_be_found(
        Database(connection=Connection(name="server", url=mariadb.url(maria_database)), table="t"), MARIADB, spark
    )


@pytest.mark.postgres
def test_what_postgresql_refuses_first_is_what_people_read(pg_url: str) -> None:
    """Later statements of a transaction that has failed are refused for that alone, which says nothing."""
    with psycopg.connect(pg_url, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (id integer PRIMARY KEY, at date)")
        connection.execute("INSERT INTO t VALUES (1, 'infinity')")
    source = Database(connection=Connection(name="server", url=pg_url), table="public.t")
    with source.probe() as probe:
        with pytest.raises(SchemaRefused, match="column 'at' holds a value that does not fit date") as first:
            probe.fingerprint(Everything())
        for ask in (lambda: probe.count(Everything()), lambda: probe.stats(Keys(columns=("id",), values=(("1",),)))):
            with pytest.raises(SchemaRefused) as later:
                ask()
            assert (later.value.message, later.value.hint) == (first.value.message, first.value.hint)
