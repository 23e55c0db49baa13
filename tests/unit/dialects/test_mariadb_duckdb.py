"""The SQL of MariaDB and DuckDB: golden texts, quoting, types by name, and URLs."""

from __future__ import annotations

import builtins
import json
import os
import sys
from pathlib import Path

import pytest

from tidegate.core.batch import Latest
from tidegate.core.grouping import Period, Periods, Prefixes, Steps
from tidegate.core.ids import Connection
from tidegate.core.ports.dialect import Relation
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
from tidegate.core.slices import Everything, Partition, Range
from tidegate.dialects.duckdb import Duckdb
from tidegate.dialects.duckdb.types import type_of
from tidegate.dialects.mariadb import Mariadb
from tidegate.dialects.mariadb.address import address_of
from tidegate.dialects.mariadb.types import Native, column_of
from tidegate.dialects.shared.statements import Statements
from tidegate.errors import ConfigError, EnvironmentMissing, SchemaRefused

GOLDEN = Path(__file__).parents[2] / "golden" / "dialects"
SHARED: dict[str, tuple[Type, str]] = {
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
MARIADB = {
    **SHARED,
    "a_stated_decimal": (decimal(12, 4), "decimal(65,4) stated"),
    "an_unsigned": (decimal(20, 0), "bigint unsigned"),
    "a_wide_decimal": (TEXT, "decimal(65,4)"),
    "a_cyrillic": (TEXT, "varchar charset cp1251"),
}
DUCKDB = {
    **SHARED,
    "a_huge": (decimal(38, 0), "HUGEINT"),
    "an_unsigned_huge": (decimal(38, 0), "UHUGEINT"),
    "a_second": (TIMESTAMP, "TIMESTAMP_S"),
    "a_nano": (TIMESTAMP, "TIMESTAMP_NS"),
    "a_uuid": (UUID, "UUID"),
    "a_json": (JSON, "JSON"),
    "a_list": (array(INT), "INTEGER[]"),
}


def sql_of(dialect, types: dict[str, tuple[Type, str]]) -> dict[str, str]:
    """Text and reading of every type, and every statement over such a table."""
    columns = tuple(Column(name=name, type=kind, native=native) for name, (kind, native) in types.items())
    found = {}
    for column in columns:
        if column.type.covered:
            found[f"{column.name} text"] = dialect.text(dialect.quote(column.name), column)
        reading = dialect.read(column)
        found[f"{column.name} read as {reading.wire_format}"] = reading.sql
    relation = Relation(sql=dialect.quote("t"), label="t", parts=("t",))
    made = Statements(dialect=dialect, relation=relation, schema=Schema(columns=columns))
    part = Range(cursor=("a_timestamp",), after="2025-01-01 00:00:00.000000", upto="2025-01-02 00:00:00.000000")
    both = Range(cursor=("a_bigint",), after=None, upto="7", nulls=True)
    latest = Latest(key=("a_bigint",), order=("a_timestamp", "a_text"))
    day = Partition(column="a_date", label="20250101", low="2025-01-01", high="2025-01-02")
    prefix = Partition(column="a_text", label="é", prefix="é", length=1)
    return {
        **found,
        "count latest": made.count(part, latest),
        "stats": made.stats(part),
        "stats with null": made.stats(both),
        "fingerprint": made.fingerprint(part, None),
        "fingerprint latest": made.fingerprint(both, latest),
        "by steps": made.grouped(made.bucket(Steps(column="a_bigint", width=1000)), [Everything()]),
        "by months": made.grouped(made.bucket(Periods(column="a_date", period=Period.MONTH)), [day]),
        "by prefixes": made.grouped(made.bucket(Prefixes(column="a_text", length=2)), [prefix]),
        "key bounds": made.key_bounds(part, "a_text"),
        "values": made.values(part, "a_text", 10),
        "borders": made.borders(part, 3),
        "instant": made.condition(Range(cursor=("a_timestamptz",), after=None, upto="2025-01-01 00:00:00.000000")),
        "decimal": made.condition(Range(cursor=("a_decimal",), after="-1.5000", upto="1.5000")),
    }


@pytest.mark.parametrize(("dialect", "types"), [(Mariadb(), MARIADB), (Duckdb(), DUCKDB)])
def test_sql_is_the_one_that_was_reviewed(dialect, types) -> None:
    """Set TIDEGATE_GOLDEN=write to rewrite the files, then review the difference."""
    file, found = GOLDEN / f"{dialect.kind}.json", sql_of(dialect, types)
    if os.environ.get("TIDEGATE_GOLDEN") == "write":
        file.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    assert found == json.loads(file.read_text())


def test_names_and_texts_never_become_syntax() -> None:
    assert Mariadb().quote("a`; DROP TABLE t; --") == "`a``; DROP TABLE t; --`"
    assert Duckdb().quote('a"; DROP TABLE t; --') == '"a""; DROP TABLE t; --"'
    assert Mariadb().string("'; DROP TABLE t; --") == Duckdb().string("'; DROP TABLE t; --") == "'''; DROP TABLE t; --'"
    assert "\\" not in Mariadb().string("\\'; DROP TABLE t; --")
    for dialect in (Mariadb(), Duckdb()):
        with pytest.raises(ConfigError):
            dialect.quote("a\0b")


def native(code: int, **facts) -> Native:
    return Native(**{"name": "x", "code": code, "flags": 0, "length": 11, "scale": 0, "charset": "binary", **facts})


@pytest.mark.parametrize(
    ("facts", "spark", "label"),
    [
        (native(1, length=1), "int", "tinyint(1)"),
        (native(3), "int", "int"),
        (native(3, flags=32), "bigint", "int unsigned"),
        (native(9, flags=32), "int", "mediumint unsigned"),
        (native(8), "bigint", "bigint"),
        (native(8, flags=32), "decimal(20,0)", "bigint unsigned"),
        (native(246, length=40, scale=4), "decimal(38,4)", "decimal(38,4)"),
        (native(246, length=6, scale=5, flags=32), "decimal(5,5)", "decimal(5,5)"),
        (native(246, length=67, scale=10), "string", "decimal(65,10)"),
        (native(16, length=1), "boolean", "bit(1)"),
        (native(253, charset="latin1"), "string", "varchar charset latin1"),
        (native(254, charset="utf8mb4", flags=256), "string", "enum charset utf8mb4"),
        (native(254), "binary", "binary"),
        (native(252), "binary", "blob"),
        (native(7), "timestamp", "timestamp"),
        (native(12), "timestamp_ntz", "datetime"),
    ],
)
def test_types_of_mariadb(facts: Native, spark: str, label: str) -> None:
    column = column_of("x", facts, None)
    assert isinstance(column, Column)
    assert (column.type.spark, column.native) == (spark, label)


@pytest.mark.parametrize("facts", [native(16, length=9), native(255), native(6), native(242)])
def test_types_of_mariadb_that_are_refused(facts: Native) -> None:
    assert isinstance(column_of("x", facts, None), str)


@pytest.mark.parametrize(
    ("facts", "override", "fits"),
    [
        (native(1, length=1), "boolean", True),
        (native(246, length=67, scale=10), "decimal(20,4)", True),
        (native(16, length=9), "text", True),
        (native(255), "text", True),
        (native(12), "text", True),
        (native(12), "date", False),
        (native(253, charset="utf8mb4"), "boolean", False),
    ],
)
def test_stated_types_of_mariadb(facts: Native, override: str, fits: bool) -> None:
    if fits:
        column = column_of("x", facts, override)
        assert isinstance(column, Column)
        assert (column.native or "").endswith(" stated")
    else:
        with pytest.raises(SchemaRefused, match="cannot be read as"):
            column_of("x", facts, override)


@pytest.mark.parametrize(
    ("word", "spark"),
    [
        ("UBIGINT", "decimal(20,0)"),
        ("HUGEINT", "decimal(38,0)"),
        ("DECIMAL(18,3)", "decimal(18,3)"),
        ("ENUM('a', 'b')", "string"),
        ("INTEGER[]", "array<int>"),
        ("VARCHAR[3]", "array<string>"),
        ("INTEGER[][]", None),
        ("STRUCT(a INTEGER)", None),
        ("INTERVAL", None),
        ("TIME WITH TIME ZONE", None),
        ("BIGNUM", None),
    ],
)
def test_types_of_duckdb(word: str, spark: str | None) -> None:
    found = type_of(word)
    assert (found.spark if found else None) == spark


def test_addresses_of_mariadb() -> None:
    url = "mariadb://a%40b:p%3Aw@db.example:3307/my%2Fshop?sslmode=verify-full&sslrootcert=/ca.pem&connect_timeout=3"
    there = address_of(Connection(name="c", url=url))
    assert "p:w" not in repr(there)
    arguments = there.arguments()
    assert (arguments["user"], arguments["password"], arguments["database"]) == ("a@b", "p:w", "my/shop")
    assert arguments["ssl"] == {"ca": "/ca.pem", "verify_mode": "required", "check_hostname": True}
    jdbc = there.jdbc("SET x = 1")
    assert jdbc.url == "jdbc:mysql://db.example:3307/my%2Fshop?permitMysqlScheme"
    assert (jdbc.properties["sslMode"], jdbc.properties["connectTimeout"]) == ("verify-full", "3000")
    assert [jdbc.properties[f"tcpKeep{each}"] for each in ("Idle", "Interval", "Count")] == ["60", "10", "6"]


@pytest.mark.parametrize(
    "url",
    [
        "mariadb://host",
        "mariadb:///database",
        "mariadb://user:s3cr3t@host:port/database",
        "mariadb://host/database?charset=latin1",
        "mariadb://host/database?sslmode=maybe",
        "mariadb://host/database?connect_timeout=soon",
    ],
)
def test_addresses_of_mariadb_that_are_refused(url: str) -> None:
    with pytest.raises(ConfigError) as refused:
        address_of(Connection(name="c", url=url))
    assert "s3cr3t" not in f"{refused.value}{refused.value.hint}"


@pytest.mark.parametrize(("dialect", "driver"), [(Mariadb(), "pymysql"), (Duckdb(), "duckdb")])
def test_missing_driver_is_named_with_its_remedy(dialect, driver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name == f"tidegate.dialects.{dialect.kind}.session"]:
        monkeypatch.delitem(sys.modules, module)
    real = builtins.__import__

    def absent(name, *arguments, **named):
        if name.split(".")[0] == driver:
            raise ModuleNotFoundError(f"No module named {driver!r}", name=driver)
        return real(name, *arguments, **named)

    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(EnvironmentMissing) as missing:
        dialect.open(Connection(name="c", url=f"{dialect.kind}:///x"))
    assert f"the extra `{dialect.kind}`: `" in missing.value.hint
