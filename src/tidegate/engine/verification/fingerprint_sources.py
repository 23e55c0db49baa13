"""Computes fingerprints and row digests of both sides of a comparison: the source's engine, and Spark for the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.core.batch import Latest
from tidegate.core.bucketing import Buckets, RowDigest
from tidegate.core.fingerprint import Fingerprint
from tidegate.core.ports.source import Probe
from tidegate.core.schema import Column, Schema
from tidegate.core.slices import Slice
from tidegate.dialects.shared.buckets import GroupExpression, field, in_key_ranges, key_range
from tidegate.dialects.shared.buckets import spread as spread_sql
from tidegate.dialects.spark import Spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SPANS = 16  # intervals of keys that files are pruned by


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSide:
    """The source's rows up to the position, or the last one of each key among them, computed by its own engine."""

    probe: Probe
    part: Slice
    key: tuple[str, ...]
    latest: Latest | None = None

    def spread(self, spread: Buckets) -> Mapping[str, Fingerprint]:
        return self.probe.spread(self.part, self.key, spread, latest=self.latest)

    def digests(self, spread: Buckets) -> Sequence[RowDigest]:
        return self.probe.digests(self.part, self.key, spread, latest=self.latest)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSide:
    """The rows of one version of the table, computed by Spark; columns that it lacks count as NULL."""

    rows: DataFrame
    columns: Schema
    key: tuple[str, ...]

    def spread(self, spread: Buckets) -> Mapping[str, Fingerprint]:
        from tidegate.spark import dataframe_ops  # noqa: PLC0415 - rows are looked at, Spark is running

        rows = self.within(spread)
        if spread.width is not None:
            by, rest = key_range(Spark(), self._key()[0], spread.width)
            return dataframe_ops.ranges(rows, by=by, rest=rest)
        steps = Spark().steps(self._key() if spread.keys else self.columns.columns)
        found = dataframe_ops.partitions(rows, by=self._bucket(spread.count).value, steps=steps)
        return {str(number): one for number, one in found.items()}

    def digests(self, spread: Buckets) -> Sequence[RowDigest]:
        asked = [*self.texts(), f"{Spark().row_digest(self.columns.columns)} AS digest"]
        return [
            RowDigest(key=tuple(row[:-1]), digest=row[-1]) for row in self.within(spread).selectExpr(*asked).collect()
        ]

    def texts(self) -> list[str]:
        """The key as canonical texts, in columns `k0`, `k1` …."""
        spark = Spark()
        return [f"{spark.text(spark.quote(column.name), column)} AS k{n}" for n, column in enumerate(self._key())]

    def within(self, spread: Buckets) -> DataFrame:
        """The rows of the buckets named by `within`."""
        if spread.within is None:
            return self.rows
        if spread.width is not None:
            return self.rows.where(in_key_ranges(Spark(), self._key()[0], spread.within, spread.width, spans=SPANS))
        names = ", ".join(Spark().string(name) for name in spread.within) or "NULL"
        return self.rows.where(f"{self._bucket(spread.among).text} IN ({names})")

    def _key(self) -> list[Column]:
        return [column for name in self.key if (column := self.columns.find(name)) is not None]

    def _bucket(self, count: int) -> GroupExpression:
        return spread_sql(Spark(), self._key(), [field(Spark(), each) for each in self.columns.covered], count)
