"""Opens what a stream's table has already applied of its log, so that a load applies no event twice.

Called before rows are checked, before quarantined events are replayed, and again when a load of events is verified.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from tidegate.core.batch import Fence, Folded
from tidegate.core.effects import Apply, event_rules
from tidegate.core.log import CLEARS, REFUSED, Truncate
from tidegate.core.plan import LoadPlan
from tidegate.core.ports.writer import Writer
from tidegate.core.schema import TEXT, Column, Type
from tidegate.dialects.spark import Spark
from tidegate.engine.applied_events import AT, MARK, NUMBER, Applied, present, updates
from tidegate.engine.stream import Stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def of_events(plan: LoadPlan, writer: Writer) -> bool:
    """Whether events determine what the table should hold: its source keeps no rows, or not those that ended."""
    effect = plan.changes.effect
    return isinstance(effect, Apply) and (effect.rules is not None or writer.versions is not None)


def applied(stream: Stream, session: SparkSession, plan: LoadPlan) -> Applied | None:
    """What the table has applied of its log before; None where nothing is delivered twice."""
    effect = plan.changes.effect
    return remembered(stream, session, plan) if isinstance(effect, Apply) and effect.rules is not None else None


def fence(stream: Stream, session: SparkSession, plan: LoadPlan, applied: Applied | None) -> Fence | None:
    """What is known of the events that were applied before; None where the rows are no events."""
    if applied is not None:
        return applied.fence()
    if not of_events(plan, stream.writer):
        return None
    return Fence(present=partial(present, stream, session, plan) if updates(plan) else None)


def remembered(stream: Stream, session: SparkSession, plan: LoadPlan) -> Applied:
    """What the table has applied of its log, as its writer needs it: the last order of each key, or every event."""
    moments = stream.writer.moments(plan)
    if moments is None:
        return Applied(stream=stream, session=session, plan=plan)
    return AppliedEvents(stream=stream, session=session, plan=plan, moments=moments)


def judged(rows: DataFrame, plan: LoadPlan) -> DataFrame:
    """Events with the reason why one cannot be applied, including a key that is NULL; other rows as given.

    One that empties the table and is ignored need not be such that it could be applied.
    """
    if REFUSED not in rows.columns:
        return rows
    from tidegate.spark import latest_events  # noqa: PLC0415 - rows are looked at, Spark is running

    others = [Spark().quote(name) for name in rows.columns if name != REFUSED]
    reason, rules = latest_events.reason(plan.key), event_rules(plan.changes.effect)
    if rules is not None and rules.truncate is Truncate.IGNORE:
        reason = f"CASE WHEN NOT {CLEARS} THEN {reason} END"
    return rows.selectExpr(*others, f"{reason} AS {REFUSED}")


@dataclass(frozen=True, kw_only=True)
class AppliedEvents(Applied):
    """Every event that a stream's table has taken, as of one load's plan.

    Rows of the table: one an event: the columns of the stream, `STATED`, `FALLBACK`, `KEY_FLOOR`, then
    those of `Applied`. A key is remembered as a whole or not at all.

    Used for tables that keep versions of rows, where events state when they took effect: a late event finds its place
    in the history, and never replaces a part that something else has written since.

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
