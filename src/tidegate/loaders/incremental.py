"""The base of all loaders: read the position from the target, select new rows, commit, then update the watermark.

Always starts from the target's own position, and never touches the target before the checks have passed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from tidegate.core.batch import Latest
from tidegate.core.position import Position
from tidegate.loaders import _places as places
from tidegate.loaders._applying import Checks, Load, LoadResult
from tidegate.loaders._batches import Batch, key_of, need_columns, new_rows, one_a_key
from tidegate.loaders._folder import published
from tidegate.loaders._manifest import Manifest
from tidegate.loaders._sink import Sink
from tidegate.loaders._watermarks import Watermarks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


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

        Equal rows of one key are loaded once.

        Raises:
            DuplicateKeys: rows of one key differ.
            TidegateError: nothing of this load is in the target, unless it says otherwise.
        """
        key = key_of(primary_key)

        def batch(source: DataFrame, since: Position | None, sink: Sink) -> Batch:
            old = since.loaded_through if since else None
            rows = self.select(source, old)
            need_columns(rows, key)
            single = one_a_key(rows, Latest(key=key, order=())) if key else rows
            new = new_rows(single, sink.read(), key, casts=sink.casts)
            return Batch(rows=new, key=key, watermark=self.watermark(rows, old))

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
        batch_of: Callable[[DataFrame, Position | None, Sink], Batch],
        column: str | None = None,
    ) -> LoadResult:
        load = Load(
            spark=self.spark,
            target=target_path,
            name=table_name or places.short_name(target_path),
            kind=self.kind,
            column=column,
            format=self._target_format,
            partition_by=self._partition_by,
            checks=self._checks,
        )
        marks = Watermarks(spark=self.spark, path=watermark_path)
        return load.run(
            lambda since, sink: batch_of(self.read(source_path), since, sink),
            lambda watermark: marks.put(load.name, watermark),
        )
