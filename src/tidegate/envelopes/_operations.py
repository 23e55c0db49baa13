"""Turns rows with an operation and an order into events.

Never guesses an operation, nor orders events by text that does not sort like its values.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from string import ascii_lowercase, ascii_uppercase
from typing import TYPE_CHECKING

from tidegate.core.log import CLEARS, ORIGIN, RAW, REFUSED, UNKNOWN
from tidegate.core.schema import Column, Kind, Schema
from tidegate.dialects.spark import Spark
from tidegate.errors import ColumnMissing, ConfigError
from tidegate.spark.dataframe_ops import DELETED, ORDER
from tidegate.spark.sql import padded

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PUTS = ("INSERT", "UPDATE", "UPSERT", "I", "U", "C", "R")
DELETES = ("DELETE", "D")
TRUNCATES = ("TRUNCATE", "T")
WIDTH = 38
SEPARATOR = " "
"""Sorts before everything that a number, a time or hexadecimal digits are written with."""


def without(columns: Schema, names: Iterable[str]) -> Schema:
    """The columns without these. Raises ColumnMissing: there is no column of one of these names."""
    left = set(names)
    missing = sorted(left - set(columns.names))
    if missing:
        raise ColumnMissing(
            f"the events have no column {missing[0]!r}; they have: {', '.join(columns.names)}",
            hint="Set the columns of operation and order: `source: {envelope: {kind: rows, operation: …}}`.",
            column=missing[0],
        )
    return Schema(columns=tuple(column for column in columns if column.name not in left))


def word(name: str) -> str:
    """The expression of an operation as it is compared: without blanks, in capital letters.

    Not by `upper`, which spends seconds on tables of all of Unicode when a Spark first uses it.
    """
    return f"translate(trim(CAST({Spark().quote(name)} AS string)), '{ascii_lowercase}', '{ascii_uppercase}')"


def orders(columns: Sequence[Column]) -> str:
    """The order as one text that sorts, by code points, as these columns do one after the other; NULL where one is.

    Raises:
        ConfigError: a column of a type that has no such text.
    """
    return f"concat_ws('{SEPARATOR}', {', '.join(map(_sorted, columns))})"


def _sorted(column: Column) -> str:
    spark = Spark()
    name = spark.quote(column.name)
    match column.type.kind:
        case Kind.INTEGER | Kind.DECIMAL if not column.type.scale:
            return padded(f"CAST({name} AS string)", WIDTH)
        case Kind.TEXT | Kind.DATE | Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
            return spark.text(name, column)
        case Kind.BINARY:
            return f"hex({name})"
        case _:
            raise ConfigError(
                f"column {column.name!r} is {column.type}, which cannot order events",
                hint="Use integers, timestamps or strings that sort: `source: {envelope: {kind: rows, sequence: …}}`.",
            )


def unordered(columns: Sequence[Column]) -> str:
    """The condition of a row whose order has no such text: NULL, or a number below zero."""
    found = [f"{Spark().quote(column.name)} IS NULL" for column in columns]
    numbers = (column for column in columns if column.type.kind in (Kind.INTEGER, Kind.DECIMAL))
    return " OR ".join([*found, *(f"{Spark().quote(column.name)} < 0" for column in numbers)])


def events(rows: DataFrame, schema: Schema, *, operation: str, order: str, unordered: str) -> DataFrame:
    """Rows as events.

    Args:
        operation: the expression of one of the words above, in capital letters.
        order, unordered: of `orders` and `unordered`.
    """
    spark = Spark()
    known = ", ".join(f"'{word}'" for word in (*PUTS, *DELETES, *TRUNCATES))
    words = "INSERT, UPDATE, DELETE, TRUNCATE or their first letters"
    reasons = (
        f"{REFUSED}",
        f"CASE WHEN {operation} IS NULL OR {operation} NOT IN ({known}) THEN 'its operation is not one of {words}' END",
        f"CASE WHEN {unordered} THEN 'it has no order' END",
    )
    return rows.selectExpr(
        *(spark.quote(name) for name in schema.names),
        f"coalesce({operation} IN ({_listed(DELETES)}), false) AS {DELETED}",
        f"{order} AS {ORDER}",
        f"CAST(array() AS array<string>) AS {UNKNOWN}",
        f"coalesce({operation} IN ({_listed(TRUNCATES)}), false) AS {CLEARS}",
        f"coalesce({', '.join(reasons)}) AS {REFUSED}",
        ORIGIN,
        RAW,
    )


def _listed(words: Iterable[str]) -> str:
    return ", ".join(f"'{word}'" for word in words)
