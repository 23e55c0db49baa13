"""Which unique indexes count for a key: those whose values stay different in the table."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from tidegate.core.ids import Connection
from tidegate.core.ports.dialect import Connectable
from tidegate.core.schema import BIGINT, DATE, INT, TEXT, TIME, TIMESTAMP, TIMESTAMPTZ, UUID, Column, Type, decimal
from tidegate.dialects.duckdb import Duckdb
from tidegate.dialects.mariadb import Mariadb
from tidegate.dialects.oracle import Oracle
from tidegate.dialects.postgresql import Postgresql
from tidegate.dialects.sqlite import Sqlite
from tidegate.dialects.sqlserver import SqlServer
from tidegate.dialects.teradata import Teradata
from tidegate.sources.database import Database

APART = [
    (Postgresql(), TIMESTAMPTZ, "timestamptz"),
    (Postgresql(), TEXT, "numeric"),
    (Postgresql(), UUID, "uuid"),
    (Mariadb(), TIMESTAMP, "datetime(6)"),
    (Mariadb(), TEXT, "varchar charset utf8mb4"),
    (Mariadb(), TEXT, "varchar charset latin1 stated"),
    (SqlServer(), TIMESTAMP, "datetime2(6)"),
    (SqlServer(), TIMESTAMP, "datetime"),
    (SqlServer(), BIGINT, "timestamp"),
    (SqlServer(), TEXT, "nvarchar(7)"),
    (Oracle(), TIMESTAMP, "TIMESTAMP(6)"),
    (Oracle(), TIMESTAMP, "DATE"),
    (Oracle(), TEXT, "NUMBER"),
    (Duckdb(), TIMESTAMP, "TIMESTAMP"),
    (Sqlite(), DATE, "DATE"),
    (Sqlite(), BIGINT, "INTEGER"),
    (Sqlite(), TEXT, "TEXT"),
    (Teradata(), TEXT, "VARCHAR(7)"),
]
MERGED = [
    (Mariadb(), TEXT, "varchar charset cp932"),
    (SqlServer(), TIMESTAMP, "datetime2(7)"),
    (SqlServer(), TIMESTAMPTZ, "datetimeoffset(7)"),
    (SqlServer(), TIME, "time(7)"),
    (Oracle(), TIMESTAMP, "TIMESTAMP(9)"),
    (Oracle(), TIMESTAMPTZ, "TIMESTAMP(7) WITH TIME ZONE"),
    (Duckdb(), TIMESTAMP, "TIMESTAMP_NS"),
    (Sqlite(), TIMESTAMP, "DATETIME"),
    (Sqlite(), UUID, "uuid"),
    (Sqlite(), decimal(20, 4), "decimal(20,4)"),
    (Teradata(), TIMESTAMP, "TIMESTAMP(6)"),
]


@pytest.mark.parametrize(
    ("dialect", "kind", "native", "apart"), [(*one, True) for one in APART] + [(*one, False) for one in MERGED]
)
def test_values_that_differ_have_texts_that_differ(
    dialect: Connectable, kind: Type, native: str, *, apart: bool
) -> None:
    assert dialect.tells_apart(Column(name="key", type=kind, native=native)) is apart


@pytest.mark.parametrize(
    ("declared", "stated", "values"),
    [
        ("DATETIME", None, ["2025-01-01 00:00:00", "2025-01-01T00:00:00"]),
        ("TEXT", "timestamp", ["2025-01-01 00:00:00", "2025-01-01 00:00:00.0"]),
        ("UUID", None, ["A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"]),
        ("TEXT", "decimal(9,2)", ["0.1", "0.10"]),
        ("", "text", [1, "1"]),
    ],
)
def test_an_index_over_spellings_guarantees_no_key(
    tmp_path: Path, declared: str, stated: str | None, values: list[object]
) -> None:
    path = tmp_path / "shop.db"
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute(f"CREATE TABLE orders (id INTEGER PRIMARY KEY, code {declared} NOT NULL UNIQUE)")
    writer.executemany("INSERT INTO orders (code) VALUES (?)", [(value,) for value in values])
    writer.close()
    columns = {} if stated is None else {"code": stated}
    source = Database(connection=Connection(name="file", url=f"sqlite:///{path}"), table="orders", columns=columns)
    with source.probe() as probe:
        assert probe.unique(("id",))
        assert probe.unique(("code", "id"))
        assert not probe.unique(("code",))
        assert {"code"} in probe.session.unique_sets(probe.statements.relation)


def test_an_index_over_the_column_itself_serves() -> None:
    """The condition for it holds for every row above the bound, also where the type rounds."""
    likely = SqlServer().likely_above
    above = "2025-01-01 00:00:00.003000"
    kept = Column(name="x", type=TIMESTAMP, native="datetime")
    assert likely("[x]", kept, above) == "[x] > CAST('2024-12-31T23:59:59.999' AS datetime)"
    assert likely("[x]", kept, "0001-01-01 00:00:00.000000") == "1 = 1"
    version = Column(name="x", type=BIGINT, native="timestamp")
    assert likely("[x]", version, "7") == "[x] > CAST(CAST(7 AS bigint) AS binary(8))"
    assert likely("[x]", Column(name="x", type=INT, native="int"), "7") == "1 = 1"
    of_date = Column(name="D", type=TIMESTAMP, native="DATE")
    assert Oracle().likely_above('"D"', of_date, "2025-01-01 10:00:00.500000") == (
        "\"D\" >= to_date('2025-01-01 10:00:00', 'YYYY-MM-DD HH24:MI:SS')"
    )
    text = {native: Column(name="x", type=TEXT, native=native) for native in ("varchar(9)", "xml")}
    assert SqlServer().seek("[x]", text["varchar(9)"], ["it's"]) == "[x] IN (N'it''s')"
    assert SqlServer().seek("[x]", text["xml"], ["a"]) is None
