"""Passes events decoded in Python to Spark: as text files, written in chunks, and typed by Spark.

An event with a value that does not fit its type is refused; the value never becomes NULL.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.core.log import CLEARS, ORIGIN, RAW, REFUSED, UNKNOWN
from tidegate.core.schema import Column, Schema
from tidegate.dialects.postgresql.output_functions import stored
from tidegate.dialects.spark import Spark
from tidegate.sources.change_log.slot.events import Event
from tidegate.spark import sql, temporary
from tidegate.spark.dataframe_ops import DELETED, ORDER

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]
    from pyspark.sql import DataFrame, SparkSession

CHUNK = 20_000


@contextmanager
def spooled(session: SparkSession, found: Iterator[Event], schema: Schema, place: Path) -> Iterator[DataFrame]:
    """The events as Spark has them, for as long as this is open; see `core.ports.source.Log` for the rows.

    A session that does not share this machine's files is handed them in memory.

    Args:
        place: the folder in which files are made, and in which those that a killed run left are removed.
    """
    if not _shares_files(session):
        import pyarrow as pa  # noqa: PLC0415 - a run that moves nothing does not need it

        yield _typed(session.createDataFrame(pa.concat_tables(_tables(found, schema))), schema)
        return
    with temporary.folder(place) as folder:
        _write(_tables(found, schema), folder)
        path = sql.literal_path(f"file://{folder.resolve()}")
        yield _typed(session.read.schema(_ddl(schema)).parquet(path), schema)


def _tables(found: Iterator[Event], schema: Schema) -> Iterator[pa.Table]:
    """At least one table."""
    yield _table(list(itertools.islice(found, CHUNK)), schema)
    while chunk := list(itertools.islice(found, CHUNK)):
        yield _table(chunk, schema)


def _shares_files(session: SparkSession) -> bool:
    """Whether Spark reads the files of this machine: it runs in this very process, on no cluster."""
    connected = type(session).__module__.startswith("pyspark.sql.connect")
    return not connected and str(session.conf.get("spark.master", "")).startswith("local")


def _aliases(schema: Schema) -> list[str]:
    return [f"c{place}" for place in range(len(schema.columns))]


def _ddl(schema: Schema) -> str:
    values = ", ".join(f"{alias} string" for alias in _aliases(schema))
    return f"o string, g boolean, t boolean, u array<string>, f string, r string, p string, {values}"


def _table(found: Sequence[Event], schema: Schema) -> pa.Table:
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
        alias: pa.array([event.values[place] for event in found], text) for place, alias in enumerate(_aliases(schema))
    }
    return pa.table({**columns, **values})


def _write(tables: Iterator[pa.Table], folder: Path) -> None:
    from pyarrow import parquet  # noqa: PLC0415 - as above

    for place, table in enumerate(tables):
        parquet.write_table(table, folder / f"{place:06d}.parquet")


def _typed(texts: DataFrame, schema: Schema) -> DataFrame:
    """Texts of PostgreSQL's as stored values; an event with one that its type cannot keep is refused.

    Rows: see `core.ports.source.Log`.
    """
    aliases = _aliases(schema)
    values = [stored(alias, column) for alias, column in zip(aliases, schema, strict=True)]
    mismatches = [
        f"CASE WHEN {alias} IS NOT NULL AND {value} IS NULL THEN {Spark().string(_type_mismatch(column))} END"
        for alias, value, column in zip(aliases, values, schema, strict=True)
        if value != alias
    ]
    refused = f"coalesce(f, {', '.join([*mismatches, 'CAST(NULL AS string)'])})"
    named = ", ".join(Spark().string(name) for name in schema.names)
    raw = f"coalesce(r, to_json(map_from_arrays(array({named}), array({', '.join(aliases)}))))"
    step = texts.selectExpr(
        *(f"{value} AS v{place}" for place, value in enumerate(values)), "*", f"{refused} AS w", f"{raw} AS x"
    )
    found = step.selectExpr(
        *(f"v{place}" for place in range(len(values))),
        "g",
        "o",
        "u",
        "t",
        "w",
        "p",
        "CASE WHEN w IS NOT NULL THEN x END",
    )
    return found.toDF(*schema.names, DELETED, ORDER, UNKNOWN, CLEARS, REFUSED, ORIGIN, RAW)


def _type_mismatch(column: Column) -> str:
    return f"column {column.name!r} holds a value that does not fit {column.type}"
