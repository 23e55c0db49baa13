"""Passes events decoded in Python to Spark: as files, written in chunks, and typed by Spark.

An event with a value that does not fit its type is refused; the value never becomes NULL.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.core.log import CLEARS, ORIGIN, RAW, REFUSED, UNKNOWN
from tidegate.core.ports.dialect import Dialect
from tidegate.core.schema import Column, Kind, Schema
from tidegate.dialects.spark import Spark
from tidegate.sources.change_log.events import Event
from tidegate.spark import sql, temporary
from tidegate.spark.dataframe_ops import DELETED, ORDER

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]
    from pyspark.sql import DataFrame, SparkSession

CHUNK = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """How the values of one column travel.

    Args:
        wire: the type of the values of an event, as Spark's DDL has it.
        value: Spark's expression of the stored value of one; NULL for NULL and for what the column cannot keep.
        text: that of a text for people.
    """

    wire: str
    value: Callable[[str], str]
    text: Callable[[str], str] = str


def of_query(dialect: Dialect, column: Column, *, utc: bool) -> Carried:
    """As a query of the database gives the column, see `Dialect.read`.

    Args:
        utc: see `Spark.decode`.
    """
    spark, wire_format = Spark(), dialect.read(column).wire_format

    def value(alias: str) -> str:
        return spark.decode(alias, column, wire_format, utc=utc)

    def text(alias: str) -> str:
        return f"base64({alias})" if column.type.kind is Kind.BINARY else f"CAST({value(alias)} AS string)"

    return Carried(wire=spark.wire_type(column, wire_format), value=value, text=text)


@contextmanager
def spooled(
    session: SparkSession, found: Iterator[Event], schema: Schema, carried: Sequence[Carried], place: Path
) -> Iterator[DataFrame]:
    """The events as Spark has them, for as long as this is open; see `core.ports.capabilities.Log` for the rows.

    A session that does not share this machine's files is handed them in memory.

    Args:
        carried: of each column of the schema.
        place: the folder in which files are made, and in which those that a killed run left are removed.
    """
    if not _shares_files(session):
        import pyarrow as pa  # noqa: PLC0415 - a run that moves nothing does not need it

        yield _typed(session.createDataFrame(pa.concat_tables(_tables(found, carried))), schema, carried)
        return
    with temporary.folder(place) as folder:
        _write(_tables(found, carried), folder)
        path = sql.literal_path(f"file://{folder.resolve()}")
        yield _typed(session.read.schema(_ddl(carried)).parquet(path), schema, carried)


def _tables(found: Iterator[Event], carried: Sequence[Carried]) -> Iterator[pa.Table]:
    """At least one table."""
    yield _table(list(itertools.islice(found, CHUNK)), carried)
    while chunk := list(itertools.islice(found, CHUNK)):
        yield _table(chunk, carried)


def _shares_files(session: SparkSession) -> bool:
    """Whether Spark reads the files of this machine: it runs in this very process, on no cluster."""
    connected = type(session).__module__.startswith("pyspark.sql.connect")
    return not connected and str(session.conf.get("spark.master", "")).startswith("local")


def _aliases(carried: Sequence[Carried]) -> list[str]:
    return [f"c{place}" for place in range(len(carried))]


def _ddl(carried: Sequence[Carried]) -> str:
    values = ", ".join(f"{alias} {each.wire}" for alias, each in zip(_aliases(carried), carried, strict=True))
    return f"o string, g boolean, t boolean, u array<string>, f string, r string, p string, {values}"


def _table(found: Sequence[Event], carried: Sequence[Carried]) -> pa.Table:
    import pyarrow as pa  # noqa: PLC0415 - as above

    text = pa.string()
    columns = {
        "o": pa.array([event.order for event in found], text),
        "g": pa.array([event.deleted for event in found], pa.bool_()),
        "t": pa.array([event.clears for event in found], pa.bool_()),
        "u": pa.array([event.unknown for event in found], pa.list_(text)),
        "f": pa.array([event.refused for event in found], text),
        "r": pa.array([event.raw for event in found], text),
        "p": pa.array([event.origin for event in found], text),
    }
    values = {
        alias: pa.array([event.values[place] for event in found], _arrow(each.wire))
        for place, (alias, each) in enumerate(zip(_aliases(carried), carried, strict=True))
    }
    return pa.table({**columns, **values})


def _arrow(wire: str) -> pa.DataType:
    import pyarrow as pa  # noqa: PLC0415 - as above

    if wire.startswith("decimal"):
        precision, scale = map(int, wire[len("decimal(") : -1].split(","))
        return pa.decimal128(precision, scale)
    plain = {"boolean": pa.bool_(), "int": pa.int32(), "bigint": pa.int64(), "float": pa.float32()}
    return (plain | {"double": pa.float64(), "binary": pa.binary(), "string": pa.string()})[wire]


def _write(tables: Iterator[pa.Table], folder: Path) -> None:
    from pyarrow import parquet  # noqa: PLC0415 - as above

    for place, table in enumerate(tables):
        parquet.write_table(table, folder / f"{place:06d}.parquet")


def _typed(found: DataFrame, schema: Schema, carried: Sequence[Carried]) -> DataFrame:
    """Values as they are stored; an event with one that its type cannot keep is refused.

    Rows: see `core.ports.capabilities.Log`.
    """
    aliases = _aliases(carried)
    values = [each.value(alias) for alias, each in zip(aliases, carried, strict=True)]
    texts = ", ".join(each.text(alias) for alias, each in zip(aliases, carried, strict=True))
    mismatches = [
        f"CASE WHEN {alias} IS NOT NULL AND {value} IS NULL THEN {Spark().string(_type_mismatch(column))} END"
        for alias, value, column in zip(aliases, values, schema, strict=True)
        if value != alias
    ]
    refused = f"coalesce(f, {', '.join([*mismatches, 'CAST(NULL AS string)'])})"
    named = ", ".join(Spark().string(name) for name in schema.names)
    raw = f"coalesce(r, to_json(map_from_arrays(array({named}), array({texts}))))"
    step = found.selectExpr(
        *(f"{value} AS v{place}" for place, value in enumerate(values)), "*", f"{refused} AS w", f"{raw} AS x"
    )
    typed = step.selectExpr(
        *(f"v{place}" for place in range(len(values))),
        "g",
        "o",
        "u",
        "t",
        "w",
        "p",
        "CASE WHEN w IS NOT NULL THEN x END",
    )
    return typed.toDF(*schema.names, DELETED, ORDER, UNKNOWN, CLEARS, REFUSED, ORIGIN, RAW)


def _type_mismatch(column: Column) -> str:
    return f"column {column.name!r} holds a value that does not fit {column.type}"
