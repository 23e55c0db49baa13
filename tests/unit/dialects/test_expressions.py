"""The SQL of each dialect: golden texts, quoting, and what SQLite itself makes of its expressions."""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path

import pytest

from tidegate.core.batch import Latest
from tidegate.core.grouping import Period, Periods, Prefixes, Steps
from tidegate.core.ports.dialect import Connectable, Relation
from tidegate.core.schema import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    JSON,
    TEXT,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    UUID,
    Column,
    Schema,
    Type,
    array,
    decimal,
)
from tidegate.core.slices import Everything, Keys, Partition, Range
from tidegate.core.wire_format import WireFormat
from tidegate.dialects.duckdb import Duckdb
from tidegate.dialects.mariadb import Mariadb
from tidegate.dialects.postgresql import Postgresql
from tidegate.dialects.shared.statements import Statements
from tidegate.dialects.spark import Spark
from tidegate.dialects.sqlite import Sqlite
from tidegate.errors import ConfigError

GOLDEN = Path(__file__).parents[2] / "golden" / "dialects"
UUID_KEYS = (("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",), ("it's",))
FIRST, SECOND = "2025-01-01 00:00:00.000000", "2025-01-02 00:00:00.000000"
Types = dict[str, tuple[Type, str]]
POSTGRESQL: Types = {
    "a_int": (INT, "int4"),
    "a_bigint": (BIGINT, "int8"),
    "a_decimal": (decimal(12, 4), "numeric(12,4)"),
    "a_free_decimal": (decimal(12, 4), "numeric"),
    "a_boolean": (BOOLEAN, "bool"),
    "a_date": (DATE, "date"),
    "a_time": (TIME, "time"),
    "a_timestamp": (TIMESTAMP, "timestamp"),
    "a_timestamptz": (TIMESTAMPTZ, "timestamptz"),
    "a_text": (TEXT, "text"),
    "a_uuid": (UUID, "uuid"),
    "a_binary": (BINARY, "bytea"),
    "a_json": (JSON, "jsonb"),
}
SHARED: Types = {
    "a_int": (INT, "int"),
    "a_bigint": (BIGINT, "bigint"),
    "a_decimal": (decimal(12, 4), "decimal(12,4)"),
    "a_double": (DOUBLE, "double"),
    "a_boolean": (BOOLEAN, "bit(1)"),
    "a_date": (DATE, "date"),
    "a_time": (TIME, "time"),
    "a_timestamp": (TIMESTAMP, "datetime"),
    "a_timestamptz": (TIMESTAMPTZ, "timestamp"),
    "a_text": (TEXT, "varchar charset utf8mb4"),
    "a_binary": (BINARY, "blob"),
}
DIALECTS: list[tuple[Connectable, Types]] = [
    (Postgresql(), POSTGRESQL),
    (Sqlite(), {name: kind for name, kind in POSTGRESQL.items() if name != "a_timestamptz"}),
    (
        Mariadb(),
        {
            **SHARED,
            "a_stated_decimal": (decimal(12, 4), "decimal(65,4) stated"),
            "an_unsigned": (decimal(20, 0), "bigint unsigned"),
            "a_wide_decimal": (TEXT, "decimal(65,4)"),
            "a_cyrillic": (TEXT, "varchar charset cp1251"),
        },
    ),
    (
        Duckdb(),
        {
            **SHARED,
            "a_huge": (decimal(38, 0), "HUGEINT"),
            "an_unsigned_huge": (decimal(38, 0), "UHUGEINT"),
            "a_second": (TIMESTAMP, "TIMESTAMP_S"),
            "a_nano": (TIMESTAMP, "TIMESTAMP_NS"),
            "a_uuid": (UUID, "UUID"),
            "a_json": (JSON, "JSON"),
            "a_list": (array(INT), "INTEGER[]"),
        },
    ),
]


def columns(types: Types) -> tuple[Column, ...]:
    """One column of each type."""
    return tuple(Column(name=name, type=kind, native=native) for name, (kind, native) in types.items())


def sql_of(dialect: Connectable, types: Types) -> dict[str, str]:
    """Text and reading of every type, and every statement over such a table."""
    found = {}
    for column in columns(types):
        if column.type.covered:
            found[f"{column.name} text"] = dialect.text(dialect.quote(column.name), column)
        reading = dialect.read(column)
        found[f"{column.name} read as {reading.wire_format}"] = reading.sql
    relation = Relation(sql=dialect.quote("t"), label="t", parts=("t",))
    made = Statements(dialect=dialect, relation=relation, schema=Schema(columns=columns(types)))
    part = Range(cursor=("a_timestamp",), after=FIRST, upto=SECOND)
    both = Range(cursor=("a_bigint",), after=None, upto="7", nulls=True)
    latest = Latest(key=("a_bigint",), order=("a_timestamp", "a_text"))
    day = Partition(column="a_date", label="20250101", low="2025-01-01", high="2025-01-02")
    prefix = Partition(column="a_text", label="é", prefix="é", length=1)
    found |= {
        "count": made.count(Everything(), None),
        "count latest": made.count(part, latest),
        "stats": made.stats(part),
        "stats with null": made.stats(both),
        "stats of null": made.stats(Range(cursor=("a_bigint",), after=None, upto=None, nulls=True)),
        "fingerprint": made.fingerprint(part, None),
        "fingerprint latest": made.fingerprint(both, latest),
        "by steps": made.grouped(made.bucket(Steps(column="a_bigint", width=1000)), [Everything()]),
        "by months": made.grouped(made.bucket(Periods(column="a_date", period=Period.MONTH)), [day]),
        "by prefixes": made.grouped(made.bucket(Prefixes(column="a_text", length=2)), [prefix]),
        "key bounds": made.key_bounds(part, "a_text"),
        "values": made.values(part, "a_text" if "a_double" in types else "a_uuid", 10),
        "borders": made.borders(part, 3),
        "keys of two": made.condition(Keys(columns=("a_text", "a_boolean"), values=(("it's", "1"), ("\\", "0")))),
    }
    if dialect.kind != "sqlite":
        found["decimal"] = made.condition(Range(cursor=("a_decimal",), after="-1.5000", upto="1.5000"))
    if "a_uuid" in types:
        found["keys"] = made.condition(Keys(columns=("a_uuid",), values=UUID_KEYS))
    if "a_timestamptz" in types:
        found["instant"] = made.condition(Range(cursor=("a_timestamptz",), after=None, upto=FIRST))
    return found


def spark_expressions() -> dict[str, str]:
    """Text, decoding and literal of every type."""
    spark = Spark()
    found = {f"{column.name} text": spark.text(spark.quote(column.name), column) for column in columns(POSTGRESQL)}
    for column in columns(POSTGRESQL):
        found[f"{column.name} from text"] = spark.decode("c0", column, WireFormat.TEXT)
    instant = Column(name="at", type=TIMESTAMPTZ)
    local = Column(name="at", type=TIMESTAMP)
    found["timestamptz from micros"] = spark.decode("c0", instant, WireFormat.MICROS)
    found["timestamp from micros"] = spark.decode("c0", local, WireFormat.MICROS)
    found["date from days"] = spark.decode("c0", Column(name="d", type=DATE), WireFormat.DAYS)
    found["array from json"] = spark.decode("c0", Column(name="a", type=array(INT)), WireFormat.JSON)
    found["fingerprint"] = spark.fingerprint("`t`", columns(POSTGRESQL))
    found["text literal"] = spark.literal(TEXT, "plain")
    found["hostile literal"] = spark.literal(TEXT, "it's ${a} \\")
    found["timestamptz literal"] = spark.literal(TIMESTAMPTZ, "2025-01-01 00:00:00.000000")
    found["decimal literal"] = spark.literal(decimal(12, 4), "1.5000")
    return found


@pytest.mark.parametrize(
    ("name", "found"),
    [("spark", spark_expressions()), *((dialect.kind, sql_of(dialect, types)) for dialect, types in DIALECTS)],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_sql_is_the_one_that_was_reviewed(name: str, found: dict[str, str]) -> None:
    """Set TIDEGATE_GOLDEN=write to rewrite the files, then review the difference."""
    file = GOLDEN / f"{name}.json"
    if os.environ.get("TIDEGATE_GOLDEN") == "write":
        file.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    assert found == json.loads(file.read_text())


def sqlite_text(kind: Type, value: object) -> str | None:
    """What SQLite makes of one value in a column of that type."""
    dialect = Sqlite()
    column = Column(name="x", type=kind, native="declared")
    with sqlite3.connect(":memory:") as connection:
        connection.execute("CREATE TABLE t (x)")
        connection.execute("INSERT INTO t VALUES (?)", [value])
        ((found,),) = connection.execute(f"SELECT {dialect.text(dialect.quote('x'), column)} FROM t")
    connection.close()
    return found


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (INT, -(2**31), "-2147483648"),
        (BIGINT, -(2**63), "-9223372036854775808"),
        (BOOLEAN, 1, "1"),
        (DATE, "2024-02-29", "2024-02-29"),
        (TIMESTAMP, "2025-01-02", "2025-01-02 00:00:00.000000"),
        (TIMESTAMP, "2025-01-02 03:04:05", "2025-01-02 03:04:05.000000"),
        (TIMESTAMP, "2025-01-02T03:04:05.12", "2025-01-02 03:04:05.120000"),
        (TIMESTAMP, "2025-01-02T03:04:05Z", "2025-01-02 03:04:05.000000"),
        (TIMESTAMP, "2025-01-02T03:04:05.123Z", "2025-01-02 03:04:05.123000"),
        (TIMESTAMP, "2025-01-02T03:04:05.123+00:00", "2025-01-02 03:04:05.123000"),
        (TIMESTAMP, "2025-01-02 03:04:05.123456+00:00", "2025-01-02 03:04:05.123456"),
        (TIMESTAMP, "2025-01-02 03:04:05.120 +00:00", "2025-01-02 03:04:05.120000"),
        (TIMESTAMP, "2025-01-02 03:04:05.5 +0000 UTC", "2025-01-02 03:04:05.500000"),
        (TIMESTAMP, "2025-01-02 03:04:05.123456", "2025-01-02 03:04:05.123456"),
        (TIME, "03:04:05.5", "03:04:05.500000"),
        (UUID, "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
        (BINARY, b"", ""),
        (BINARY, b"\x00\xff", "00ff"),
        (TEXT, "", ""),
        (decimal(38, 4), "9999999999999999999999999999999999.9999", "9999999999999999999999999999999999.9999"),
        (decimal(38, 4), "-0.0001", "-0.0001"),
        (decimal(38, 4), "-0", "0.0000"),
        (decimal(38, 4), "007.50", "7.5000"),
        (decimal(4, 4), ".5", None),
        (decimal(4, 4), "0.5", "0.5000"),
        (decimal(10, 2), 12, "12.00"),
        (decimal(10, 2), 1.5, "1.50"),
        (decimal(10, 2), 0.1, "0.10"),
        (decimal(10, 2), -0.0, "0.00"),
        (decimal(10, 0), 12, "12"),
        (decimal(10, 0), "12", "12"),
        (decimal(2, 2), 0, "0.00"),
    ],
)
def test_sqlite_value_of_the_declared_type(kind: Type, value: object, text: str | None) -> None:
    if text is None:
        with pytest.raises(sqlite3.OperationalError, match=r"column '+x'"):
            sqlite_text(kind, value)
    else:
        assert sqlite_text(kind, value) == text


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (INT, 2**31),
        (INT, -(2**31) - 1),
        (BIGINT, "7"),
        (BIGINT, 7.5),
        (BOOLEAN, 2),
        (BOOLEAN, "true"),
        (DATE, "2025-02-30"),
        (DATE, "01/02/2025"),
        (DATE, "0000-01-01"),
        (DATE, 20250101),
        (DATE, "2025-01-01 00:00:00"),
        (TIMESTAMP, 1700000000),
        (TIMESTAMP, "2025-01-02 03:04"),
        (TIMESTAMP, "2025-01-02 24:00:00"),
        (TIMESTAMP, "2025-01-02 03:04:05ZZ"),
        (TIMESTAMP, "2025-01-02 03:04:05|"),
        (TIMESTAMP, "2025-01-02 03:04:05.Z"),
        (TIMESTAMP, "2025-01-02 03:04:05.1234567Z"),
        (TIMESTAMP, "2025-01-02 03:04:05.123456789+00:00"),
        (TIMESTAMP, "2025-01-02 03:0Z:05"),
        (TIMESTAMP, "2025-02-30 03:04:05Z"),
        (TIMESTAMP, "2025-01-02 24:00:00Z"),
        (TIMESTAMP, "2025-01-02Z"),
        (TIMESTAMP, "2025-01-02 03:04:05+01:00"),
        (TIMESTAMP, "2025-01-02 03:04:05.1234567"),
        (TIMESTAMP, "2025-01-02 03:61:05"),
        (TIME, "25:00:00"),
        (TEXT, b"blob"),
        (BINARY, "text"),
        (UUID, "not a uuid"),
        (decimal(10, 2), "1.234"),
        (decimal(10, 2), "123456789.00"),
        (decimal(10, 2), 1.234),
        (decimal(10, 2), "1e5"),
        (decimal(10, 2), "1,5"),
        (decimal(10, 2), "--1"),
        (decimal(10, 2), 123456789),
        (decimal(20, 4), 99999999999999.9999),
        (decimal(2, 2), 1),
    ],
)
def test_sqlite_value_of_another_type_ends_the_statement(kind: Type, value: object) -> None:
    with pytest.raises(sqlite3.OperationalError) as refused:
        sqlite_text(kind, value)
    assert "tidegate: column" in str(refused.value)


@pytest.mark.parametrize("dialect", [dialect for dialect, _ in DIALECTS], ids=lambda dialect: dialect.kind)
def test_names_and_texts_never_become_syntax(dialect: Connectable) -> None:
    mark = "`" if dialect.kind == "mariadb" else '"'
    assert dialect.quote(f"a{mark}; DROP TABLE t; --") == f"{mark}a{mark * 2}; DROP TABLE t; --{mark}"
    assert dialect.string("'; DROP TABLE t; --").strip() == "'''; DROP TABLE t; --'"
    assert dialect.kind != "mariadb" or "\\" not in dialect.string("\\'; DROP TABLE t; --")
    if dialect.kind in ("mariadb", "duckdb"):
        with pytest.raises(ConfigError):
            dialect.quote("a\0b")


def test_backslashes_of_postgresql_do_not_depend_on_a_setting() -> None:
    assert Postgresql().literal(TEXT, "a\\'b") == " E'a\\\\''b'"


@pytest.mark.parametrize("count", [1, 2, 31, 32, 33, 1999])
def test_a_row_of_many_columns_is_one_text(count: int) -> None:
    texts = [f"t{number}" for number in range(count)]
    together = Sqlite().concat([f"'{text}'" for text in texts])
    with sqlite3.connect(":memory:") as connection:  # it takes no expression that is nested more than 1,000 times
        assert connection.execute(f"SELECT {together}").fetchone() == ("".join(texts),)
    connection.close()
    depth = max(together[:place].count("(") - together[:place].count(")") for place in range(len(together)))
    assert depth <= 7
