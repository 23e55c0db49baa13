"""The types of each database by what its catalog or driver says of them: exact ones, or a refusal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tidegate.core.column_selection import ColumnSelection
from tidegate.core.schema import JSON, TEXT, Column
from tidegate.dialects.duckdb import types as duckdb
from tidegate.dialects.mariadb import types as mariadb
from tidegate.dialects.oracle import Oracle
from tidegate.dialects.oracle import types as oracle
from tidegate.dialects.shared.columns import described
from tidegate.dialects.snowflake import Snowflake
from tidegate.dialects.snowflake import types as snowflake
from tidegate.dialects.sqlserver import types as sqlserver
from tidegate.dialects.teradata import types as teradata
from tidegate.dialects.trino import types as trino
from tidegate.errors import SchemaRefused

ColumnOf = Callable[[str, Any, str | None], Column | str]


def my(code: int, **facts: Any) -> mariadb.Native:
    """What MariaDB's driver says of a column."""
    given = {"name": "x", "code": code, "flags": 0, "length": 11, "scale": 0, "charset": "binary"}
    return mariadb.Native(**{**given, **facts})


def number(digits: int = 0, scale: int = 0) -> oracle.Native:
    return oracle.Native(word="NUMBER", digits=digits, scale=scale)


def snow(name: str, precision: int = 0, scale: int = 0) -> snowflake.Native:
    return snowflake.Native(**{"name": name, **{k: v for k, v in (("precision", precision), ("scale", scale)) if v}})


# What is said of the column, the type that is stated, and Spark's word for what it is read as.
TAKEN: list[tuple[ColumnOf, Any, str | None, str]] = [
    *(
        (mariadb.column_of, native, None, spark)
        for native, spark in (
            (my(1, length=1), "int"),
            (my(3), "int"),
            (my(3, flags=32), "bigint"),
            (my(9, flags=32), "int"),
            (my(8), "bigint"),
            (my(8, flags=32), "decimal(20,0)"),
            (my(246, length=40, scale=4), "decimal(38,4)"),
            (my(246, length=6, scale=5, flags=32), "decimal(5,5)"),
            (my(246, length=67, scale=10), "string"),
            (my(16, length=1), "boolean"),
            (my(253, charset="latin1"), "string"),
            (my(254, charset="utf8mb4", flags=256), "string"),
            (my(254), "binary"),
            (my(252), "binary"),
            (my(7), "timestamp"),
            (my(12), "timestamp_ntz"),
        )
    ),
    (mariadb.column_of, my(1, length=1), "boolean", "boolean"),
    (mariadb.column_of, my(246, length=67, scale=10), "decimal(20,4)", "decimal(20,4)"),
    *((mariadb.column_of, native, "text", "string") for native in (my(16, length=9), my(255), my(12))),
    *(
        (oracle.column_of, native, None, spark)
        for native, spark in (
            (number(9), "int"),
            (number(18), "bigint"),
            (number(19), "decimal(19,0)"),
            (number(10, 2), "decimal(10,2)"),
            (number(5, -2), "int"),
            (number(2, 5), "decimal(5,5)"),
            (number(38, -3), "string"),
            (number(0, -127), "string"),
            (number(126, -127), "string"),
            (oracle.Native(word="DATE"), "timestamp_ntz"),
            (oracle.Native(word="TIMESTAMP_LTZ", scale=6), "timestamp"),
            (oracle.Native(word="RAW", digits=16), "binary"),
        )
    ),
    (oracle.column_of, oracle.Native(word="RAW", digits=16), "uuid", "string"),
    (sqlserver.column_of, ("money", True), None, "decimal(19,4)"),
    (sqlserver.column_of, ("timestamp", True), None, "bigint"),
    *(
        (teradata.column_of, (native, True), None, spark)
        for native, spark in (
            ("BYTEINT", "int"),
            ("DECIMAL(12,4)", "decimal(12,4)"),
            ("NUMBER(10)", "decimal(10,0)"),
            ("CHAR(5) CHARACTER SET LATIN NOT CASESPECIFIC", "string"),
            ("TIMESTAMP(0)", "timestamp_ntz"),
            ("TIMESTAMP(6) WITH TIME ZONE", "timestamp"),
        )
    ),
    (trino.column_of, ("timestamp(9) with time zone", True), None, "timestamp"),
    (snowflake.column_of, snow("FIXED", 38), None, "decimal(38,0)"),
    (snowflake.column_of, snow("FIXED", 38), "bigint", "bigint"),
    (snowflake.column_of, snow("FIXED", 12, 2), "text", "string"),
    (snowflake.column_of, snow("REAL"), None, "double"),
    (snowflake.column_of, snow("TIMESTAMP_TZ", scale=9), None, "timestamp"),
    (snowflake.column_of, snow("TIMESTAMP_LTZ", scale=3), "text", "string"),
    (snowflake.column_of, snow("VARIANT"), "json", "string"),
    *((snowflake.column_of, snow(name), "text", "string") for name in sorted(snowflake.DOCUMENTS)),
]
# Types of which no table of the lake keeps every value; the answer is the database's word for it.
NOT_TAKEN: list[tuple[ColumnOf, Any]] = [
    *((mariadb.column_of, native) for native in (my(16, length=9), my(255), my(6), my(242))),
    (oracle.column_of, oracle.Native(word="CLOB")),
    (sqlserver.column_of, ("sql_variant", True)),
    *(
        (teradata.column_of, (native, True))
        for native in ("NUMBER", "CLOB(100)", "TIME(6) WITH TIME ZONE", "INTERVAL DAY(2)", "PERIOD(DATE)")
    ),
    *(
        (snowflake.column_of, snow(name))
        for name in ("VARIANT", "ARRAY", "OBJECT", "GEOGRAPHY", "VECTOR", "MAP", "DECFLOAT")
    ),
]
# Types that are stated and in which values could change.
CHANGING: list[tuple[ColumnOf, Any, str]] = [
    (mariadb.column_of, my(12), "date"),
    (mariadb.column_of, my(253, charset="utf8mb4"), "boolean"),
    (oracle.column_of, oracle.Native(word="CLOB"), "text"),
    (oracle.column_of, oracle.Native(word="RAW", digits=8), "uuid"),
    (sqlserver.column_of, ("geography", True), "text"),
    (teradata.column_of, ("CLOB(100)", True), "text"),
    (snowflake.column_of, snow("FIXED", 12, 2), "bigint"),
    (snowflake.column_of, snow("FIXED", 12, 2), "decimal(10,2)"),
    (snowflake.column_of, snow("REAL"), "text"),
    (snowflake.column_of, snow("GEOGRAPHY"), "text"),
    (snowflake.column_of, snow("TIMESTAMP_NTZ", scale=9), "date"),
]


@pytest.mark.parametrize(("column_of", "native", "stated", "spark"), TAKEN)
def test_a_type_that_is_kept(column_of: ColumnOf, native: Any, stated: str | None, spark: str) -> None:
    column = column_of("x", native, stated)
    assert isinstance(column, Column), column
    assert column.type.stored.spark == spark
    assert column_of is not mariadb.column_of or (column.native or "").endswith(" stated") == (stated is not None)


@pytest.mark.parametrize(("column_of", "native"), NOT_TAKEN)
def test_a_type_that_is_not_kept_is_named(column_of: ColumnOf, native: Any) -> None:
    word = column_of("x", native, None)
    assert isinstance(word, str)
    assert word


@pytest.mark.parametrize(("column_of", "native", "stated"), CHANGING)
def test_a_type_in_which_values_could_change_is_refused(column_of: ColumnOf, native: Any, stated: str) -> None:
    with pytest.raises(SchemaRefused, match="cannot be read as"):
        column_of("x", native, stated)


@pytest.mark.parametrize(
    ("column_of", "native", "label"),
    [
        (mariadb.column_of, my(1, length=1), "tinyint(1)"),
        (mariadb.column_of, my(3, flags=32), "int unsigned"),
        (mariadb.column_of, my(9, flags=32), "mediumint unsigned"),
        (mariadb.column_of, my(246, length=67, scale=10), "decimal(65,10)"),
        (mariadb.column_of, my(16, length=1), "bit(1)"),
        (mariadb.column_of, my(253, charset="latin1"), "varchar charset latin1"),
        (mariadb.column_of, my(254, charset="utf8mb4", flags=256), "enum charset utf8mb4"),
        (oracle.column_of, number(9), "NUMBER(9,0)"),
        (oracle.column_of, number(5, -2), "NUMBER(5,-2)"),
        (oracle.column_of, number(38, -3), "NUMBER"),
        (oracle.column_of, oracle.Native(word="TIMESTAMP_LTZ", scale=6), "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
        (oracle.column_of, oracle.Native(word="RAW", digits=16), "RAW(16)"),
        (trino.column_of, ("timestamp(9) with time zone", True), "timestamp(9) with time zone"),
        (snowflake.column_of, snow("TIMESTAMP_TZ", scale=9), "TIMESTAMP_TZ(9)"),
    ],
)
def test_a_column_is_labelled_as_the_database_declares_it(column_of: ColumnOf, native: Any, label: str) -> None:
    column = column_of("x", native, None)
    assert isinstance(column, Column)
    assert column.native == label


def test_types_of_duckdb_by_its_words() -> None:
    expected = {
        "UBIGINT": "decimal(20,0)",
        "HUGEINT": "decimal(38,0)",
        "DECIMAL(18,3)": "decimal(18,3)",
        "ENUM('a', 'b')": "string",
        "INTEGER[]": "array<int>",
        "VARCHAR[3]": "array<string>",
        **dict.fromkeys(("INTEGER[][]", "STRUCT(a INTEGER)", "INTERVAL", "TIME WITH TIME ZONE", "BIGNUM")),
    }
    found = {word: duckdb.type_of(word) for word in expected}
    assert {word: kind and kind.spark for word, kind in found.items()} == expected


def test_bytes_that_are_stated_to_be_a_uuid() -> None:
    column = oracle.column_of("x", oracle.Native(word="RAW", digits=16), "uuid")
    assert isinstance(column, Column)
    assert Oracle().text('"x"', column).startswith("lower(regexp_replace(rawtohex(")


@pytest.mark.parametrize(
    ("columns", "advice"),
    [
        ({"V": "VARIANT", "O": "OBJECT"}, "`source: {columns: {V: text, O: text}}`, or leave them out"),
        ({"V": "VARIANT", "G": "GEOGRAPHY"}, "`source: {columns: {V: text}, exclude: [G]}`, or cast them"),
        ({"G": "GEOGRAPHY"}, "Cast them in a `query:`, or leave them out"),
    ],
)
def test_a_document_of_snowflake_is_refused_until_the_project_says_what_it_is(
    columns: dict[str, str], advice: str
) -> None:
    natives = [("ID", snow("FIXED", 10)), *((name, snow(word)) for name, word in columns.items())]
    found = described("S.T", natives, ColumnSelection(), snowflake.column_of, as_text=snowflake.DOCUMENTS)
    with pytest.raises(SchemaRefused, match="can store these columns exactly") as refused:
        found.schema()
    assert advice in refused.value.hint
    assert [column.name for column in found.columns] == ["ID"]
    assert refused.value.context["columns"] == tuple(columns)


def test_what_snowflake_is_read_as_is_as_it_writes_it() -> None:
    expected = {
        ("VARIANT", JSON): "to_json(x)",
        ("TIMESTAMP_TZ(9)", TEXT): "to_char(x, 'YYYY-MM-DD HH24:MI:SS.FF9 TZH:TZM')",
        ("TIME(9)", TEXT): "to_char(x, 'HH24:MI:SS.FF9')",
        ("NUMBER(12,2)", TEXT): "to_varchar(x)",
        ("VARCHAR", TEXT): "x",
    }
    found = {
        (native, kind): Snowflake().text("x", Column(name="x", type=kind, native=native)) for native, kind in expected
    }
    assert found == expected
