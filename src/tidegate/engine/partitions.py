"""Splits changed partitions into groups of commits, and checks the partition ledger they are compared with.

A ledger counts only if the position in the table vouches for it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from tidegate.core.changes import Action, ChangeSet, Part
from tidegate.core.effects import Mirror
from tidegate.core.fingerprint import Fingerprint
from tidegate.core.grouping import Grouping
from tidegate.core.ids import Target
from tidegate.core.ledger import Entry, Ledger
from tidegate.core.ports.source import Probe
from tidegate.core.position import Position
from tidegate.core.position_state import METHOD, compared_from
from tidegate.core.schema import Schema
from tidegate.dialects.shared.buckets import bucket
from tidegate.dialects.spark import Spark
from tidegate.engine.context import RunContext
from tidegate.engine.stream import Stream
from tidegate.engine.verification.comparison import live
from tidegate.errors import PlanError
from tidegate.spark.failures import translated

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

GROUP_ROWS = 20_000_000


def trusted(ledger: Ledger | None, since: Position | None, columns: Schema) -> Ledger | None:
    """The ledger, if the position vouches for it and it was computed from the same columns."""
    if ledger is None or since is None or since.schema != columns.digest or not ledger.vouched(since.state):
        return None
    return ledger


def groups(changes: ChangeSet) -> Iterator[ChangeSet]:
    """The changes in as few commits of at most `GROUP_ROWS` rows as possible; a partition is never split.

    Example:
        >>> from tidegate.core.slices import Everything
        >>> list(groups(ChangeSet(slices=(Everything(),), effect=Mirror()))) != []
        True
    """
    if not changes.parts:
        yield changes
        return
    group: list[Part] = []
    for part in (part for part in changes.parts if part.action is not Action.SKIP):
        if group and sum(each.rows or 0 for each in group) + (part.rows or 0) > GROUP_ROWS:
            yield changes.only(tuple(group))
            group = []
        group.append(part)
    yield changes.only(tuple(group))


def equal(changes: ChangeSet) -> dict[str, str]:
    """By label, the quick hash of each partition whose fingerprint was compared and is unchanged."""
    return {
        part.slice.label: part.quick for part in changes.parts if part.action is Action.SKIP and part.quick is not None
    }


def nothing(grouping: Grouping, since: Position) -> ChangeSet:
    """A load without rows, after which the table's position vouches for the measured partitions."""
    return ChangeSet(
        slices=(),
        effect=Mirror(of=grouping),
        state={**compared_from(since.state), METHOD: grouping.to_dict()},
        rows=0,
        reason="every partition matches the source",
    )


def one_by_one(changes: ChangeSet) -> list[ChangeSet]:
    """Each partition separately; nothing if there is only one."""
    return [changes.only((part,)) for part in changes.parts] if len(changes.parts) > 1 else []


def all_at_once(changes: ChangeSet) -> ChangeSet:
    """All partitions in one commit, because a full refresh cannot be divided."""
    return changes.only(tuple(part for part in changes.parts if part.action is not Action.SKIP))


def vouched(changes: ChangeSet, ledger: Ledger) -> ChangeSet:
    """The changes with the state for the position: the sum and digest of the ledger once they are loaded."""
    return replace(changes, state={**changes.state, **ledger.loaded(changes.parts).voucher()})


def described(changes: ChangeSet, probe: Probe, columns: Schema) -> ChangeSet:
    """The changes, each part with its filter in the SQL of the source and of the table."""
    spark = Spark()
    parts = (
        replace(part, source_filter=probe.condition(part.slice), target_filter=spark.among([part.slice], columns))
        for part in changes.parts
    )
    return replace(changes, parts=tuple(parts))


def measured(
    stream: Stream, context: RunContext, session: SparkSession, *, grouping: Grouping, columns: Schema
) -> Ledger:
    """`measure` of a stream's table, as a task of the registry."""
    with (
        context.registry.task(stream.uid, "measure_partition", run_id=context.run_id) as payload,
        translated(f"measuring the partitions of {stream.target}"),
    ):
        table = stream.format.state(stream.target, stream.uid)
        found = measure(live(stream, session, table, columns), stream.target, grouping, columns)
        payload |= {"partitions": len(found.entries), "rows": found.total.rows}
        return found


def measure(rows: DataFrame, target: Target, grouping: Grouping, columns: Schema) -> Ledger:
    """The ledger of what the table holds now; a column that it does not have yet counts as NULL.

    Raises:
        PlanError: the column that says in which partition a row lies is not in the table.
    """
    column = columns.find(grouping.column) if grouping.column else None
    if column is not None and column.name not in rows.columns:
        raise PlanError(
            f"the table {target} has no column {column.name!r}, so its rows belong to no partition",
            hint="Choose a `column:` that the table has, or run a full refresh with --full-refresh.",
        )
    return Ledger(
        entries={
            grouping.part(value, column).label: Entry(fingerprint=found)
            for value, found in fingerprints(rows, grouping, columns).items()
        }
    )


def fingerprints(rows: DataFrame, grouping: Grouping, columns: Schema) -> dict[str | None, Fingerprint]:
    """The fingerprint of each bucket of the rows, computed by Spark; columns that they lack count as NULL."""
    from tidegate.spark import dataframe_ops  # noqa: PLC0415 - rows are looked at, Spark is running

    spark = Spark()
    column = columns.find(grouping.column) if grouping.column else None
    found: defaultdict[str | None, Fingerprint] = defaultdict(Fingerprint)
    fine = dataframe_ops.partitions(
        dataframe_ops.completed(rows, columns), by=bucket(spark, grouping, column), steps=spark.steps(columns.columns)
    )
    for value, one in fine.items():
        found[grouping.coarse(value)] += one
    return found
