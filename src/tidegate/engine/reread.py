"""Decides how a load of events is proven: the log is read once more and folded anew, and the table asked by key.

Called by the pipeline in place of a question to the source, which keeps events and no rows. Must never look at the rows
that were handed to the writer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.core.batch import Batch, Checked
from tidegate.core.fingerprint import Fingerprint
from tidegate.core.plan import LoadPlan, Mode
from tidegate.core.protocols import Staging, Writer
from tidegate.core.slices import Meaning
from tidegate.core.versions import Historic
from tidegate.dialects.spark import Spark
from tidegate.engine import quality
from tidegate.engine.applied import Applied
from tidegate.engine.stream import VerifyLevel
from tidegate.engine.verify import Sides, Verdict, judge
from tidegate.engine.work import Work

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def of_events(plan: LoadPlan) -> bool:
    """Whether the load's rows are events of a log, so that its source cannot be asked for rows."""
    return plan.changes.events is not None and plan.changes.meaning is Meaning.CHANGELOG


def applied(work: Work, session: SparkSession, plan: LoadPlan) -> Applied | None:
    """What the table has taken of its log before; None where the load's rows are no events."""
    return Applied(stream=work.stream, session=session, plan=plan) if of_events(plan) else None


def verify_events(work: Work, session: SparkSession, plan: LoadPlan, staging: Staging, batch: Batch) -> Verdict:
    """Compares what the events, read and folded again, leave of every key with what the committed version holds of it.

    Raises:
        VerifyFailed: the table is not what the events make it.
    """
    level = work.stream.verify
    if level is VerifyLevel.NONE:
        return Verdict(equal=None)
    again = _again(work, session, plan, batch)
    try:
        whole = plan.write.mode is Mode.OVERWRITE
        table = staging.read() if whole else staging.read_keys(again.keys, prune=again.prune)
        table = table if again.compared is None else table.where(again.compared)
        both = Sides(source=_wanted(work.stream.writer, again, plan, level), table=_measured(table, plan, level))
    finally:
        _release(again)
    seen, still = not staging.invisible, work.probe.still
    return judge(plan, level, both, again=lambda: both.source, still=still, seen=seen)


def _again(work: Work, session: SparkSession, plan: LoadPlan, batch: Batch) -> Checked:
    rows = work.stream.source.read(session, work.probe, plan.changes.slices, plan.columns)
    return work.stream.writer.check(quality.good(work, plan, rows), plan, batch)


def _wanted(writer: Writer, again: Checked, plan: LoadPlan, level: VerifyLevel) -> Fingerprint:
    from tidegate.spark import frames  # noqa: PLC0415 - rows have moved, Spark is running

    if isinstance(writer, Historic):
        return _measured(writer.left(again, plan), plan, level)
    return _measured(again.frame.where(f"NOT {frames.GONE}"), plan, level)


def _measured(rows: DataFrame, plan: LoadPlan, level: VerifyLevel) -> Fingerprint:
    from tidegate.spark import frames  # noqa: PLC0415 - as above

    if level is VerifyLevel.COUNTS:
        return Fingerprint(rows=rows.count())
    return frames.fingerprint(rows, Spark().steps(plan.columns.columns))


def _release(checked: Checked) -> None:
    if checked.held is not None:
        checked.held.unpersist()
