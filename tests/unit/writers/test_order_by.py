"""What `order_by` of a merge takes: values that sort at the source as they do in the table."""

from __future__ import annotations

import pytest

from tidegate.core.batch import Latest
from tidegate.core.schema import JSON, TEXT, UUID, Column, Schema, decimal
from tidegate.dialects.duckdb.types import column_of as duckdb
from tidegate.dialects.mariadb.types import DECIMAL, ENUM
from tidegate.dialects.mariadb.types import Native as MariadbNative
from tidegate.dialects.mariadb.types import column_of as mariadb
from tidegate.dialects.oracle.types import Native as OracleNative
from tidegate.dialects.oracle.types import column_of as oracle
from tidegate.dialects.postgresql.types import Native as PostgresNative
from tidegate.dialects.postgresql.types import column_of as postgres
from tidegate.dialects.snowflake.types import Native as SnowflakeNative
from tidegate.dialects.snowflake.types import column_of as snowflake
from tidegate.dialects.sqlite.types import column_of as sqlite
from tidegate.errors import SchemaRefused
from tidegate.writers.merge import Merge


def of_postgres(name: str, *, modifier: int = -1, category: str = "b", override: str | None = None) -> Column | str:
    native = PostgresNative(
        modifier=modifier, oid=1, name=name, category=category, built_in=category == "b", element=None, called=name
    )
    return postgres("revision", native, nullable=False, override=override)


def of_mariadb(code: int, *, length: int = 20, flags: int = 0, scale: int = 0, override: str | None = None) -> Column:
    native = MariadbNative(name="revision", code=code, flags=flags, length=length, scale=scale, charset="utf8mb4")
    found = mariadb("revision", native, override)
    assert isinstance(found, Column)
    return found


SORT_OTHERWISE = {
    "a number of any digits": of_postgres("numeric"),
    "a number of 50 digits": of_postgres("numeric", modifier=(50 << 16 | 2) + 4),
    "an enum": of_postgres("state", category="e"),
    "an enum that is called text": of_postgres("text", category="e"),
    "an address": of_postgres("inet"),
    "an interval as text": of_postgres("interval", override="text"),
    "an integer as text": of_postgres("int4", override="text"),
    "a document": of_postgres("jsonb"),
    "a decimal of MariaDB": of_mariadb(DECIMAL, length=41),
    "an enum of MariaDB": of_mariadb(254, flags=ENUM),
    "a time of MariaDB, which may be 100 hours": of_mariadb(11),
    "an integer of MariaDB as text": of_mariadb(3, override="text"),
    "a NUMBER": oracle("revision", OracleNative(word="NUMBER"), None),
    "a NUMBER with digits as text": oracle("revision", OracleNative(word="NUMBER", digits=9), "text"),
    "an integer of SQLite as text": sqlite("revision", ("INTEGER", True), "text"),
    "an enum of DuckDB": duckdb("revision", ("ENUM('small', 'big')", True), None),
    "an integer of DuckDB as text": duckdb("revision", ("INTEGER", True), "text"),
    "a number of Snowflake as text": snowflake("revision", SnowflakeNative(name="FIXED", precision=9), "text"),
}
SORT_ALIKE = {
    "a text": of_postgres("text"),
    "a padded text": of_postgres("bpchar"),
    "a text stated as one": of_postgres("varchar", override="text"),
    "an integer": of_postgres("int4"),
    "a number with its digits stated": of_postgres("numeric", override="decimal(38,9)"),
    "a uuid": of_postgres("uuid"),
    "a text of MariaDB": of_mariadb(253),
    "a decimal of MariaDB with its digits stated": of_mariadb(DECIMAL, length=41, override="decimal(38,0)"),
    "a text of Oracle": oracle("revision", OracleNative(word="VARCHAR"), None),
    "a NUMBER with its digits stated": oracle("revision", OracleNative(word="NUMBER"), "bigint"),
    "a text of SQLite": sqlite("revision", ("VARCHAR(10)", True), "text"),
    "a text of DuckDB": duckdb("revision", ("VARCHAR", True), "text"),
    "a text of Snowflake": snowflake("revision", SnowflakeNative(name="TEXT"), None),
    "a column of a file": Column(name="revision", type=TEXT),
}


@pytest.mark.parametrize("column", SORT_OTHERWISE.values(), ids=list(SORT_OTHERWISE))
def test_what_sorts_differently_as_text_orders_no_rows(column: Column) -> None:
    schema = Schema(columns=(column,))
    with pytest.raises(SchemaRefused, match="cannot order rows by revision") as refused:
        Merge(order_by=("revision",)).added(schema, ())
    assert column.label in str(refused.value)
    assert 'source: {columns: {revision: "decimal(38,9)"}}' in refused.value.hint
    assert column.type.stored == TEXT
    assert Merge(order_by=("other",)).added(schema, ()) == Merge().added(schema, ()) == ()


@pytest.mark.parametrize("column", SORT_ALIKE.values(), ids=list(SORT_ALIKE))
def test_what_sorts_alike_orders_rows(column: Column) -> None:
    assert column.type in (TEXT, UUID) or column.type.stored != TEXT
    assert Merge(order_by=("revision",)).added(Schema(columns=(column,)), ()) == ()


@pytest.mark.parametrize(
    ("cursor", "rule"),
    [
        (("at",), Latest(key=("id",), order=("at", "revision"))),
        (("revision",), Latest(key=("id",), order=("revision",))),
        ((), Latest(key=("id",), order=("revision",))),
        (("at", "made"), Latest(key=("id",), cursor=("at", "made"), order=("revision",))),
    ],
)
def test_only_between_rows_of_one_moment_order_by_decides(cursor: tuple[str, ...], rule: Latest) -> None:
    assert Merge(order_by=("revision",)).latest(("id",), cursor) == rule


def test_a_document_sorts_nowhere() -> None:
    columns = Schema(columns=(Column(name="revision", type=JSON), Column(name="n", type=decimal(38, 9))))
    with pytest.raises(SchemaRefused, match="cannot order rows by revision"):
        Merge(order_by=("n", "revision")).added(columns, ())
