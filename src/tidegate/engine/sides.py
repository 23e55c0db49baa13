"""Decides how a source and a table are asked for the fingerprints and digests that a comparison needs.

Made by verification. Each side is computed where its rows are; must never fetch a row of a bucket that is equal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.core.fingerprint import Fingerprint
from tidegate.core.protocols import Probe
from tidegate.core.schema import Column, Schema
from tidegate.core.slices import Slice
from tidegate.core.spread import RowDigest, Spread
from tidegate.dialects._buckets import spread as spread_sql
from tidegate.dialects.spark import Spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSide:
    """The source's rows up to the position, computed by its own engine."""

    probe: Probe
    part: Slice
    key: tuple[str, ...]

    def spread(self, spread: Spread) -> Mapping[str, Fingerprint]:
        """Fingerprint of every bucket that has rows."""
        return self.probe.spread(self.part, self.key, spread)

    def digests(self, spread: Spread) -> Sequence[RowDigest]:
        """The rows of the buckets named by `within`."""
        return self.probe.digests(self.part, self.key, spread)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSide:
    """The rows of one version of the table, computed by Spark; columns that it lacks count as NULL."""

    rows: DataFrame
    columns: Schema
    key: tuple[str, ...]

    def spread(self, spread: Spread) -> Mapping[str, Fingerprint]:
        """Fingerprint of every bucket that has rows."""
        from tidegate.spark import frames  # noqa: PLC0415 - rows are looked at, Spark is running

        by = self._bucket(spread.count)
        found = frames.partitions(self._within(spread), by=by, steps=Spark().steps(self.columns.columns))
        return {str(name): one for name, one in found.items()}

    def digests(self, spread: Spread) -> Sequence[RowDigest]:
        """The rows of the buckets named by `within`."""
        spark = Spark()
        keys = [spark.text(spark.quote(column.name), column) for column in self._key()]
        asked = [f"{text} AS k{number}" for number, text in enumerate(keys)]
        asked.append(f"{spark.row_digest(self.columns.columns)} AS digest")
        return [
            RowDigest(key=tuple(row[:-1]), digest=row[-1]) for row in self._within(spread).selectExpr(*asked).collect()
        ]

    def _key(self) -> list[Column]:
        return [column for name in self.key if (column := self.columns.find(name)) is not None]

    def _bucket(self, count: int) -> str:
        return spread_sql(Spark(), self._key(), self.columns.covered, count)

    def _within(self, spread: Spread) -> DataFrame:
        if spread.within is None:
            return self.rows
        names = ", ".join(Spark().string(name) for name in spread.within) or "NULL"
        return self.rows.where(f"{self._bucket(spread.among)} IN ({names})")
