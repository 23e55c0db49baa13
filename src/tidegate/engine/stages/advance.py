"""Advance: publishes the commit atomically, then updates the registry."""

from __future__ import annotations

from dataclasses import replace

from tidegate.core.batch import Checked
from tidegate.core.ports.format import Receipt, Staging
from tidegate.engine import outcome, replication_slot
from tidegate.engine.context import LoadContext, PlannedLoad
from tidegate.engine.events import Moment, Stage
from tidegate.engine.outcome import LoadResult
from tidegate.engine.publish import publish as publish_staged
from tidegate.engine.stages.write import Written
from tidegate.engine.verification.proof import Verdict
from tidegate.registry.leases import Lease
from tidegate.registry.values import PlanStatus


def publish(work: LoadContext, planned: PlannedLoad, staging: Staging, lease: Lease) -> Receipt:
    """Makes the verified commit visible to readers.

    Raises:
        LeaseHeld: another runner has taken the stream over.
        PositionMoved, CommitConflict, CommitUnknown: see `engine.publish`.
    """
    work.journal.tell(Stage.ADVANCE, Moment.START)
    lease.check()
    return publish_staged(work.stream.format, work.stream.target, planned.plan, staging)


def advance(  # noqa: PLR0913 - what the stages found
    work: LoadContext, planned: PlannedLoad, checked: Checked, verdict: Verdict, receipt: Receipt, *, warm: bool
) -> LoadResult:
    """Updates the registry from the table, and confirms to the log what is no longer needed.

    Args:
        warm: Spark ran before the load.
    """
    stream, plan = work.stream, planned.plan
    work.journal.tell(Stage.ADVANCE, Moment.PUBLISHED)
    uuid = work.recovered.table.uuid or stream.format.state(stream.target, stream.uid).uuid
    work.context.registry.advance(plan, snapshot=receipt.snapshot, table_uuid=uuid, verified=verdict.equal)
    work.journal.done(Stage.ADVANCE)
    notes = replication_slot.acknowledge(stream, plan.position)
    return outcome.loaded(work, plan, checked, receipt, verdict, notes=notes, warm=warm)


def drop(work: LoadContext, planned: PlannedLoad, written: Written, reason: str, *, warm: bool) -> LoadResult:
    """Drops a load that was not worth a commit: the table and its position stay unchanged.

    Args:
        warm: Spark ran before the load.
    """
    written.staging.discard()
    work.context.registry.finish_plan(planned.plan.load_id, PlanStatus.DROPPED)
    return replace(outcome.unchanged(work, reason), spark_started=not warm and work.context.sessions.started)
