"""Read: the rows of the planned slices as a DataFrame, while the table is opened in the background."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tidegate.core.batch import Latest
from tidegate.core.changes import ChangeSet
from tidegate.core.effects import Apply
from tidegate.core.manifest import LOAD, LOADED
from tidegate.core.plan import LoadPlan
from tidegate.core.ports.format import Layout, Staging
from tidegate.core.schema import Schema
from tidegate.core.slices import Keys
from tidegate.engine import event_fence
from tidegate.engine.context import LoadContext, PlannedLoad
from tidegate.engine.events import Stage
from tidegate.engine.publish import opened_later, opened_meanwhile
from tidegate.engine.stream import Stream
from tidegate.engine.verification import expected
from tidegate.spark import dataframe_ops

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SMALL_ROWS = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRows:
    """The rows of a load, which Spark reads when it is asked for them.

    Args:
        rule: what ordered the rows of one key, where files of several loads were read; None elsewhere.
        opened: gives the version of the table that the load writes to; makes or changes the table first where the plan
            says so.
    """

    session: SparkSession
    frame: DataFrame
    rule: Latest | None
    opened: Callable[[], Staging]


def read(work: LoadContext, planned: PlannedLoad, held: ExitStack) -> ReadRows:
    """The rows of the planned slices.

    Args:
        held: ends the session, and discards what was staged if the load fails.
    """
    plan = planned.plan
    with work.journal.stage(Stage.READ):
        session, opened = opening(work, plan, held)
        rule = _rule(work.stream, plan)
        frame = _rows(work, plan, session, by_load=rule is not None)
        return ReadRows(session=session, frame=frame, rule=rule, opened=opened)


def _rows(work: LoadContext, plan: LoadPlan, session: SparkSession, *, by_load: bool) -> DataFrame:
    """The rows of the plan's slices; with `by_load`, of each key only those that its last load read.

    Rows: the plan's columns in order.
    """
    source, slices = work.stream.source, plan.changes.slices
    if not by_load:
        return source.read(session, work.probe, slices, plan.columns)
    rows = source.read(session, work.probe, slices, Schema(columns=(*plan.columns, LOAD)))
    return dataframe_ops.greatest(rows, LOADED, key=plan.key).drop(LOADED)


def _rule(stream: Stream, plan: LoadPlan) -> Latest | None:
    """What orders the rows of one key by the loads that read their files; None where the plan reads no such rows."""
    slices = plan.changes.slices
    rule = expected.rule(stream, plan.since) if any(isinstance(part, Keys) for part in slices) else None
    return rule if rule is not None and LOADED in rule.order else None


def opening(work: LoadContext, plan: LoadPlan, held: ExitStack) -> tuple[SparkSession, Callable[[], Staging]]:
    """A session for the load, and what gives the version of the table that it writes to, see `ReadRows`."""
    session = held.enter_context(work.session(small=is_small(work, plan.changes)))
    return session, held.enter_context(_opening(work, plan, session))


def is_small(work: LoadContext, changes: ChangeSet) -> bool:
    """Whether so little moves that a Spark which starts quickly beats one that runs fast."""
    rows = changes.rows if work.key_diff is None else max(changes.rows or 0, work.key_diff.rows or 0)
    return rows is not None and rows < SMALL_ROWS


def _opening(work: LoadContext, plan: LoadPlan, session: SparkSession) -> AbstractContextManager[Callable[[], Staging]]:
    """Branches of a crash are dropped; a table is made or changed only once the rows have passed their check."""
    stream, table = work.stream, work.recovered.table
    if table.branches:
        stream.format.drop_branches(session, stream.target, table.branches)
    # A table without a snapshot was perhaps made by a load that crashed before all of it was done.
    if table.snapshot is not None and not plan.evolution.apply:
        return opened_meanwhile(stream.format, session, stream.target, plan)

    def prepare() -> None:
        if table.snapshot is None:
            stream.format.create(session, stream.target, _declared(stream, plan), _layout(stream, plan))
        if plan.evolution.apply:
            if plan.renamed and (remembered := event_fence.applied(stream, session, plan)) is not None:
                remembered.rename()
            stream.format.evolve(session, stream.target, plan.evolution.apply, plan.table)

    return opened_later(stream.format, session, stream.target, plan, prepare=prepare)


def _layout(stream: Stream, plan: LoadPlan) -> Layout:
    """The user's layout, else the writer's, else one in which each partition that is compared is whole files."""
    grouping = plan.changes.grouping
    if not stream.policies.layout.partition_by and stream.writer.partition_by:
        return replace(stream.policies.layout, partition_by=stream.writer.partition_by)
    if stream.policies.layout.partition_by or grouping is None:
        return stream.policies.layout
    return replace(stream.policies.layout, partition_by=stream.format.partition_by(grouping))


def _declared(stream: Stream, plan: LoadPlan) -> Schema:
    """The columns of a new table: what the source promises of them is declared where every row that comes keeps it.

    Events of a log may be older than a promise, and those of a delete may hold nothing but the key.
    """
    partial = Apply in stream.strategy.emits
    columns = tuple(
        replace(column, nullable=True) if partial and column.name not in stream.key else column
        for column in plan.columns
    )
    single = stream.writer.needs_key and stream.writer.versions is None
    own = tuple(replace(column, nullable=True) for column in plan.added)
    return Schema(columns=(*columns, *own), comment=plan.columns.comment, key=stream.key if single else ())
