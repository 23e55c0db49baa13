"""Decides what a writer is told of a load: before its rows are read, and together with them.

Called by the pipeline. Must never read a row.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from tidegate.core.batch import Batch, Latest
from tidegate.core.change_feed import HasPresent
from tidegate.core.changes import ChangeSet
from tidegate.core.effects import Apply, Upsert
from tidegate.core.plan import WriteFacts
from tidegate.core.schema import renamed
from tidegate.core.slices import Files, SnapshotPair
from tidegate.engine.context import LoadContext, PlannedLoad
from tidegate.engine.deletes import delete_guard
from tidegate.engine.reconcile import holds_rows
from tidegate.engine.verification import comparison, expected

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def write_facts(work: LoadContext, changes: ChangeSet, *, unique: bool) -> WriteFacts:
    """What the writer chooses its mode by."""
    stream, table = work.stream, work.standing.table
    filled = holds_rows(table)
    reset = work.context.reset if filled else None
    batch_keys, apart = None, False
    if stream.writer.needs_key and filled and reset is None and _bounded(changes):
        batch_keys = work.probe.key_bounds(changes.slices[0], stream.key[0])
        if batch_keys is not None and unique and work.key_diff is None:
            apart = not stream.format.may_hold(stream.target, batch_keys)
    return WriteFacts(
        effect=changes.effect,
        rows=changes.rows,
        table_rows=table.rows if filled else 0,
        reset=reset,
        batch_keys=batch_keys,
        apart=apart,
        keys_unique=unique,
        aligned=filled and changes.grouping is not None and stream.format.aligned(stream.target, changes.grouping),
        key=stream.key,
        counted=stream.deletes.soft or delete_guard.limit(work) is not None,
        gone=work.key_diff is not None,
        carried=any(isinstance(part, Files) and part.carrier for part in changes.slices),
    )


def _bounded(changes: ChangeSet) -> bool:
    """Whether the keys of what is read lie within bounds that the source can tell and that are worth the question."""
    if changes.grouping is not None or changes.whole or len(changes.slices) != 1:
        return False
    return not isinstance(changes.slices[0], SnapshotPair)


def renames(work: LoadContext) -> Mapping[str, str] | None:
    """Columns of the source that the table has by another name, see `core.schema.renamed`."""
    columns, table = work.probe.schema(), work.standing.table.schema
    if table is None or not all(column.ident for column in columns):
        return None
    return renamed(before=work.context.registry.loaded_columns(work.stream.uid), source=columns, table=table)


def batch(work: LoadContext, planned: PlannedLoad, session: SparkSession) -> Batch:
    """What is known of the rows that the writer is handed."""
    stream, table, changes = work.stream, work.standing.table, planned.plan.changes
    present = None
    filled = holds_rows(table) and not work.context.full_refresh
    by_order = bool(stream.key) and not planned.unique and isinstance(changes.effect, Upsert)
    if filled and by_order and expected.around(changes.slices, changes.loaded_through) is not None:
        present = partial(comparison.live, stream, session, table.snapshot)
    current = None
    if isinstance(changes.effect, Apply) and changes.effect.rules is None and isinstance(work.probe, HasPresent):
        current = partial(work.probe.present, session, key=stream.key)
    latest = Latest(key=stream.key, order=stream.strategy.cursor) if stream.key else None
    bounds = planned.plan.write.prune if work.probe.has_snapshot() and planned.unique else ()
    skip_equal = stream.strategy.rereads or planned.plan.changes.repeats is not None
    cheap = work.probe.version() is not None
    return Batch(
        latest=latest,
        keys_unique=planned.unique,
        skip_equal=skip_equal,
        bounds=bounds,
        cheap=cheap,
        current=current,
        present=present,
    )
