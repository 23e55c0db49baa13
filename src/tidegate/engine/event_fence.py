"""Opens what a stream's table has already applied of its log, so that a load applies no event twice.

Called before rows are checked, before quarantined events are replayed, and again when a load of events is verified.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tidegate.core.batch import Fence
from tidegate.core.effects import Apply, event_rules
from tidegate.core.log import CLEARS, REFUSED, Truncate
from tidegate.core.plan import LoadPlan
from tidegate.core.ports.writer import Writer
from tidegate.dialects.spark import Spark
from tidegate.engine.applied_events import Applied, present, updates
from tidegate.engine.applied_history import AppliedEvents
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
