"""One load of one stream: detect, plan, read, check, write, verify, advance.

The stages are in `engine/stages`; here is only their order. Nothing is published that was not verified.
"""

from __future__ import annotations

from contextlib import ExitStack

from tidegate.core.batch import Checked
from tidegate.core.changes import ChangeSet
from tidegate.engine import (
    column_names,
    empty_source,
    load_history,
    outcome,
    partition_loads,
    replication_slot,
    retention,
    type_changes,
    whole_proof,
)
from tidegate.engine.context import LoadContext, PlannedLoad, RunContext
from tidegate.engine.deletes import delete_guard
from tidegate.engine.events import Journal, Stage
from tidegate.engine.outcome import LoadResult
from tidegate.engine.recovery import recovery, restored_source
from tidegate.engine.stages import advance, check, detect, plan, read, verify, write
from tidegate.engine.stream import Stream
from tidegate.engine.verification.proof import Verdict
from tidegate.registry.leases import Lease
from tidegate.spark import dataframe_ops


def run(stream: Stream, context: RunContext, lease: Lease, journal: Journal) -> LoadResult:
    """Loads one stream once: in one commit, or in one for each group of partitions.

    Raises:
        TidegateError: of the commit at work nothing was published, or (CommitUnknown) the next run finds out.
    """
    with restored_source.remembering(stream, context):
        done = _run(stream, context, lease, journal)
    if context.reads_everything and done.error is None:
        restored_source.forget(stream, context)
    return done


def _run(stream: Stream, context: RunContext, lease: Lease, journal: Journal) -> LoadResult:
    recovered = recovery.recover(stream, context)
    stream = retention.applied(stream, recovered.since, context)
    with stream.source.probe(context.sessions, stream.bound_request) as probe:
        work = LoadContext(stream=stream, context=context, journal=journal, probe=probe, recovered=recovered)
        work = recovery.prove(type_changes.escalated(column_names.followed(work)))
        replication_slot.begin(stream, None if work.context.reads_everything else work.recovered.loaded)
        detected = detect.detect_changes(work)
        work, changes = detected.work, detected.changes
        if changes is None:
            return whole_proof.proven(work, outcome.unchanged(work))
        work = delete_guard.knowing_rows(work)
        delete_guard.guard(work, changes)
        if changes.grouping is None:
            done = _load(work, changes, lease)
        else:
            known = detected.ledger
            done = partition_loads.load_each(work, changes, known, lambda each, group: _load(each, group, lease))
        return whole_proof.proven(work, done)


def _load(work: LoadContext, changes: ChangeSet, lease: Lease) -> LoadResult:
    work.context.sessions.launch(small=read.is_small(work, changes))
    work = delete_guard.knowing_rows(work)
    planned = plan.plan(work, changes, save=work.context.save)
    kind = "load" if changes.grouping is None else "load_partition"
    labels = [part.label for part in planned.plan.changes.slices]
    facts = {part.slice.label: {**_rows(part.rows), "action": str(part.action)} for part in changes.parts}
    with work.context.registry.task(
        work.stream.uid, kind, run_id=work.context.run_id, groups=labels, facts=facts
    ) as payload:
        done = load(work, planned, lease)
        payload |= {**_rows(done.counts.rows_read), "snapshot": done.reached.snapshot, "verified": done.verified}
        payload |= {"level": str(work.stream.policies.verify), **done.verdict.to_dict()}
        whole = done.whole or (planned.plan.base is None and changes.grouping is None)
        if done.verified and whole and (read_at := planned.plan.changes.read_at) is not None:
            payload.update(load_history.proof_of(planned.plan.load_id, read_at))
        return done


def _rows(loaded: int | None) -> dict[str, int | None]:
    """The rows of a task, also by the name under which DMVA's payloads have them."""
    return {"rows": loaded, "rows_affected": loaded}


def load(work: LoadContext, planned: PlannedLoad, lease: Lease) -> LoadResult:
    """What was planned, in one commit: an error in any stage leaves the table as it was.

    Beside the stages the source is asked for what verification compares, while Spark starts and reads; the table is
    opened while rows are read; and what a log's events need later is kept while rows are written.
    """
    if empty_source.has_none(planned.plan):
        return _without_rows(work, planned, lease)
    warm = work.context.sessions.started
    with ExitStack() as held:
        expected = held.enter_context(verify.asking(work, planned))
        rows = read.read(work, planned, held)
        checked = check.check(work, planned, rows, held)
        written = write.write(work, planned, checked, lease, held)
        if written.checked.skipped is not None:
            return advance.drop(work, planned, written, written.checked.skipped, warm=warm)
        verdict = verify.verify(work, planned, written, expected)
        receipt = advance.publish(work, planned, written.staging, lease)
    return advance.advance(work, planned, written.checked, verdict, receipt, warm=warm)


def _without_rows(work: LoadContext, planned: PlannedLoad, lease: Lease) -> LoadResult:
    """The table without a row, and a commit with its position: there is nothing to check or compare."""
    warm = work.context.sessions.started
    with ExitStack() as held:
        session, opened = read.opening(work, planned.plan, held)
        with work.journal.stage(Stage.WRITE):
            lease.check()
            staging = opened()
            nothing = dataframe_ops.completed(session.range(0).select(), planned.plan.table)
            if planned.plan.deletes.reset is None:
                staging.append(nothing)
            else:
                staging.overwrite(nothing)
        receipt = advance.publish(work, planned, staging, lease)
    checked, verdict = Checked(frame=nothing, rows=0), Verdict(equal=None, rows=0)
    return advance.advance(work, planned, checked, verdict, receipt, warm=warm)
