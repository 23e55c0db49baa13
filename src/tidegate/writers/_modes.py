"""Decides what each mode of a plan asks of a staging, and how whole partitions get into a table.

Called by the writers. Must never overwrite a partition of which a file holds other rows, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.core.batch import Batch, Checked, Latest
from tidegate.core.plan import LoadPlan, Mode, WriteChoice, WriteFacts
from tidegate.core.protocols import Staging
from tidegate.errors import DuplicateKeys, PlanError, RowsMoved
from tidegate.spark import frames
from tidegate.spark.failures import translated
from tidegate.writers._batch import keyed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def put(checked: Checked, plan: LoadPlan, staging: Staging) -> None:
    """One commit in the plan's mode."""
    match plan.write.mode:
        case Mode.APPEND:
            staging.append(checked.frame)
        case Mode.OVERWRITE:
            staging.overwrite(checked.frame)
        case Mode.OVERWRITE_PARTITIONS | Mode.REPLACE_FILES:
            staging.overwrite(checked.frame, plan.changes.slices)
        case Mode.MERGE_PARTITIONS:
            _merge_partitions(checked, plan, staging)
        case _:
            staging.merge(checked.frame, prune=checked.prune, skip_equal=checked.skip_equal)


def choose_for_partitions(facts: WriteFacts, *, rewrite: bool) -> WriteChoice:
    """How whole partitions become what the batch holds of them.

    Args:
        rewrite: the user wants files written anew rather than rows compared.

    Raises:
        PlanError: rows can be told apart neither by files nor by a key.
    """
    if rewrite and facts.aligned and not (facts.key and facts.moved_in):
        reason = "each partition is whole files of the table, so its files are replaced"
        return WriteChoice(mode=Mode.OVERWRITE_PARTITIONS, reason=reason)
    if facts.key:
        reason = "the rows of each partition are compared by key, and only those that differ are written"
        return WriteChoice(mode=Mode.MERGE_PARTITIONS, reason=reason)
    raise PlanError(
        "the table is not laid out by these partitions and the stream has no key, so a partition cannot be replaced "
        "without rewriting others",
        hint="Give the stream a `key:`, or load it anew with `tidegate run STREAM --full-refresh --yes` into a table "
        "with a `layout: {partition_by: …}` that matches.",
    )


def one_a_key(rows: DataFrame, plan: LoadPlan, batch: Batch) -> Checked:
    """The rows of whole partitions, of which no two have one key; nothing may be left out of them.

    Raises:
        CheckFailed: a NULL in a key column.
        DuplicateKeys: two rows of one key.
    """
    held = rows.persist()
    if batch.keys_unique:
        return Checked(frame=held, held=held)
    try:
        with translated(f"reading the rows for {plan.target}"):
            one = keyed(held, plan, Latest(key=plan.key, order=()), unique=False)
    except BaseException:
        held.unpersist()
        raise
    if one.dropped:
        held.unpersist()
        raise DuplicateKeys(f"rows of one key ({', '.join(plan.key)}) are there several times, equal in every column")
    return Checked(frame=held, rows=one.rows, held=held)


def _merge_partitions(checked: Checked, plan: LoadPlan, staging: Staging) -> None:
    """What differs between the batch and the table's rows of the same slices, in one merge that also deletes.

    A key that the table holds several times takes a second merge on the same invisible version: the first one takes
    all of its rows away.
    """
    if _merge_differences(checked, plan, staging):
        _merge_differences(checked, plan, staging)


def _merge_differences(checked: Checked, plan: LoadPlan, staging: Staging) -> bool:
    """Whether a key was there several times.

    Raises:
        RowsMoved: rows of other partitions were taken, of which the position says that they are as they were.
    """
    current = staging.read_partitions(plan.changes.slices)
    others = [name for name in plan.columns.names if name not in plan.key]
    differing = frames.differences(checked.frame, current, key=plan.key, others=others).persist()
    try:
        with translated(f"comparing with {plan.target}"):
            one = keyed(differing, plan, Latest(key=plan.key, order=()), unique=True)
            twice, new = frames.count_if(differing, frames.TWICE, frames.NEW)
        # Not bounded by the slices: the row of a key may have to come from another one.
        rows = differing.drop(frames.TWICE, frames.NEW)
        staging.merge(rows, prune=one.prune, skip_equal=False, gone=frames.GONE)
    finally:
        differing.unpersist()
    if "ledger" in plan.position.state and staging.receipt().rows_inserted < new:
        raise RowsMoved(f"rows of {plan.target} have moved between partitions")
    return twice > 0
