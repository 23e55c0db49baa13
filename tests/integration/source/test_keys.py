"""Rows that are named by their keys: every type that a key can have, on every database that runs here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pytest

from integration.source.places import Place, at
from tidegate.core.bucketing import Buckets
from tidegate.core.slices import Everything, Keys
from tidegate.errors import TidegateError
from tidegate.sources.database.probe import DatabaseProbe

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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


def quoted(values: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"'{value}'" for value in values)


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
    "timestamptz": tuple(f"'{moment}+00'" for moment in MOMENTS),
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


VALUES = {"sqlite": SQLITE, "duckdb": DUCKDB, "mariadb": MARIADB, "postgresql": POSTGRESQL}


@pytest.mark.spark
@at(*VALUES)
def test_every_row_is_found_by_its_key_and_by_no_other(place: Place, spark: SparkSession) -> None:
    """By each column alone, and by all of them together; by these Spark reads, whatever it thinks of their types."""
    values = VALUES[place.kind]
    place.run(*(PREPARED if place.kind == "postgresql" else ()), *statements(values))
    source, names = place.source("t"), tuple(f"k{number}" for number in range(len(values)))
    wrong: dict[str, str] = {}
    for name, kind in zip(names, values, strict=True):
        with source.probe() as probe:
            try:
                must_be_found_by(probe, name, len(values[kind]))
            except (AssertionError, TidegateError) as error:
                wrong[kind] = f"{type(error).__name__}: {error}"
    assert wrong == {}
    with source.probe() as probe:
        every = [row.key for row in probe.digests(Everything(), names, Buckets(count=1, keys=True))]
        assert [probe.count(Keys(columns=names, values=(key,))) for key in every] == [1] * len(every)
        part = Keys(columns=names, values=tuple(every))
        assert probe.count(part) == len(every)
        assert source.read(spark, probe, (part,), probe.schema()).count() == len(every)


def must_be_found_by(probe: DatabaseProbe, name: str, distinct: int) -> None:
    keys = [row.key for row in probe.digests(Everything(), (name,), Buckets(count=1, keys=True))]
    assert len(set(keys)) == distinct, keys
    found = {key: probe.count(Keys(columns=(name,), values=(key,))) for key in keys}
    assert found == {key: keys.count(key) for key in keys}
    assert probe.count(Keys(columns=(name,), values=tuple(set(keys)))) == len(keys)
    assert probe.count(Keys(columns=(name,), values=())) == 0
    bounds = probe.key_bounds(Everything(), name)
    assert bounds is None or {bounds.low, bounds.high} <= {text for (text,) in keys}
