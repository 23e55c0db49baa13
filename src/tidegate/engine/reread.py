"""Decides how a load of events is proven: the log is read once more and folded anew, and the table asked by key.

Called by the pipeline in place of a question to the source, which keeps events and no rows. Must never look at the rows
that were handed to the writer.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tidegate.core.batch import Batch, Checked
from tidegate.core.changes import ChangeSet
from tidegate.core.fingerprint import Fingerprint
from tidegate.core.log import REFUSED, EventRules, Logged
from tidegate.core.plan import LoadPlan, Mode, WriteChoice
from tidegate.core.protocols import Staging, Writer
from tidegate.core.slices import LogRange, Meaning
from tidegate.core.versions import Historic
from tidegate.dialects.spark import Spark
from tidegate.engine import comparison, quality
from tidegate.engine.applied import Applied
from tidegate.engine.drilldown import Difference
from tidegate.engine.stream import VerifyLevel
from tidegate.engine.verify import Sides, Verdict, judge, measured
from tidegate.engine.work import Work
from tidegate.registry.values import SavedPlan
from tidegate.spark.failures import translated

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def of_events(plan: LoadPlan) -> bool:
    """Whether the load's rows are events of a log, so that its source cannot be asked for rows."""
    return plan.changes.events is not None and plan.changes.meaning is Meaning.CHANGELOG


def was_of_events(saved: SavedPlan | None) -> bool:
    """Whether a load of an earlier run was one of events."""
    changes = saved.plan["changes"] if saved else {}
    return changes.get("events") is not None and changes["meaning"] == Meaning.CHANGELOG


def applied(work: Work, session: SparkSession, plan: LoadPlan) -> Applied | None:
    """What the table has taken of its log before; None where the rows are no events, or each makes a version."""
    folds = of_events(plan) and not isinstance(work.stream.writer, Historic)
    return Applied(stream=work.stream, session=session, plan=plan) if folds else None


def judged(rows: DataFrame, plan: LoadPlan) -> DataFrame:
    """Events with the reason why one cannot be taken, also where only the key tells it; other rows as given."""
    if REFUSED not in rows.columns:
        return rows
    from tidegate.spark import fold  # noqa: PLC0415 - rows are looked at, Spark is running

    others = [Spark().quote(name) for name in rows.columns if name != REFUSED]
    return rows.selectExpr(*others, f"{fold.reason(plan.key)} AS {REFUSED}")


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
        both = Sides(source=_wanted(work.stream.writer, again, plan, level), table=measured(table, plan, level))
    finally:
        quality.release(again)
    seen, still = not staging.invisible, work.probe.still
    return judge(plan, level, both, again=lambda: both.source, still=still, seen=seen)


def difference(work: Work, session: SparkSession, saved: SavedPlan) -> Difference:
    """The same of a load that an earlier run left unverified, against the table as it stands."""
    from tidegate.spark import frames  # noqa: PLC0415 - rows have moved, Spark is running

    stream, plan = work.stream, _replanned(work, saved)
    if isinstance(work.probe, Logged):  # which files there are, and of which columns, a log is asked by its position
        work.probe.after(saved.since.state if saved.since else None, most=None)
    plan = replace(plan, columns=work.probe.schema())
    fence = Applied(stream=stream, session=session, plan=plan).fence()
    again = _again(work, session, plan, Batch(latest=None, keys_unique=False, skip_equal=False, fence=fence))
    try:
        rows = frames.completed(comparison.live(stream, session, work.standing.table.snapshot), plan.columns)
        with translated(f"reading {stream.target}"):
            if plan.write.mode is not Mode.OVERWRITE and again.keys is not None:
                rows = frames.of_keys(rows, again.keys, plan.key)
            mine, theirs = (
                _wanted(stream.writer, again, plan, VerifyLevel.MOVED),
                measured(rows, plan, VerifyLevel.MOVED),
            )
    finally:
        quality.release(again)
    return Difference(source_rows=mine.rows, target_rows=theirs.rows, buckets=int(mine != theirs))


def _replanned(work: Work, saved: SavedPlan) -> LoadPlan:
    """The load as it was planned, as far as its events tell."""
    stream, was = work.stream, saved.plan
    rules = was["changes"]["events"]
    return LoadPlan(
        load_id=saved.load_id,
        stream=stream.name,
        uid=stream.uid,
        target=str(stream.target),
        created_at=saved.created_at,
        base=was["base"],
        since=saved.since,
        position=saved.position,
        changes=ChangeSet(
            slices=tuple(LogRange(**part) for part in was["changes"]["slices"]),
            meaning=Meaning.CHANGELOG,
            events=EventRules(floor=rules["floor"], truncate=rules["truncate"]),
        ),
        columns=stream.added,
        key=stream.key,
        schema_changes=(),
        evolve=(),
        write=WriteChoice(mode=Mode(was["write"]["mode"]), reason=was["write"]["reason"]),
        deletes=stream.deletes,
    )


def _again(work: Work, session: SparkSession, plan: LoadPlan, batch: Batch) -> Checked:
    read = judged(work.stream.source.read(session, work.probe, plan.changes.slices, plan.columns), plan)
    batch = replace(batch, again=True)
    if batch.fence is not None and not work.stream.checks:
        return work.stream.writer.check(read, plan, batch)
    read = read.persist()  # a condition that is pushed down would read the same values once more for each of its own
    try:
        return work.stream.writer.check(quality.good(work, plan, read), plan, batch)
    finally:
        read.unpersist()


def _wanted(writer: Writer, again: Checked, plan: LoadPlan, level: VerifyLevel) -> Fingerprint:
    from tidegate.spark import frames  # noqa: PLC0415 - as above

    if isinstance(writer, Historic):
        return measured(writer.left(again, plan), plan, level)
    return measured(again.frame.where(f"NOT {frames.GONE}"), plan, level)
