"""Two columns of one cursor: of one type and precision, or refused."""

from __future__ import annotations

import sqlite3
from itertools import product
from pathlib import Path

import pytest

from tidegate.core.bounds import TimeBound
from tidegate.core.ids import Connection
from tidegate.core.ports.dialect import Connectable
from tidegate.core.schema import DATE, TIMESTAMP, TIMESTAMPTZ, Column, Schema, Type
from tidegate.core.slices import Range
from tidegate.dialects.mariadb import Mariadb
from tidegate.dialects.mariadb.types import Native as MariadbNative
from tidegate.dialects.mariadb.types import column_of as mariadb
from tidegate.dialects.oracle import Oracle
from tidegate.dialects.postgresql import Postgresql
from tidegate.dialects.postgresql.types import Native as PostgresNative
from tidegate.dialects.postgresql.types import column_of as postgres
from tidegate.dialects.shared.statements import Statements
from tidegate.dialects.sqlserver import SqlServer
from tidegate.errors import ConfigError
from tidegate.sources.database import Database

CURSOR = ("updated_at", "created_at")


def of_postgres(name: str, digits: int | None) -> Column:
    native = PostgresNative(
        modifier=-1 if digits is None else digits,
        oid=1,
        name="timestamptz",
        category="b",
        built_in=True,
        element=None,
        called="timestamptz",
    )
    found = postgres(name, native, nullable=True, override=None)
    assert isinstance(found, Column)
    return found


def of_mariadb(name: str, digits: int) -> Column:
    native = MariadbNative(name=name, code=12, flags=0, length=26, scale=digits, charset="binary")
    found = mariadb(name, native, None)
    assert isinstance(found, Column)
    return found


def declared(kind: Type, *natives: str) -> list[tuple[Column, Column]]:
    first, second = (Column(name=name, type=kind, native=each) for name, each in zip(CURSOR, natives, strict=True))
    return [(first, second), (second, first)]


def statements(dialect: Connectable, columns: tuple[Column, Column]) -> Statements:
    return Statements(dialect=dialect, relation=dialect.relation("orders"), schema=Schema(columns=columns))


DIFFERENT = [
    *product([SqlServer()], declared(TIMESTAMP, "datetime2(7)", "smalldatetime")),
    *product([SqlServer()], declared(TIMESTAMP, "datetime2(3)", "datetime2(7)")),
    *product([Oracle()], declared(TIMESTAMP, "TIMESTAMP(6)", "TIMESTAMP(9)")),
    *product([Oracle()], declared(TIMESTAMP, "TIMESTAMP(6)", "DATE")),
    (Postgresql(), (of_postgres("updated_at", None), of_postgres("created_at", 0))),
    (Postgresql(), (of_postgres("updated_at", 3), of_postgres("created_at", None))),
    (Mariadb(), (of_mariadb("updated_at", 6), of_mariadb("created_at", 0))),
]
ALIKE = [
    (SqlServer(), declared(TIMESTAMP, "datetime2(7)", "datetime2(7)")[0]),
    (Oracle(), declared(TIMESTAMPTZ, "TIMESTAMP(9) WITH TIME ZONE", "TIMESTAMP(9) WITH TIME ZONE")[0]),
    (Postgresql(), (of_postgres("updated_at", None), of_postgres("created_at", 6))),
    (Postgresql(), (of_postgres("updated_at", 0), of_postgres("created_at", 0))),
    (Mariadb(), (of_mariadb("updated_at", 6), of_mariadb("created_at", 6))),
    (Mariadb(), (of_mariadb("updated_at", 0), of_mariadb("created_at", 0))),
]


@pytest.mark.parametrize(("dialect", "columns"), DIFFERENT)
def test_columns_of_other_digits_are_no_cursor(dialect: Connectable, columns: tuple[Column, Column]) -> None:
    asked = statements(dialect, columns)
    names = tuple(column.name for column in columns)
    with pytest.raises(ConfigError, match="must have one type with the same digits") as refused:
        asked.stats(Range(cursor=names, after=None, upto="2025-01-01 00:00:00.000000"))
    assert all(f"{column.name!r} is {column.label}" in str(refused.value) for column in columns)
    assert asked.cursor(names[:1])[1] == columns[0]


@pytest.mark.parametrize(("dialect", "columns"), ALIKE)
def test_columns_of_one_type_are_a_cursor(dialect: Connectable, columns: tuple[Column, Column]) -> None:
    sql, column = statements(dialect, columns).cursor(CURSOR)
    assert sql.startswith("coalesce(")
    assert column == columns[0]


def test_a_column_of_another_type_is_no_fallback() -> None:
    columns = (Column(name="updated_at", type=TIMESTAMP), Column(name="created_at", type=DATE))
    with pytest.raises(ConfigError, match="'updated_at' is timestamp_ntz and 'created_at' is date"):
        statements(Postgresql(), columns).cursor(CURSOR)


def test_a_fallback_is_refused_before_anything_is_asked(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    with sqlite3.connect(path) as writer:
        writer.execute(
            "CREATE TABLE orders (id INTEGER PRIMARY KEY, updated_at DATETIME, created_at DATE, at datetime)"
        )
    writer.close()
    source = Database(connection=Connection(name="file", url=f"sqlite:///{path}"), table="orders")
    with (
        pytest.raises(ConfigError, match="'updated_at' is DATETIME and 'created_at' is DATE"),
        source.probe(bound=TimeBound(column="updated_at", fallback="created_at")),
    ):
        pass
    with source.probe(bound=TimeBound(column="updated_at", fallback="at")) as probe:
        assert probe.edge().upto is not None
