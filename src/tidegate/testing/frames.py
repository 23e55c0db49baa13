"""Turns rows in memory to DataFrames and back, with exact types.

Goes by Arrow, so that rows become a relation of the plan: no files, no Python workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tidegate.core.schema import Column, Kind, Type
from tidegate.spark.failures import translated

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]
    from pyspark.sql import DataFrame, SparkSession


def frame(session: SparkSession, columns: Sequence[Column], rows: Iterable[Mapping[str, Any]]) -> DataFrame:
    """A DataFrame of the rows: these columns in order, with their stored types.

    Raises:
        pyarrow.ArrowException: a value that its column's type cannot hold.
    """
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415 - rows are handled, Spark is running

    found = arrow_table(columns, rows)
    return session.createDataFrame(found, from_arrow_schema(found.schema, prefer_timestamp_ntz=True))


def arrow_table(columns: Sequence[Column], rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """An Arrow table of the rows: these columns in order, with their stored types. Raises as `frame`."""
    import pyarrow as pa  # noqa: PLC0415 - rows are handled

    rows = list(rows)
    schema = pa.schema([(column.name, arrow(column.type)) for column in columns])
    return pa.Table.from_arrays(
        [pa.array([row.get(each.name) for row in rows], each.type) for each in schema], schema=schema
    )


def collected(rows: DataFrame, doing: str) -> list[dict[str, Any]]:
    """The rows of a DataFrame as mappings; times with a zone are aware.

    Args:
        doing: for the error if Spark fails: "writing to lake.shop.orders".
    """
    with translated(doing):
        found: list[dict[str, Any]] = rows.toArrow().to_pylist()
    return found


def arrow(kind: Type) -> pa.DataType:
    """The Arrow type of a stored type."""
    import pyarrow as pa  # noqa: PLC0415 - rows are handled, Spark is running

    stored = kind.stored
    if stored.kind is Kind.DECIMAL:
        return pa.decimal128(stored.precision, stored.scale)
    if stored.kind is Kind.ARRAY and stored.element is not None:
        return pa.list_(arrow(stored.element))
    return {
        (Kind.BOOLEAN, 0): pa.bool_(),
        (Kind.INTEGER, 32): pa.int32(),
        (Kind.INTEGER, 64): pa.int64(),
        (Kind.FLOAT, 32): pa.float32(),
        (Kind.FLOAT, 64): pa.float64(),
        (Kind.DATE, 0): pa.date32(),
        (Kind.TIMESTAMP, 0): pa.timestamp("us"),
        (Kind.TIMESTAMPTZ, 0): pa.timestamp("us", tz="UTC"),
        (Kind.TEXT, 0): pa.string(),
        (Kind.BINARY, 0): pa.binary(),
    }[stored.kind, stored.bits]
