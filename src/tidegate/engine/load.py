"""Decides the order of a load: detect, plan, read, check, write, verify, advance.

Called by the runner, once a stream; every decision is made elsewhere. Must never publish what was not verified.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tidegate.core.batch import Checked
from tidegate.core.changes import ChangeSet
from tidegate.core.effects import Apply, Mirror
from tidegate.core.fingerprint import Fingerprint
from tidegate.core.ledger import Ledger
from tidegate.core.outcome import Outcome
from tidegate.core.plan import LoadPlan, Mode
from tidegate.core.ports.format import Layout, Staging
from tidegate.core.slices import Files
from tidegate.core.source_identity import Witness
from tidegate.core.versioned_writer import VersionedWriter
from tidegate.engine import older_files, outcome, partitions, replication_slot, rescued_columns, write_context
from tidegate.engine.applied_events import Applied
from tidegate.engine.context import LoadContext, PlannedLoad, RunContext
from tidegate.engine.deletes import delete_guard, key_diff
from tidegate.engine.events import Journal, Moment, Stage
from tidegate.engine.publish import opened_later, opened_meanwhile, publish
from tidegate.engine.quality import quality
from tidegate.engine.quarantine import quarantine
from tidegate.engine.reconcile import Heal, RecoveryState
from tidegate.engine.recovery import recovery, restored_source
from tidegate.engine.stages import detect
from tidegate.engine.stages.plan import PlanInputs, make_plan
from tidegate.engine.stream import Stream, VerifyLevel
from tidegate.engine.verification import events, last_loads, proof
from tidegate.engine.verification.proof import Verdict
from tidegate.errors import (
    CheckFailed,
    RowsMoved,
    SourceUnavailable,
    TidegateError,
    VerifyFailed,
)
from tidegate.registry.leases import Lease
from tidegate.registry.values import PlanStatus

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SMALL_ROWS = 200_000


def run(stream: Stream, context: RunContext, lease: Lease, journal: Journal) -> Outcome:
    """Loads one stream once: in one commit, or in one for each group of partitions.

    Raises:
        TidegateError: of the commit at work nothing was published, or (CommitUnknown) the next run finds out.
    """
    return restored_source.remembering(stream, context, lambda: _run(stream, context, lease, journal))


def _run(stream: Stream, context: RunContext, lease: Lease, journal: Journal) -> Outcome:
    stands = recovery.recover(stream, context)
    with stream.source.probe(context.sessions, stream.bound_request) as probe:
        work = LoadContext(stream=stream, context=context, journal=journal, probe=probe, standing=stands)
        work = recovery.prove(work)
        replication_slot.begin(stream, None if context.anew else work.standing.since)
        with _question(work) as payload:
            changes, ledger = detect.detect(work, measure=detect.measure)
            payload.update(_answer(changes))
        work, changes = key_diff.watch(work, changes)
        if changes is not None and (equal := partitions.equal(changes)):
            context.registry.keep_quick(stream.uid, equal)
        if changes is not None and not changes.slices:
            detect.remember_files(work, changes)
        if changes is None or (changes.parts and not changes.slices):
            return outcome.unchanged(work)
        delete_guard.guard(work, changes)
        if changes.grouping is None:
            return _load(work, changes, lease)
        return _load_partitions(work, changes, ledger, lease)


def _question(work: LoadContext) -> AbstractContextManager[dict[str, Any]]:
    """The task of asking for every partition's checksum; none for strategies that ask for less."""
    if work.stream.strategy.kind != "checksum":
        return contextlib.nullcontext({})
    return work.context.registry.task(work.stream.uid, "get_checksums", run_id=work.context.run_id)


def _answer(changes: ChangeSet | None) -> dict[str, Any]:
    counted = Counter(str(part.action) for part in changes.parts) if changes else Counter[str]()
    return {"actions": dict(counted), "rows": changes.rows if changes else 0}


def _load_partitions(work: LoadContext, changes: ChangeSet, ledger: Ledger, lease: Lease) -> Outcome:
    """One commit a group; where a partition of it cannot be loaded, one for each of the others.

    A position vouches for partitions only once all of them are as the source holds them: until then a row of a key may
    have gone from one that is still to be loaded.
    """
    if work.context.full_refresh:
        return _load(work, partitions.vouched(partitions.all_at_once(changes), Ledger()), lease)
    waiting = list(partitions.groups(changes))
    done: list[Outcome] = []
    while waiting:
        group = waiting.pop(0)
        loaded = ledger.loaded(group.parts)
        whole = not work.stream.key or not (waiting or any(outcome.error for outcome in done))
        try:
            try:
                done.append(_load(work, partitions.vouched(group, ledger) if whole else group, lease))
            except RowsMoved:
                done.append(_load(work, group, lease))
            ledger = loaded
            work = replace(work, standing=_standing(work.stream))
        except (CheckFailed, VerifyFailed) as error:
            if isinstance(error, VerifyFailed) and not work.stream.format.invisible:
                raise  # its rows are seen: the next run compares the whole table
            alone = partitions.singly(group)
            if not alone and len(changes.slices) == 1:
                raise
            if not alone:
                done.append(outcome.refused(work, group, error))
            waiting = [*alone, *waiting]
    return outcome.combined(done, changes)


def _standing(stream: Stream) -> RecoveryState:
    """Where the stream stands after a commit of this run."""
    table = stream.format.state(stream.target, stream.uid)
    return RecoveryState(table=table, since=table.position, heal=Heal.NOTHING)


def _load(work: LoadContext, changes: ChangeSet, lease: Lease) -> Outcome:
    planned = plan(work, changes, save=work.context.save)
    labels = [part.label for part in planned.plan.changes.slices]
    kind = "load" if changes.grouping is None else "load_partition"
    own = {part.slice.label: {"rows": part.rows, "action": str(part.action)} for part in changes.parts}
    tasks = work.context.registry.task(work.stream.uid, kind, run_id=work.context.run_id, groups=labels, facts=own)
    with tasks as payload:
        outcome = move(work, planned, lease)
        payload |= {"rows": outcome.rows_read, "snapshot": outcome.snapshot, "verified": outcome.verified}
        return outcome


def plan(work: LoadContext, changes: ChangeSet, *, save: Callable[[LoadPlan], None], some: bool = False) -> PlannedLoad:
    """One load of these changes: moves nothing, starts no Spark; the plan is handed to `save` before it is used.

    Args:
        some: it reads some rows beside the loads that go on, so other rows may lack columns that it brings.
    """
    stream, probe = work.stream, work.probe
    with work.journal.stage(Stage.PLAN) as tell:
        unique = bool(stream.key) and not isinstance(changes.effect, Apply) and probe.unique(stream.key)
        found = PlanInputs(
            table=work.standing.table,
            since=work.standing.since,
            changes=partitions.described(changes, probe, probe.schema()),
            columns=probe.schema(),
            identity=probe.identity(),
            clock=probe.clock(),
            facts=write_context.write_facts(work, changes, unique=unique),
            last_sequence=work.context.registry.last_sequence(stream.uid),
            aside=rescued_columns.aside(probe),
            renames=write_context.renames(work),
        )
        made = replace(make_plan(stream, found, now=work.context.now()), most_deleted=delete_guard.limit(work))
        kept = probe.witness(stream.strategy.cursor, work.standing.since) if isinstance(probe, Witness) else {}
        made = replace(made, position=replace(made.position, witness=kept))
        save(beside(made) if some else made)
        tell(made.write.reason)
    return PlannedLoad(plan=beside(made) if some else made, unique=unique)


def beside(plan: LoadPlan) -> LoadPlan:
    """The same load; its position goes on saying with which columns every row was loaded."""
    return replace(plan, position=replace(plan.position, schema=plan.since.schema)) if plan.since else plan


def move(work: LoadContext, planned: PlannedLoad, lease: Lease) -> Outcome:
    """Read, check, write, verify, advance: an error in any of them leaves the table as it was."""
    stream, journal, plan, started = work.stream, work.journal, planned.plan, work.context.sessions.started
    with _asked_meanwhile(work, planned) as expected, contextlib.ExitStack() as held:
        with journal.stage(Stage.READ):
            session = held.enter_context(work.context.session(small=_small(work, plan)))
            opened = held.enter_context(_opening(work, plan, session))
            rows = last_loads.read(work, plan, session)
        with journal.stage(Stage.CHECK):
            applied = events.applied(work, session, plan)
            fence = events.fence(work, session, plan, applied)
            batch = replace(write_context.batch(work, planned, session), fence=fence)
            checked = quality.check(work, planned, batch, events.judged(rows, plan), held)
            checked = quality.foreseen(work, plan, last_loads.told(stream, plan, checked))
        with journal.stage(Stage.WRITE) as tell:
            lease.check()
            staging = opened()
            checked = older_files.restore(work, plan, session, staging, checked)
            checked = key_diff.find(work, plan, session, staging, checked)
            if checked.gone is not None:
                held.callback(checked.gone.unpersist)
                quarantine.let_go(stream, session, plan, checked.gone, work.context)
            with _remembered(applied, checked, staging):
                if checked.skipped is None:
                    checked = quality.write(work, plan, staging, checked)
            if checked.skipped is not None:
                return _dropped(work, plan, staging, checked.skipped)
            if isinstance(plan.changes.effect, Mirror) or any(isinstance(part, Files) for part in plan.changes.slices):
                work.probe.verify_unchanged()  # a whole that moves is torn; the next load reads what left a window
            tell(plan.write.mode)
        with (
            journal.stage(Stage.VERIFY),
            recovery.seen_unverified(work, plan, staging),
            _proven_meanwhile(stream, checked, plan, staging),
        ):
            if events.of_events(plan, stream.writer):
                verdict = events.verify_events(work, session, plan, staging, batch)
            else:
                verdict = _verify(work, plan, staging, checked, expected)
        journal.tell(Stage.ADVANCE, Moment.START)
        lease.check()
        receipt = publish(stream.format, stream.target, plan, staging)
    journal.tell(Stage.ADVANCE, Moment.PUBLISHED)
    uuid = work.standing.table.uuid or stream.format.state(stream.target, stream.uid).uuid
    work.context.registry.advance(plan, snapshot=receipt.snapshot, table_uuid=uuid, verified=verdict.equal)
    journal.tell(Stage.ADVANCE, Moment.DONE)
    told = outcome.loaded(work, plan, receipt, verdict, replication_slot.acknowledge(stream, plan.position))
    rows_read = next(n for n in (quality.rows_of(checked), verdict.rows, plan.changes.rows, 0) if n is not None)
    told = replace(quality.told(told, checked), rows_superseded=checked.folded.superseded if checked.folded else 0)
    return replace(told, rows_read=rows_read, spark_started=not started and work.context.sessions.started)


def _dropped(work: LoadContext, plan: LoadPlan, staging: Staging, reason: str) -> Outcome:
    """Of a load that was not worth a commit: the table and its position stay as they are."""
    staging.discard()
    work.context.registry.finish_plan(plan.load_id, PlanStatus.DROPPED)
    told = outcome.unchanged(work)
    return replace(told, notes=(*told.notes, reason))


def _small(work: LoadContext, plan: LoadPlan) -> bool:
    """Whether so little moves that a Spark which starts quickly beats one that runs fast."""
    rows = plan.changes.rows if work.key_diff is None else max(plan.changes.rows or 0, work.key_diff.rows or 0)
    return rows is not None and rows < SMALL_ROWS


def _opening(work: LoadContext, plan: LoadPlan, session: SparkSession) -> AbstractContextManager[Callable[[], Staging]]:
    """Branches of a crash are dropped; a table is made or changed only once the rows have passed their check."""
    stream, table = work.stream, work.standing.table
    if table.branches:
        stream.format.drop_branches(session, stream.target, table.branches)
    # A table without a snapshot was perhaps made by a load that crashed before all of it was done.
    if table.snapshot is not None and not plan.evolve:
        return opened_meanwhile(stream.format, session, stream.target, plan)

    def prepare() -> None:
        if table.snapshot is None:
            stream.format.create(session, stream.target, plan.table, _layout(stream, plan))
        if plan.evolve:
            stream.format.evolve(session, stream.target, plan.evolve, plan.table)

    return opened_later(stream.format, session, stream.target, plan, prepare=prepare)


def _layout(stream: Stream, plan: LoadPlan) -> Layout:
    """The user's layout, else the writer's, else one in which each partition that is compared is whole files."""
    grouping = plan.changes.grouping
    if not stream.layout.partition_by and isinstance(stream.writer, VersionedWriter):
        return replace(stream.layout, partition_by=stream.writer.partition_by)
    if stream.layout.partition_by or grouping is None:
        return stream.layout
    return replace(stream.layout, partition_by=stream.format.partition_by(grouping))


@contextmanager
def _asked_meanwhile(work: LoadContext, planned: PlannedLoad) -> Iterator[Future[Fingerprint] | None]:
    """Asks the source while Spark reads, when the answer does not depend on what the check finds."""
    level = work.stream.verify
    found_by_check = work.stream.key and not planned.unique
    if (
        level is VerifyLevel.NONE
        or found_by_check
        or events.of_events(planned.plan, work.stream.writer)
        or planned.plan.write.mode is Mode.MERGE_DIFFERENCES
    ):
        yield None
        return
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="verify") as pool:
        asked = pool.submit(proof.source_side, work.probe, planned.plan, level, None)
        try:
            yield asked
        except TidegateError as error:
            # A question that a source refuses, for a bad value, ends the snapshot that Spark reads.
            reason = asked.exception() if asked.done() or isinstance(error, SourceUnavailable) else None
            if isinstance(reason, TidegateError):
                raise reason from error
            raise


def _remembered(applied: Applied | None, checked: Checked, staging: Staging) -> AbstractContextManager[None]:
    """Remembers what the load applies, before anybody sees it: while it is written, where that is invisible."""
    if applied is None or checked.folded is None:
        return contextlib.nullcontext()
    if staging.invisible:
        return _meanwhile("remember", applied.keep, checked.folded)
    applied.keep(checked.folded)
    return contextlib.nullcontext()


def _proven_meanwhile(
    stream: Stream, checked: Checked, plan: LoadPlan, staging: Staging
) -> AbstractContextManager[None]:
    """Proves a history while its rows are compared with the source's: either of them looks at the same rows."""
    if not isinstance(stream.writer, VersionedWriter) or stream.verify is VerifyLevel.NONE:
        return contextlib.nullcontext()
    return _meanwhile("prove", stream.writer.prove, checked, plan, staging)


@contextmanager
def _meanwhile(name: str, work: Callable[..., object], *given: object) -> Iterator[None]:
    """Does something beside the block; what it raises is raised at the block's end."""
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix=name) as pool:
        done = pool.submit(work, *given)
        yield
        done.result()


def _verify(
    work: LoadContext, plan: LoadPlan, staging: Staging, checked: Checked, expected: Future[Fingerprint] | None
) -> Verdict:
    level = work.stream.verify
    if level is VerifyLevel.NONE:
        return Verdict(equal=None)

    def ask() -> Fingerprint:
        return proof.source_side(work.probe, plan, level, checked.latest, moved=checked.moved)

    key_diff.need_absent(plan, staging, checked)
    source = expected.result() if expected is not None else ask()
    table = proof.read_back(plan, staging, checked, level)
    if table != source:
        table = proof.table_side(plan, staging, checked, level)
    sides, seen = proof.Sides(source=source, table=table), not staging.invisible
    verdict = proof.judge(plan, level, sides, again=ask, verify_unchanged=work.probe.verify_unchanged, seen=seen)
    older_files.verify(work, plan, staging, checked, level)
    return verdict
