"""Decides the order of a load: detect, plan, read, check, write, verify, advance.

Called by the runner, once a stream; every decision is made elsewhere. Must never publish what was not verified.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from tidegate.core.changes import ChangeSet
from tidegate.core.fingerprint import Fingerprint
from tidegate.core.outcome import Outcome, Result
from tidegate.core.plan import LoadPlan, WriteFacts
from tidegate.core.protocols import Batch, Checked, Latest, Probe, Receipt, Staging
from tidegate.core.slices import Meaning
from tidegate.engine import verify
from tidegate.engine.events import Journal, Moment, Stage
from tidegate.engine.planner import Found, make_plan
from tidegate.engine.recover import Heal, Standing, holds_rows, reconcile
from tidegate.engine.stream import Stream, VerifyLevel
from tidegate.engine.verify import Verdict
from tidegate.errors import CommitConflict, CommitUnknown, PositionMoved, SourceUnavailable, TidegateError
from tidegate.registry.leases import Lease
from tidegate.registry.store import Registry
from tidegate.registry.values import PlanStatus

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.spark.session import Sessions

SMALL_ROWS = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What all streams of a run share.

    Args:
        redact: takes the project's secrets out of a text that is kept or shown.
    """

    registry: Registry
    sessions: Sessions
    run_id: str
    now: Callable[[], datetime]
    redact: Callable[[str], str]
    full_refresh: bool = False

    def save(self, plan: LoadPlan) -> None:
        """Keeps the plan, before anything is read."""
        self.registry.save_plan(plan, self.run_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One stream at work, its source open."""

    stream: Stream
    context: Context
    journal: Journal
    probe: Probe
    standing: Standing


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A load that is known before anything moves.

    Args:
        unique: the source guarantees one row a key.
    """

    plan: LoadPlan
    unique: bool


def run(stream: Stream, context: Context, lease: Lease, journal: Journal) -> Outcome:
    """Loads one stream once.

    Raises:
        TidegateError: nothing was published, or (CommitUnknown) the next run finds out.
    """
    standing = recover(stream, context)
    with stream.source.probe() as probe:
        work = Work(stream=stream, context=context, journal=journal, probe=probe, standing=standing)
        planned = prepare(work, save=context.save)
        if planned is None:
            return _unchanged(work)
        label = "; ".join(part.label for part in planned.plan.changes.slices)
        with context.registry.task(stream.uid, "load", run_id=context.run_id, extract_group_id=label) as payload:
            outcome = _move(work, planned, lease)
            payload |= {"rows": outcome.rows_read, "snapshot": outcome.snapshot, "verified": outcome.verified}
            return outcome


def recover(stream: Stream, context: Context) -> Standing:
    """The table's own position; the registry catches up with a load that landed before a crash."""
    registry = context.registry
    remembered = registry.position(stream.uid)
    table = stream.format.state(stream.target, stream.uid)
    standing = reconcile(stream.name, table, remembered)
    since = standing.since
    for saved in registry.open_plans(stream.uid):
        landed = since is not None and since.load_id == saved.load_id
        if landed and saved.since == (remembered.position if remembered else None):
            verified = True if stream.verify is not VerifyLevel.NONE else None  # nothing unverified is ever published
            registry.advance(saved, snapshot=table.position_snapshot, table_uuid=table.uuid, verified=verified)
            return standing
        registry.finish_plan(saved.load_id, PlanStatus.PUBLISHED if landed else PlanStatus.DROPPED)
    if standing.heal is Heal.CATCH_UP:
        registry.set_position(
            stream.uid,
            since,
            snapshot=table.position_snapshot,
            table_uuid=table.uuid,
            reason="recovered from the table",
        )
    return standing


def prepare(work: Work, *, save: Callable[[LoadPlan], None]) -> Planned | None:
    """Detect and plan: moves nothing, starts no Spark; the plan is handed to `save` before it is used.

    None when nothing changed.
    """
    stream, probe = work.stream, work.probe
    with work.journal.stage(Stage.DETECT) as tell:
        changes = stream.strategy.detect(probe, None if work.context.full_refresh else work.standing.since)
        tell(changes.reason if changes else "nothing changed")
    if changes is None:
        return None
    with work.journal.stage(Stage.PLAN) as tell:
        unique = bool(stream.key) and probe.unique(stream.key)
        found = Found(
            table=work.standing.table,
            since=work.standing.since,
            changes=changes,
            columns=probe.schema(),
            identity=probe.identity(),
            clock=probe.clock(),
            facts=_facts(work, changes, unique=unique),
            last_sequence=work.context.registry.last_sequence(stream.uid),
        )
        plan = make_plan(stream, found, now=work.context.now())
        save(plan)
        tell(plan.write.reason)
    return Planned(plan=plan, unique=unique)


def _facts(work: Work, changes: ChangeSet, *, unique: bool) -> WriteFacts:
    stream, table = work.stream, work.standing.table
    filled = holds_rows(table)
    anew = work.context.full_refresh and filled
    batch_keys = file_keys = None
    if stream.writer.needs_key and filled and not anew and len(changes.slices) == 1:
        batch_keys = work.probe.key_bounds(changes.slices[0], stream.key[0])
        file_keys = stream.format.key_bounds(stream.target, stream.key[0]) if batch_keys else None
    return WriteFacts(
        rows=changes.rows,
        table_rows=table.rows if filled else 0,
        replace=anew,
        batch_keys=batch_keys,
        file_keys=file_keys,
        keys_unique=unique,
    )


def _move(work: Work, planned: Planned, lease: Lease) -> Outcome:
    """Read, check, write, verify, advance: an error in any of them leaves the table as it was."""
    stream, journal, plan = work.stream, work.journal, planned.plan
    started_before = work.context.sessions.started
    with _asked_meanwhile(work, planned) as expected, contextlib.ExitStack() as held:
        with journal.stage(Stage.READ):
            session = _ready_session(work, plan)
            held.callback(work.context.sessions.release, session)
            rows = stream.source.read(session, work.probe, plan.changes.slices, plan.columns)
        with journal.stage(Stage.CHECK):
            checked = stream.writer.check(rows, plan, _batch(work, planned))
            held.callback(_release, checked)
        staging = stream.format.stage(session, stream.target, plan)
        held.enter_context(_discarded_on_error(staging))
        with journal.stage(Stage.WRITE) as tell:
            stream.writer.write(checked, plan, staging)
            if plan.changes.meaning is Meaning.ALL:
                work.probe.still()  # what moves out of a window is read by the next load; what moves in a whole is torn
            tell(plan.write.mode)
        with journal.stage(Stage.VERIFY):
            verdict = _verify(work, plan, staging, checked, expected)
        journal.tell(Stage.ADVANCE, Moment.START)
        lease.check()
        receipt = _publish(stream, plan, staging)
    journal.tell(Stage.ADVANCE, Moment.PUBLISHED)
    uuid = work.standing.table.uuid or stream.format.state(stream.target, stream.uid).uuid
    work.context.registry.advance(plan, snapshot=receipt.snapshot, table_uuid=uuid, verified=verdict.equal)
    journal.tell(Stage.ADVANCE, Moment.DONE)
    loaded = _outcome(work, plan, receipt, verdict)
    rows_read = next(n for n in (checked.rows, verdict.rows, plan.changes.rows, 0) if n is not None)
    return replace(loaded, rows_read=rows_read, spark_started=not started_before and work.context.sessions.started)


def _outcome(work: Work, plan: LoadPlan, receipt: Receipt, verdict: Verdict) -> Outcome:
    return Outcome(
        stream=work.stream.name,
        outcome=Result.LOADED,
        strategy=work.stream.strategy.kind,
        meaning=plan.changes.meaning,
        write=plan.write.mode,
        rows_inserted=receipt.rows_inserted,
        rows_updated=receipt.rows_updated,
        rows_deleted=receipt.rows_deleted,
        bytes_read=plan.changes.bytes or 0,
        slices_changed=len(plan.changes.slices),
        slices_total=len(plan.changes.slices),
        snapshot=receipt.snapshot,
        position=plan.position.to_dict(),
        verified=verdict.equal,
        seconds=dict(work.journal.seconds),
        notes=(*work.probe.notes(), *_coverage(verdict)),
    )


def _ready_session(work: Work, plan: LoadPlan) -> SparkSession:
    """A session for this load, the table made or evolved, branches of a crash dropped."""
    stream, table = work.stream, work.standing.table
    rows = plan.changes.rows
    session = work.context.sessions.load_session(small=rows is not None and rows < SMALL_ROWS)
    if table.snapshot is None:  # also made already, by a load that crashed before all of it was done
        stream.format.create(session, stream.target, plan.columns, stream.layout)
    if plan.evolve:
        stream.format.evolve(session, stream.target, plan.evolve, plan.columns)
    if table.branches:
        stream.format.drop_branches(session, stream.target, table.branches)
    return session


def _batch(work: Work, planned: Planned) -> Batch:
    stream = work.stream
    latest = Latest(key=stream.key, order=stream.strategy.cursor) if stream.key else None
    bounds = planned.plan.write.prune if work.probe.steady() and planned.unique else ()
    return Batch(latest=latest, keys_unique=planned.unique, skip_equal=stream.strategy.rereads, bounds=bounds)


@contextmanager
def _asked_meanwhile(work: Work, planned: Planned) -> Iterator[Future[Fingerprint] | None]:
    """Asks the source while Spark reads, when the answer does not depend on what the check finds."""
    level = work.stream.verify
    if level is VerifyLevel.NONE or not (planned.unique or not work.stream.key):
        yield None
        return
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="verify") as pool:
        asked = pool.submit(verify.source_side, work.probe, planned.plan, level, None)
        try:
            yield asked
        except SourceUnavailable as error:
            # A question that a source refuses, for a bad value, ends the snapshot that Spark reads.
            reason = asked.exception()
            if isinstance(reason, TidegateError):
                raise reason from error
            raise


def _verify(
    work: Work, plan: LoadPlan, staging: Staging, checked: Checked, expected: Future[Fingerprint] | None
) -> Verdict:
    level = work.stream.verify
    if level is VerifyLevel.NONE:
        return Verdict(equal=None)

    def ask() -> Fingerprint:
        return verify.source_side(work.probe, plan, level, checked.latest)

    table = verify.table_side(plan, staging, checked, level)
    source = expected.result() if expected is not None else ask()
    return verify.judge(plan, level, verify.Sides(source=source, table=table), again=ask, still=work.probe.still)


def _release(checked: Checked) -> None:
    if checked.held is not None:
        with contextlib.suppress(Exception):  # a Spark that died holds nothing, and the reason is on its way
            checked.held.unpersist()


def _publish(stream: Stream, plan: LoadPlan, staging: Staging) -> Receipt:
    """Publishes; a refusal or a lost reply is settled by the table itself."""
    try:
        return staging.publish()
    except (CommitConflict, CommitUnknown) as error:
        table = stream.format.state(stream.target, stream.uid)
        if table.position is not None and table.position.load_id == plan.load_id:
            return staging.receipt()
        if table.position != plan.since:
            raise PositionMoved(
                f"another runner has loaded stream {stream.name!r} in between; this load was dropped",
                hint="Run again.",
            ) from error
        raise


@contextmanager
def _discarded_on_error(staging: Staging) -> Iterator[None]:
    try:
        yield
    except CommitUnknown:
        raise  # the branch may be what landed: the next run looks for its mark
    except BaseException:
        with contextlib.suppress(TidegateError):  # what is left behind is invisible, and the next run drops it
            staging.discard()
        raise


def _coverage(verdict: Verdict) -> tuple[str, ...]:
    if not verdict.not_covered:
        return ()
    return (f"not covered by the fingerprint: {', '.join(verdict.not_covered)}",)


def _unchanged(work: Work) -> Outcome:
    since = work.standing.since
    return Outcome(
        stream=work.stream.name,
        outcome=Result.UNCHANGED,
        strategy=work.stream.strategy.kind,
        position=since.to_dict() if since else None,
        snapshot=work.standing.table.snapshot,
        seconds=dict(work.journal.seconds),
        notes=work.probe.notes(),
    )
