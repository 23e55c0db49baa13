"""Verifies a load of events: reads the log again, computes the expected rows and compares them with the table by key.

Used because a log has no rows to compare with. Never looks at the rows that were passed to the writer.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from tidegate.core.batch import Batch, Checked
from tidegate.core.changes import ChangeSet
from tidegate.core.display import counted
from tidegate.core.effects import Apply, saved_rules
from tidegate.core.fingerprint import Fingerprint
from tidegate.core.log import EventRules
from tidegate.core.maintenance_plan import maintenance_plan
from tidegate.core.plan import LoadPlan, Mode, WriteChoice
from tidegate.core.ports.format import Staging, TableState
from tidegate.core.ports.source import Probe
from tidegate.core.schema import Schema
from tidegate.core.slices import Everything, LogRange
from tidegate.engine import column_names, event_fence
from tidegate.engine.context import LoadContext
from tidegate.engine.quality import quality
from tidegate.engine.quarantine.quarantine import Quarantine
from tidegate.engine.stream import Stream, VerifyLevel
from tidegate.engine.verification import comparison
from tidegate.engine.verification.drilldown import Difference
from tidegate.engine.verification.proof import Sides, Verdict, judge, measured
from tidegate.errors import VerifyFailed
from tidegate.registry.values import SavedPlan
from tidegate.spark.caching import persisted
from tidegate.spark.failures import translated

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def was_of_events(saved: SavedPlan | None) -> bool:
    """Whether a load of an earlier run was one of events of a log."""
    return saved is not None and saved_rules(saved.plan["changes"]) is not None


def verify_events(work: LoadContext, session: SparkSession, plan: LoadPlan, staging: Staging, batch: Batch) -> Verdict:
    """Compares what the events, read and folded again, leave of every key with what the committed version holds of it.

    Raises:
        VerifyFailed: the table is not what the events make it, or another reader reads other events.
    """
    level = work.stream.policies.verify
    if level is VerifyLevel.NONE:
        return Verdict(equal=None)
    agree(work.probe, session, plan, level)
    again = _again(work, session, plan, batch)
    try:
        whole = plan.write.mode is Mode.OVERWRITE
        table = staging.read() if whole else staging.read_keys(again.keys, prune=again.prune)
        both = sides(work.stream, again, table, plan, level)
    finally:
        quality.release(again)
    seen, unchanged = not staging.invisible, work.probe.verify_unchanged
    return judge(plan, level, both, again=lambda: both.source, verify_unchanged=unchanged, seen=seen)


def agree(probe: Probe, session: SparkSession, plan: LoadPlan, level: VerifyLevel) -> None:
    """Asks another reader than Spark's for the records of the load.

    Raises:
        VerifyFailed: it finds others.
        SourceMoved: the log was changed meanwhile.
    """
    by_spark, by_other = _both(probe, session, plan, level)
    if by_spark != by_other:
        probe.verify_unchanged()
        other = f"{by_other.rows}" if by_spark.rows != by_other.rows else "as many, with other values"
        raise VerifyFailed(
            f"stream {plan.stream.name!r}: Spark reads {counted(by_spark.rows, 'record')} of its log, and another "
            f"reader reads {other}",
            load_id=plan.load_id,
        )


def _both(probe: Probe, session: SparkSession, plan: LoadPlan, level: VerifyLevel) -> tuple[Fingerprint, Fingerprint]:
    """What Spark and another reader find of the load's records; the same where no other reads them."""
    parts = [part for part in plan.changes.slices if isinstance(part, LogRange)]
    found = None
    if parts and probe.log is not None:
        found = probe.log.read_twice(session, parts, values=level is VerifyLevel.MOVED)
    return found or (Fingerprint(), Fingerprint())


def difference(work: LoadContext, session: SparkSession, saved: SavedPlan) -> Difference:
    """The same of a load that an earlier run left unverified, against the table as it stands."""
    from tidegate.spark import dataframe_ops  # noqa: PLC0415 - rows have moved, Spark is running

    stream, plan = work.stream, _replanned(work, saved)
    if work.probe.log is not None:  # which files there are, and of which columns, a log is asked by its position
        work.probe.log.after(saved.since.state if saved.since else None, most=None)
    columns = work.probe.schema()
    own = stream.writer.added(columns, stream.strategy.cursor)
    plan = replace(plan, columns=columns, added=Schema(columns=(*stream.added, *own)))
    by_spark, by_table = _both(work.probe, session, plan, VerifyLevel.MOVED)
    if by_spark != by_table:
        return Difference(source_rows=by_table.rows, target_rows=by_spark.rows, buckets=1)
    fence = event_fence.remembered(stream, session, plan).fence()
    fence = replace(fence, horizon=None) if _replayed(plan) and stream.writer.versions is None else fence
    again = _again(work, session, plan, Batch(latest=None, keys_unique=False, skip_equal=False, fence=fence))
    try:
        rows = dataframe_ops.completed(_rows(stream, session, work.recovered.table, columns), plan.table)
        with translated(f"reading {stream.target}"):
            if plan.write.mode is not Mode.OVERWRITE and again.keys is not None:
                rows = dataframe_ops.of_keys(rows, again.keys, plan.key)
            both = sides(stream, again, rows, plan, VerifyLevel.MOVED)
    finally:
        quality.release(again)
    by_spark, by_table = both.source, both.table
    return Difference(source_rows=by_spark.rows, target_rows=by_table.rows, buckets=int(by_spark != by_table))


def _rows(stream: Stream, session: SparkSession, table: TableState, columns: Schema) -> DataFrame:
    """The rows of the table that events make: of a history every version."""
    if stream.writer.versions is not None:
        rows = stream.format.read(session, stream.target, table.snapshot)
        return column_names.by_names_of(rows, table, columns)
    return comparison.live(stream, session, table, columns)


def _replanned(work: LoadContext, saved: SavedPlan) -> LoadPlan:
    """The load as it was planned, as far as its events tell."""
    stream, was = work.stream, saved.plan
    rules = saved_rules(was["changes"]) or {}
    return maintenance_plan(
        stream.ref,
        TableState(exists=True, snapshot=was["base"], position=saved.since),
        saved.position,
        at=datetime.fromisoformat(was["created_at"]),  # it dates versions, to the microsecond
        changes=ChangeSet(
            # A replay has read its quarantine.
            slices=tuple(LogRange(**part) if part else Everything() for part in was["changes"]["slices"]),
            effect=Apply(rules=EventRules(floor=rules["floor"], truncate=rules["truncate"])),
        ),
        columns=stream.added,
        key=stream.key,
        write=WriteChoice(mode=Mode(was["write"]["mode"]), reason=was["write"]["reason"]),
        deletes=stream.policies.deletes,
    )


def _again(work: LoadContext, session: SparkSession, plan: LoadPlan, batch: Batch) -> Checked:
    read = event_fence.judged(_events(work, session, plan), plan)
    batch = replace(batch, reread=True)
    if batch.fence is not None and not work.stream.policies.checks:
        return work.stream.writer.check(read, plan, batch)
    read = persisted(read)  # a condition that is pushed down would read the same values once more for each of its own
    try:
        return work.stream.writer.check(quality.good(work, plan, read), plan, batch)
    finally:
        read.unpersist()


def _events(work: LoadContext, session: SparkSession, plan: LoadPlan) -> DataFrame:
    if not _replayed(plan):
        return work.stream.source.read(session, work.probe, plan.changes.slices, plan.columns)
    from tidegate.spark import quarantined_rows, validation  # noqa: PLC0415 - as above

    rows = Quarantine.of(work.stream).unpacked(session, work.recovered.since, plan.columns)
    rows = rows.where(f"{validation.META}until = {plan.position.sequence} AND {validation.META}row IS NOT NULL")
    return quarantined_rows.as_events(quarantined_rows.with_lacks(rows, plan.columns), plan.columns.names)


def _replayed(plan: LoadPlan) -> bool:
    return any(isinstance(part, Everything) for part in plan.changes.slices)


def sides(stream: Stream, again: Checked, table: DataFrame, plan: LoadPlan, level: VerifyLevel) -> Sides:
    """What events make of their keys, and what the table holds of these: of a history every version they can change."""
    from tidegate.spark import dataframe_ops  # noqa: PLC0415 - as above

    wanted = again.frame.where(f"NOT {dataframe_ops.DELETED}")
    if stream.writer.versions is not None:
        plan, table = replace(plan, columns=plan.table), table.where(again.dated.touched or "true")
    return Sides(source=measured(wanted, plan, level), table=measured(table, plan, level))
