"""The base of all loaders: read the position from the target, select new rows, commit, then update the watermark.

Always starts from the target's own position, and never touches the target before the checks have passed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from tidegate.core.position import Position
from tidegate.loaders import _places as places
from tidegate.loaders._applying import Applied, Checks, apply, position_of, sink_of
from tidegate.loaders._batches import Batch, aligned, changed, key_of, marked, need_columns, need_keys
from tidegate.loaders._folder import published
from tidegate.loaders._manifest import Manifest
from tidegate.loaders._watermarks import Watermarks
from tidegate.spark.failures import translated

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """The result of a load.

    Args:
        table_name: the stream's name in the watermark store.
        records: rows that were added, changed or deleted in the target.
        deleted: those of them that were deleted.
        duration: of the whole call.
        old_watermark: the target's watermark before; None for a first load.
        new_watermark: the target's watermark now.
        gaps: missing numbers between the two; None if not counted.
    """

    table_name: str
    records: int
    deleted: int
    duration: timedelta
    old_watermark: str | None
    new_watermark: str | None
    gaps: int | None = None


class IncrementalLoader:
    """Loads new rows exactly once, with only a Spark session; `select` and `watermark` define what is new.

    Args:
        spark: any session: local, of a cluster, Databricks, EMR, Spark Connect. Its settings stay as they are.
        source_format, target_format: parquet, csv, json, orc, delta or iceberg; detected if not given; a new
            target without one is Parquet.
        read_options: options of Spark's reader, for files.
        schema: the schema of those files, as DDL; without it, Spark infers the types of CSV and JSON.
        partition_by: partition columns of a new target.
        max_rows: a load of more rows stops before anything is written.
        not_null: columns that must not contain NULL.
    """

    kind = "custom"

    def __init__(  # noqa: PLR0913 - what people tell a loader
        self,
        spark: SparkSession,
        *,
        source_format: str | None = None,
        target_format: str | None = None,
        read_options: Mapping[str, str] | None = None,
        schema: str | None = None,
        partition_by: Sequence[str] = (),
        max_rows: int | None = None,
        not_null: Sequence[str] = (),
    ) -> None:
        self.spark = spark
        self._source_format = source_format
        self._target_format = target_format
        self._read_options = dict(read_options or {})
        self._schema = schema
        self._partition_by = tuple(partition_by)
        self._checks = Checks(max_rows=max_rows, not_null=tuple(not_null))

    def select(self, rows: DataFrame, watermark: str | None) -> DataFrame:
        """The source rows that a load has to look at; all rows, unless a subclass overrides this.

        Rows that the target already has may be included: a load skips them.

        Args:
            watermark: what `watermark` gave for the last load; None for the first.
        """
        del watermark
        return rows

    def watermark(self, rows: DataFrame, watermark: str | None) -> str | None:
        """The watermark after the rows are loaded, as text; the old one, unless a subclass overrides this."""
        del rows
        return watermark

    def load(
        self,
        source_path: str,
        target_path: str,
        watermark_path: str,
        table_name: str | None = None,
        *,
        primary_key: str | Sequence[str] | None = None,
    ) -> LoadResult:
        """Loads the rows of `select` that the target does not have: by key if there is one, else row by row.

        Raises:
            TidegateError: nothing of this load is in the target, unless it says otherwise.
        """
        key = key_of(primary_key)

        def batch(source: DataFrame, since: Position | None, present: DataFrame | None) -> Batch:
            old = since.loaded_through if since else None
            rows = self.select(source, old)
            return Batch(rows=new_rows(rows, present, key), key=key, watermark=self.watermark(rows, old))

        return self._load(source_path, target_path, watermark_path, table_name, batch)

    def read(self, path: str) -> DataFrame:
        """The rows at a path or of a table; of a target that a loader filled only what it published."""
        if entries := Manifest(spark=self.spark, path=path).entries():
            return published(self.spark, path, entries[-1])
        place = places.need(self.spark, path, self._source_format)
        return place.read(self.spark, self._read_options, self._schema)

    def _load(  # noqa: PLR0913, PLR0917 - as its callers
        self,
        source_path: str,
        target_path: str,
        watermark_path: str,
        table_name: str | None,
        batch_of: Callable[[DataFrame, Position | None, DataFrame | None], Batch],
        column: str | None = None,
    ) -> LoadResult:
        started = time.monotonic()
        name = table_name or places.short_name(target_path)
        with translated(f"loading {name}", target_path):
            sink = sink_of(self.spark, target_path, name, self._target_format, self._partition_by)
            since = position_of(sink, name, kind=self.kind, column=column)
            batch = batch_of(self.read(source_path), since, sink.read())
            done = apply(sink, since, batch, kind=self.kind, column=column, checks=self._checks)
            Watermarks(spark=self.spark, path=watermark_path).put(name, batch.watermark)
        return told(name, started, since, done, watermark=batch.watermark, gaps=batch.gaps)


def told(  # noqa: PLR0913 - what a result is made of
    name: str,
    started: float,
    since: Position | None,
    done: Applied | None,
    *,
    watermark: str | None,
    gaps: int | None = None,
) -> LoadResult:
    """What a load did; `done` is None for one that found nothing to do."""
    return LoadResult(
        table_name=name,
        records=done.records if done else 0,
        deleted=done.deleted if done else 0,
        duration=timedelta(seconds=time.monotonic() - started),
        old_watermark=since.loaded_through if since else None,
        new_watermark=watermark,
        gaps=gaps,
    )


def new_rows(rows: DataFrame, present: DataFrame | None, key: Sequence[str]) -> DataFrame:
    """The rows that the target does not hold: compared by key, or without one by the whole row and how often it comes.

    Rows: with a key one a key and `GONE`.
    """
    need_columns(rows, key)
    if not key:
        return rows if present is None else rows.exceptAll(aligned(present, rows))
    need_keys(rows, key)
    return marked(rows) if present is None else changed(rows, present, key)
