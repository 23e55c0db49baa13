"""Check: applies the column contract and the checks, keeps one row per key, and quarantines invalid rows."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from tidegate.core.batch import Batch, Checked, Latest
from tidegate.core.effects import Apply, Upsert
from tidegate.engine import event_fence
from tidegate.engine.applied_events import Applied
from tidegate.engine.context import LoadContext, PlannedLoad
from tidegate.engine.events import Stage
from tidegate.engine.quality import quality
from tidegate.engine.reconcile import holds_rows
from tidegate.engine.stages.read import ReadRows
from tidegate.engine.verification import comparison, expected

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedRows:
    """Rows that may be written.

    Args:
        applied: the events of the log that the table has taken before; None where nothing is delivered twice.
    """

    read: ReadRows
    batch: Batch
    checked: Checked
    applied: Applied | None


def check(work: LoadContext, planned: PlannedLoad, rows: ReadRows, held: ExitStack) -> CheckedRows:
    """The rows that may be written; the table is as it was.

    Args:
        held: lets go, when the load ends, of what Spark keeps for it.

    Raises:
        CheckFailed: rows break a rule that stops a load.
        DuplicateKeys: several rows of one key, and nothing says which one counts.
    """
    plan, session = planned.plan, rows.session
    with work.journal.stage(Stage.CHECK):
        applied = event_fence.applied(work.stream, session, plan)
        batch = replace(_batch(work, planned, rows), fence=event_fence.fence(work.stream, session, plan, applied))
        checked = quality.check(work, planned, batch, event_fence.judged(rows.frame, plan), held)
        if rows.rule is not None:
            checked = replace(checked, compared=replace(checked.compared, latest=rows.rule))
        checked = quality.check_before_create(work, plan, checked)
    return CheckedRows(read=rows, batch=batch, checked=checked, applied=applied)


def _present(work: LoadContext, planned: PlannedLoad, rows: ReadRows) -> DataFrame:
    """The rows of the table that the load is planned on, by the names that the load gives to its columns."""
    return comparison.live(work.stream, rows.session, work.recovered.table, planned.plan.columns)


def _batch(work: LoadContext, planned: PlannedLoad, rows: ReadRows) -> Batch:
    """What is known of the rows that the writer is handed."""
    stream, table, changes = work.stream, work.recovered.table, planned.plan.changes
    present = None
    filled = holds_rows(table) and not work.context.full_refresh
    by_order = bool(stream.key) and not planned.unique and isinstance(changes.effect, Upsert)
    if filled and by_order and expected.around(changes.slices, changes.loaded_through) is not None:
        present = partial(_present, work, planned, rows)
    current, versions = None, work.probe.versions
    if isinstance(changes.effect, Apply) and changes.effect.rules is None and versions is not None:
        current = partial(versions.present, rows.session, key=stream.key)
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
