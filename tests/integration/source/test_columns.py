"""Columns read as text and columns left out: the same values in the database's answers and in Spark's rows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from integration.source.places import Place, at
from tidegate.core.slices import Everything, Keys
from tidegate.dialects.spark import Spark
from tidegate.errors import SchemaRefused, TidegateError
from tidegate.sources.database import Database
from tidegate.spark import dataframe_ops

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

AT, STAMP = "2025-07-01 10:00:00+00", "2025-07-01 10:00:00"
# The columns beside `id` and `secret`, the statements that fill the table, and the texts of its rows.
CASES: dict[str, tuple[str, list[str], list[tuple[Any, ...]]]] = {
    "postgresql": (
        (
            "at timestamptz, span interval, during tstzrange, cost money, many timestamptz[], twin pair, yes boolean, "
            "raw bytea, ratio float8, host inet"
        ),
        [
            (
                f"INSERT INTO t VALUES (1, 's', '{AT}', '1 day 2:03', '[{AT},infinity)', 1234.5, "
                f"ARRAY['{AT}'::timestamptz], ROW(1, '{AT}')::pair, true, '\\x00ff', 0.1, '10.0.0.1')"
            ),
            "INSERT INTO t (id, at) VALUES (2, 'infinity')",
        ],
        [
            (
                *(1, AT, "1 day 02:03:00", f'["{AT}",infinity)', "$1,234.50", f'{{"{AT}"}}'),
                *(f'(1,"{AT}")', "true", "\\x00ff", "0.1", "10.0.0.1"),
            ),
            (2, "infinity", *(None,) * 9),
        ],
    ),
    "duckdb": (
        "moment timestamptz, span interval, pair STRUCT(a int, b varchar[]), m MAP(varchar, int), ratio double",
        [
            (
                f"INSERT INTO t VALUES (1, 's', '{AT}', INTERVAL 26 HOUR, {{'a': 1, 'b': ['x', NULL]}}, "
                "MAP {'k': 1}, 0.1), (2, NULL, 'infinity', NULL, NULL, NULL, NULL)"
            )
        ],
        [(1, AT, "26:00:00", "{'a': 1, 'b': [x, NULL]}", "{k=1}", "0.1"), (2, "infinity", *(None,) * 4)],
    ),
    "mariadb": (
        (
            "at timestamp NULL, local datetime, place point, flags bit(9), small float, "
            "name varchar(20) CHARACTER SET latin1, raw varbinary(9), wide decimal(60,20)"
        ),
        [
            "SET time_zone = '+00:00'",
            f"INSERT INTO t VALUES (1, 's', '{STAMP}', '{STAMP}', POINT(1, 2.5), 257, 0.5, 'ä', 'ab', 1.5)",
            "INSERT INTO t (id, local) VALUES (2, '0000-00-00')",
        ],
        [
            (1, STAMP, STAMP, "POINT(1 2.5)", "257", "0.5", "ä", "ab", "1.50000000000000000000"),
            (2, None, "0000-00-00 00:00:00", *(None,) * 6),
        ],
    ),
    "sqlite": (
        "loose MONEY, bare, at TIMESTAMP",
        [
            "INSERT INTO t VALUES (1, 's', 0.1, '007', 'later'), (2, NULL, 7, 2.0, '')",
            "INSERT INTO t VALUES (3, NULL, 0.30000000000000004, NULL, NULL)",
        ],
        [(1, "0.1", "007", "later"), (2, "7", "2.0", ""), (3, "0.30000000000000004", None, None)],
    ),
}
NO_TEXT = {"mariadb": ("raw", "x'ff'"), "sqlite": ("bare", "x'00'")}


def rows(spark: SparkSession, there: Database) -> list[tuple]:
    """What Spark reads, of which the database says the same."""
    with there.probe() as probe:
        schema = probe.schema()
        frame = there.read(spark, probe, [Everything()], schema)
        assert dataframe_ops.fingerprint(frame, Spark().steps(schema.columns)) == probe.fingerprint(Everything())
        found = [tuple(row) for row in frame.collect()]
        key = Keys(columns=(schema.names[1],), values=tuple((row[1],) for row in found if row[1]))
        assert probe.count(key) == len(key.values)
        return sorted(found, key=str)


@at(*CASES)
def test_what_is_read_as_text_is_the_databases_own_text(place: Place, spark: SparkSession) -> None:
    columns, filling, expected = CASES[place.kind]
    if place.kind == "postgresql":  # whatever the database is set to
        alter = f"ALTER DATABASE {place.url.rsplit('/', 1)[1]} SET"
        for setting in ("timezone = 'Europe/Berlin'", "intervalstyle = 'iso_8601'", "datestyle = 'German'"):
            place.run(f"{alter} {setting}")
        place.run("CREATE TYPE pair AS (a int, at timestamptz)")
    place.run(f"CREATE TABLE t (id int PRIMARY KEY, secret varchar(9), {columns})", *filling)
    names = [column.split()[0] for column in re.split(r", (?![^(]*\))", columns)]
    there = place.source("t", columns=dict.fromkeys(names, "text"), exclude=("secret", "other*"))
    assert rows(spark, there) == expected
    if place.kind in NO_TEXT:
        name, value = NO_TEXT[place.kind]
        place.run(f"UPDATE t SET {name} = {value} WHERE id = 1")
        with there.probe() as probe, pytest.raises(TidegateError, match=name):
            probe.fingerprint(Everything())
    if place.kind == "postgresql":
        with (
            place.source("t").probe() as probe,
            pytest.raises(SchemaRefused, match=r"'span' .*'during' .*'cost' .*'twin'"),
        ):
            probe.schema()


@at("sqlite")
def test_a_unique_column_that_is_left_out_cuts_no_slice(place: Place, spark: SparkSession) -> None:
    place.run("CREATE TABLE t (id BIGINT, name TEXT, secret BIGINT NOT NULL)", "CREATE UNIQUE INDEX s ON t (secret)")
    place.run("INSERT INTO t VALUES (7, 'a', 1), (8, 'b', 2), (9, 'c', 3)")
    there = place.source("t", exclude=("secret",), slices=3)
    assert rows(spark, there) == [(7, "a"), (8, "b"), (9, "c")]
