"""Keeps every applied event of a key, so that a late event finds its place in the key's history.

Used instead of `applied_events` for tables that keep versions of rows, where events state when they took effect. Events
never replace a part of the history that something else has written since.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tidegate.core.batch import Fence, Folded
from tidegate.core.schema import TEXT, Column, Type
from tidegate.dialects.spark import Spark
from tidegate.engine.applied_events import AT, MARK, NUMBER, Applied

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, kw_only=True)
class AppliedEvents(Applied):
    """Every event that a stream's table has taken, as of one load's plan.

    Rows of the table: one an event: the columns of the stream, `STATED`, `FALLBACK`, `KEY_FLOOR`, then
    those of `Applied`. A key is remembered as a whole or not at all.

    Args:
        moments: the type of the moments that events state.
    """

    moments: Type

    def fence(self) -> Fence:
        """What counts of it, and the table's versions."""
        return replace(super().fence(), records=None, events=self._events if self._counts else self._none)

    @property
    def _carried(self) -> tuple[Column, ...]:
        from tidegate.spark.latest_events import FALLBACK, KEY_FLOOR, STATED  # noqa: PLC0415 - Spark is running

        own = {STATED: self.moments.stored, FALLBACK: self.moments.stored, KEY_FLOOR: TEXT}
        return (*self.plan.columns, *(Column(name=name, type=kind) for name, kind in own.items()))

    def _events(self, keys: DataFrame) -> DataFrame:
        """Every event of these keys, see `Fence`."""
        from tidegate.spark import dataframe_ops, latest_events  # noqa: PLC0415 - as above

        events = dataframe_ops.of_keys(self._every.where(f"{self._landed} AND {MARK} IS NULL"), keys, self.plan.key)
        whole = f"{NUMBER} > {self._own.whole} AS {latest_events.WHOLE}"
        own = (
            dataframe_ops.ORDER,
            latest_events.WAS_DELETED,
            latest_events.STATED,
            latest_events.FALLBACK,
            latest_events.KEY_FLOOR,
            whole,
        )
        return dataframe_ops.completed(events, self.plan.columns, *own)

    def _none(self, keys: DataFrame) -> DataFrame:
        """No event, in the shape of `_events`."""
        from tidegate.spark import dataframe_ops, latest_events  # noqa: PLC0415 - as above

        at = f"CAST(NULL AS {self.moments.stored.spark})"
        nothing = keys.where("false")
        own = (
            f"CAST(NULL AS string) AS {dataframe_ops.ORDER}",
            f"false AS {latest_events.WAS_DELETED}",
            f"{at} AS {latest_events.STATED}",
            f"{at} AS {latest_events.FALLBACK}",
            f"CAST(NULL AS string) AS {latest_events.KEY_FLOOR}",
            f"true AS {latest_events.WHOLE}",
        )
        return dataframe_ops.completed(nothing, self.plan.columns, *own)

    def _new(self, folded: Folded) -> DataFrame:
        from tidegate.spark import dataframe_ops, latest_events  # noqa: PLC0415 - as above

        tags = (*self._tags(self.plan.position.sequence, self.plan.load_id), f"CAST(NULL AS string) AS {MARK}")
        columns = [Spark().quote(column.name) for column in self._carried]
        known = f"CAST(NULL AS string) AS {latest_events.KNOWN}"
        return folded.applied.selectExpr(*columns, dataframe_ops.ORDER, latest_events.WAS_DELETED, known, *tags)

    def _by_age(self, rows: DataFrame, young: str) -> tuple[DataFrame, DataFrame]:
        """Every event of keys that were touched lately enough, and of the others."""
        by_key = f"PARTITION BY {', '.join(Spark().quote(name) for name in self.plan.key)}"
        aged = rows.selectExpr("*", f"max({AT}) OVER ({by_key}) AS __tidegate_last")
        lately = young.replace(AT, "__tidegate_last", 1)
        return aged.where(lately).drop("__tidegate_last"), aged.where(f"NOT ({lately})").drop("__tidegate_last")
