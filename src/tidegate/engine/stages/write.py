"""Write: one commit with the rows and the position, on Iceberg to a branch that no reader sees."""

from __future__ import annotations

import contextlib
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass

from tidegate.core.batch import Checked
from tidegate.core.effects import Mirror
from tidegate.core.ports.format import Staging
from tidegate.core.slices import Files
from tidegate.engine import older_files
from tidegate.engine.applied_events import Applied
from tidegate.engine.background import meanwhile
from tidegate.engine.context import LoadContext, PlannedLoad
from tidegate.engine.deletes import key_diff
from tidegate.engine.events import Stage
from tidegate.engine.quality import quality
from tidegate.engine.quarantine import quarantine
from tidegate.engine.stages.check import CheckedRows
from tidegate.registry.leases import Lease


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A commit that is not published yet.

    Args:
        checked: what was written, and what verification needs to find it; `skipped` where nothing was worth a commit.
    """

    rows: CheckedRows
    checked: Checked
    staging: Staging


def write(work: LoadContext, planned: PlannedLoad, rows: CheckedRows, lease: Lease, held: ExitStack) -> Written:
    """One commit that carries the position; or none, where what differs is not worth a load.

    Raises:
        LeaseHeld: another runner has taken the stream over.
        CheckFailed: the table as a whole would break a rule.
        DeleteFuse: more rows would go than may.
        SourceMoved: the source changed while a whole table or whole files were read.
    """
    plan, session, checked = planned.plan, rows.read.session, rows.checked
    with work.journal.stage(Stage.WRITE) as tell:
        lease.check()
        staging = rows.read.opened()
        checked = older_files.restore(work, plan, session, staging, checked)
        checked = key_diff.find(work, plan, session, staging, checked)
        if checked.deleted_keys is not None:
            held.callback(checked.deleted_keys.frame.unpersist)
            quarantine.release_deleted_keys(work.stream, session, plan, checked.deleted_keys.frame, work.context)
        with _remembered(rows.applied, checked, staging):
            if checked.skipped is None:
                checked = quality.write(work, plan, staging, checked)
        if checked.skipped is None:
            if isinstance(plan.changes.effect, Mirror) or any(isinstance(part, Files) for part in plan.changes.slices):
                work.probe.verify_unchanged()  # a whole that moves is torn; the next load reads what left a window
            tell(plan.write.mode)
    return Written(rows=rows, checked=checked, staging=staging)


def _remembered(applied: Applied | None, checked: Checked, staging: Staging) -> AbstractContextManager[None]:
    """Remembers what the load applies, before anybody sees it: while it is written, where that is invisible."""
    if applied is None or checked.folded is None:
        return contextlib.nullcontext()
    if staging.invisible:
        return meanwhile("remember", applied.keep, checked.folded)
    applied.keep(checked.folded)
    return contextlib.nullcontext()
