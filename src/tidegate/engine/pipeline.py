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
from tidegate.core.continuity import Witness
from tidegate.core.fingerprint import Fingerprint
from tidegate.core.ledger import Ledger
from tidegate.core.outcome import Outcome
from tidegate.core.plan import LoadPlan, Mode
from tidegate.core.protocols import Layout, Staging
from tidegate.core.slices import Files, Meaning
from tidegate.core.versions import Historic
from tidegate.engine import (
    briefing,
    detection,
    fuse,
    key_diff,
    last_loads,
    older_files,
    outcomes,
    partitions,
    quality,
    quarantine,
    reread,
    rescue,
    restored,
    retention,
    standing,
    verify,
)
from tidegate.engine.applied import Applied
from tidegate.engine.events import Journal, Moment, Stage
from tidegate.engine.landing import opened_later, opened_meanwhile, publish
from tidegate.engine.planner import Found, make_plan
from tidegate.engine.recover import Heal, Standing
from tidegate.engine.stream import Stream, VerifyLevel
from tidegate.engine.verify import Verdict
from tidegate.engine.work import Context, Planned, Work
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


def run(stream: Stream, context: Context, lease: Lease, journal: Journal) -> Outcome:
    """Loads one stream once: in one commit, or in one for each group of partitions.

    Raises:
        TidegateError: of the commit at work nothing was published, or (CommitUnknown) the next run finds out.
    """
    return restored.remembering(stream, context, lambda: _run(stream, context, lease, journal))


def _run(stream: Stream, context: Context, lease: Lease, journal: Journal) -> Outcome:
    stands = standing.recover(stream, context)
    with stream.source.probe(context.sessions, stream.bound_request) as probe:
        work = Work(stream=stream, context=context, journal=journal, probe=probe, standing=stands)
        work = standing.prove(work)
        retention.begin(stream, None if context.anew else work.standing.since)
        with _question(work) as payload:
            changes, ledger = detection.detect(work, measure=detection.measure)
            payload.update(_answer(changes))
        work, changes = key_diff.watch(work, changes)
        if changes is not None and (equal := partitions.equal(changes)):
            context.registry.keep_quick(stream.uid, equal)
        if changes is not None and not changes.slices:
            detection.remember_files(work, changes)
        if changes is None or (changes.parts and not changes.slices):
            return outcomes.unchanged(work)
        fuse.guard(work, changes)
        if changes.grouping is None:
            return _load(work, changes, lease)
        return _load_partitions(work, changes, ledger, lease)


def _question(work: Work) -> AbstractContextManager[dict[str, Any]]:
    """The task of asking for every partition's checksum; none for strategies that ask for less."""
    if work.stream.strategy.kind != "checksum":
        return contextlib.nullcontext({})
    return work.context.registry.task(work.stream.uid, "get_checksums", run_id=work.context.run_id)


def _answer(changes: ChangeSet | None) -> dict[str, Any]:
    counted = Counter(str(part.action) for part in changes.parts) if changes else Counter[str]()
    return {"actions": dict(counted), "rows": changes.rows if changes else 0}


def _load_partitions(work: Work, changes: ChangeSet, ledger: Ledger, lease: Lease) -> Outcome:
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
                done.append(outcomes.refused(work, group, error))
            waiting = [*alone, *waiting]
    return outcomes.combined(done, changes)


def _standing(stream: Stream) -> Standing:
    """Where the stream stands after a commit of this run."""
    table = stream.format.state(stream.target, stream.uid)
    return Standing(table=table, since=table.position, heal=Heal.NOTHING)


def _load(work: Work, changes: ChangeSet, lease: Lease) -> Outcome:
    planned = plan(work, changes, save=work.context.save)
    labels = [part.label for part in planned.plan.changes.slices]
    kind = "load" if changes.grouping is None else "load_partition"
    own = {part.slice.label: {"rows": part.rows, "action": str(part.action)} for part in changes.parts}
    tasks = work.context.registry.task(work.stream.uid, kind, run_id=work.context.run_id, groups=labels, facts=own)
    with tasks as payload:
        outcome = move(work, planned, lease)
        payload |= {"rows": outcome.rows_read, "snapshot": outcome.snapshot, "verified": outcome.verified}
        return outcome


def plan(work: Work, changes: ChangeSet, *, save: Callable[[LoadPlan], None], some: bool = False) -> Planned:
    """One load of these changes: moves nothing, starts no Spark; the plan is handed to `save` before it is used.

    Args:
        some: it reads some rows beside the loads that go on, so other rows may lack columns that it brings.
    """
    stream, probe = work.stream, work.probe
    with work.journal.stage(Stage.PLAN) as tell:
        unique = bool(stream.key) and changes.meaning is not Meaning.CHANGELOG and probe.unique(stream.key)
        found = Found(
            table=work.standing.table,
            since=work.standing.since,
            changes=partitions.described(changes, probe, probe.schema()),
            columns=probe.schema(),
            identity=probe.identity(),
            clock=probe.clock(),
            facts=briefing.write_facts(work, changes, unique=unique),
            last_sequence=work.context.registry.last_sequence(stream.uid),
            aside=rescue.aside(probe),
            renames=briefing.renames(work),
        )
        made = replace(make_plan(stream, found, now=work.context.now()), most_deleted=fuse.limit(work))
        kept = probe.witness(stream.strategy.cursor, work.standing.since) if isinstance(probe, Witness) else {}
        made = replace(made, position=replace(made.position, witness=kept))
        save(beside(made) if some else made)
        tell(made.write.reason)
    return Planned(plan=beside(made) if some else made, unique=unique)


def beside(plan: LoadPlan) -> LoadPlan:
    """The same load; its position goes on saying with which columns every row was loaded."""
    return replace(plan, position=replace(plan.position, schema=plan.since.schema)) if plan.since else plan


def move(work: Work, planned: Planned, lease: Lease) -> Outcome:
    """Read, check, write, verify, advance: an error in any of them leaves the table as it was."""
    stream, journal, plan = work.stream, work.journal, planned.plan
    started_before = work.context.sessions.started
    with _asked_meanwhile(work, planned) as expected, contextlib.ExitStack() as held:
        with journal.stage(Stage.READ):
            session = held.enter_context(work.context.session(small=_small(work, plan)))
            opened = held.enter_context(_opening(work, plan, session))
            rows = last_loads.read(work, plan, session)
        with journal.stage(Stage.CHECK):
            applied = reread.applied(work, session, plan)
            batch = replace(briefing.batch(work, planned, session), fence=reread.fence(work, session, plan, applied))
            checked = quality.check(work, planned, batch, reread.judged(rows, plan), held)
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
            if plan.changes.meaning is Meaning.ALL or any(isinstance(part, Files) for part in plan.changes.slices):
                work.probe.still()  # what moves out of a window is read by the next load; what moves in a whole is torn
            tell(plan.write.mode)
        with (
            journal.stage(Stage.VERIFY),
            standing.seen_unverified(work, plan, staging),
            _proven_meanwhile(stream, checked, plan, staging),
        ):
            if reread.of_events(plan, stream.writer):
                verdict = reread.verify_events(work, session, plan, staging, batch)
            else:
                verdict = _verify(work, plan, staging, checked, expected)
        journal.tell(Stage.ADVANCE, Moment.START)
        lease.check()
        receipt = publish(stream.format, stream.target, plan, staging)
    journal.tell(Stage.ADVANCE, Moment.PUBLISHED)
    uuid = work.standing.table.uuid or stream.format.state(stream.target, stream.uid).uuid
    work.context.registry.advance(plan, snapshot=receipt.snapshot, table_uuid=uuid, verified=verdict.equal)
    journal.tell(Stage.ADVANCE, Moment.DONE)
    told = outcomes.loaded(work, plan, receipt, verdict, retention.acknowledge(stream, plan.position))
    rows_read = next(n for n in (quality.rows_of(checked), verdict.rows, plan.changes.rows, 0) if n is not None)
    told = replace(quality.told(told, checked), rows_superseded=checked.folded.superseded if checked.folded else 0)
    return replace(told, rows_read=rows_read, spark_started=not started_before and work.context.sessions.started)


def _dropped(work: Work, plan: LoadPlan, staging: Staging, reason: str) -> Outcome:
    """Of a load that was not worth a commit: the table and its position stay as they are."""
    staging.discard()
    work.context.registry.finish_plan(plan.load_id, PlanStatus.DROPPED)
    told = outcomes.unchanged(work)
    return replace(told, notes=(*told.notes, reason))


def _small(work: Work, plan: LoadPlan) -> bool:
    """Whether so little moves that a Spark which starts quickly beats one that runs fast."""
    rows = plan.changes.rows if work.key_diff is None else max(plan.changes.rows or 0, work.key_diff.rows or 0)
    return rows is not None and rows < SMALL_ROWS


def _opening(work: Work, plan: LoadPlan, session: SparkSession) -> AbstractContextManager[Callable[[], Staging]]:
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
    if not stream.layout.partition_by and isinstance(stream.writer, Historic):
        return replace(stream.layout, partition_by=stream.writer.partition_by)
    if stream.layout.partition_by or grouping is None:
        return stream.layout
    return replace(stream.layout, partition_by=stream.format.partition_by(grouping))


@contextmanager
def _asked_meanwhile(work: Work, planned: Planned) -> Iterator[Future[Fingerprint] | None]:
    """Asks the source while Spark reads, when the answer does not depend on what the check finds."""
    level = work.stream.verify
    found_by_check = work.stream.key and not planned.unique
    if (
        level is VerifyLevel.NONE
        or found_by_check
        or reread.of_events(planned.plan, work.stream.writer)
        or planned.plan.write.mode is Mode.MERGE_DIFFERENCES
    ):
        yield None
        return
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="verify") as pool:
        asked = pool.submit(verify.source_side, work.probe, planned.plan, level, None)
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
    if not isinstance(stream.writer, Historic) or stream.verify is VerifyLevel.NONE:
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
    work: Work, plan: LoadPlan, staging: Staging, checked: Checked, expected: Future[Fingerprint] | None
) -> Verdict:
    level = work.stream.verify
    if level is VerifyLevel.NONE:
        return Verdict(equal=None)

    def ask() -> Fingerprint:
        return verify.source_side(work.probe, plan, level, checked.latest, moved=checked.moved)

    key_diff.need_absent(plan, staging, checked)
    source = expected.result() if expected is not None else ask()
    table = verify.read_back(plan, staging, checked, level)
    if table != source:
        table = verify.table_side(plan, staging, checked, level)
    sides, seen = verify.Sides(source=source, table=table), not staging.invisible
    verdict = verify.judge(plan, level, sides, again=ask, still=work.probe.still, seen=seen)
    older_files.verify(work, plan, staging, checked, level)
    return verdict
