"""Decides the order of a load: detect, plan, read, check, write, verify, advance.

Called by the runner, once a stream; every decision is made elsewhere. Must never publish what was not verified.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from tidegate.core.changes import ChangeSet
from tidegate.core.fingerprint import Fingerprint
from tidegate.core.outcome import Outcome, Result
from tidegate.core.plan import LoadPlan, WriteFacts
from tidegate.core.protocols import Batch, Latest, Probe, Receipt, Staging, TableState, Written
from tidegate.core.slices import Meaning
from tidegate.engine import verify
from tidegate.engine.events import Journal, Moment, Stage
from tidegate.engine.planner import Found, make_plan
from tidegate.engine.recover import Heal, Standing, holds_rows, reconcile
from tidegate.engine.stream import Stream, VerifyLevel
from tidegate.errors import CommitConflict, CommitUnknown, PositionMoved, TidegateError
from tidegate.registry.leases import Lease
from tidegate.registry.store import Registry
from tidegate.registry.values import PlanStatus

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.spark.session import Sessions

SMALL_ROWS = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What all streams of a run share."""

    registry: Registry
    sessions: Sessions
    run_id: str
    now: Callable[[], datetime]
    full_refresh: bool = False

    def save(self, plan: LoadPlan) -> None:
        """Keeps the plan, before anything is read."""
        self.registry.save_plan(plan, self.run_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """What is known before anything moves; `plan` is None when nothing changed."""

    standing: Standing
    changes: ChangeSet | None
    plan: LoadPlan | None
    keys_unique: bool
    notes: tuple[str, ...]


def run(stream: Stream, context: Context, lease: Lease, journal: Journal) -> Outcome:
    """Loads one stream once.

    Raises:
        TidegateError: nothing was published, or (CommitUnknown) the next run finds out.
    """
    standing = recover(stream, context)
    with stream.source.probe() as probe:
        prepared = prepare(stream, context, probe, standing, journal, save=context.save)
        if prepared.plan is None:
            return _unchanged(stream, prepared, journal)
        label = "; ".join(part.label for part in prepared.plan.changes.slices)
        with context.registry.task(stream.uid, "load", run_id=context.run_id, extract_group_id=label) as payload:
            outcome = _move(stream, context, lease, journal, probe, prepared, prepared.plan)
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


def prepare(
    stream: Stream,
    context: Context,
    probe: Probe,
    standing: Standing,
    journal: Journal,
    *,
    save: Callable[[LoadPlan], None],
) -> Prepared:
    """Detect and plan: moves nothing, starts no Spark; the plan is handed to `save` before it is used."""
    since = None if context.full_refresh else standing.since
    with journal.stage(Stage.DETECT) as tell:
        changes = stream.strategy.detect(probe, since)
        tell(changes.reason if changes else "nothing changed")
    if changes is None:
        return Prepared(standing=standing, changes=None, plan=None, keys_unique=False, notes=probe.notes())
    with journal.stage(Stage.PLAN) as tell:
        unique = bool(stream.key) and probe.unique(stream.key)
        found = Found(
            table=standing.table,
            since=standing.since,
            changes=changes,
            columns=probe.schema(),
            identity=probe.identity(),
            clock=probe.clock(),
            facts=_facts(stream, probe, standing, changes, replace=context.full_refresh, unique=unique),
        )
        plan = make_plan(stream, found, now=context.now())
        save(plan)
        tell(plan.write.reason)
    return Prepared(standing=standing, changes=changes, plan=plan, keys_unique=unique, notes=probe.notes())


def _facts(
    stream: Stream, probe: Probe, standing: Standing, changes: ChangeSet, *, replace: bool, unique: bool
) -> WriteFacts:
    table = standing.table
    filled = holds_rows(table)
    batch_keys = file_keys = None
    if stream.writer.needs_key and stream.key and filled and not replace and len(changes.slices) == 1:
        batch_keys = probe.key_bounds(changes.slices[0], stream.key[0])
        file_keys = stream.format.key_bounds(stream.target, stream.key[0]) if batch_keys else None
    return WriteFacts(
        rows=changes.rows,
        table_rows=table.rows if filled else 0,
        whole=changes.meaning is Meaning.ALL or standing.since is None,
        replace=replace and filled,
        batch_keys=batch_keys,
        file_keys=file_keys,
        keys_unique=unique,
    )


def _move(
    stream: Stream,
    context: Context,
    lease: Lease,
    journal: Journal,
    probe: Probe,
    prepared: Prepared,
    plan: LoadPlan,
) -> Outcome:
    spark_was_there = context.sessions.started
    with journal.stage(Stage.READ):
        session = context.sessions.load_session(small=plan.changes.rows is not None and plan.changes.rows < SMALL_ROWS)
        _make_ready(stream, session, prepared.standing.table, plan)
        rows = stream.source.read(session, probe, plan.changes.slices, plan.columns)
    with journal.stage(Stage.CHECK):
        batch = _batch(stream, prepared)
    staging = stream.format.stage(session, stream.target, plan)
    with _discarded_on_error(staging), _source_side(stream, probe, plan, batch) as expected:
        with journal.stage(Stage.WRITE) as tell:
            written = stream.writer.write(rows, plan, staging, batch)
            probe.still()
            tell(plan.write.mode)
        with journal.stage(Stage.VERIFY):
            verdict = _verify(stream, probe, plan, staging, written, expected)
        journal.tell(Stage.ADVANCE, Moment.START)
        lease.check()
        receipt = _publish(stream, plan, staging)
    journal.tell(Stage.ADVANCE, Moment.PUBLISHED)
    uuid = prepared.standing.table.uuid or stream.format.state(stream.target, stream.uid).uuid
    context.registry.advance(plan, snapshot=receipt.snapshot, table_uuid=uuid, verified=verdict.equal)
    journal.tell(Stage.ADVANCE, Moment.DONE)
    return Outcome(
        stream=stream.name,
        outcome=Result.LOADED,
        strategy=stream.strategy.kind,
        meaning=plan.changes.meaning,
        write=plan.write.mode,
        rows_read=next(n for n in (written.rows, verdict.rows, plan.changes.rows, 0) if n is not None),
        rows_inserted=receipt.rows_inserted,
        rows_updated=receipt.rows_updated,
        rows_deleted=receipt.rows_deleted,
        bytes_read=plan.changes.bytes or 0,
        slices_changed=len(plan.changes.slices),
        slices_total=len(plan.changes.slices),
        snapshot=receipt.snapshot,
        position=plan.position.to_dict(),
        verified=verdict.equal,
        spark_started=not spark_was_there,
        seconds=dict(journal.seconds),
        notes=(*prepared.notes, *_coverage(verdict)),
    )


def _make_ready(stream: Stream, session: SparkSession, table: TableState, plan: LoadPlan) -> None:
    if plan.create:
        stream.format.create(session, stream.target, plan.columns, stream.layout)
    if plan.evolve:
        stream.format.evolve(session, stream.target, plan.evolve, plan.columns)
    if table.branches:
        stream.format.drop_branches(session, stream.target, table.branches)


def _batch(stream: Stream, prepared: Prepared) -> Batch:
    latest = Latest(key=stream.key, order=stream.strategy.cursor) if stream.key else None
    return Batch(latest=latest, keys_unique=prepared.keys_unique, skip_equal=stream.strategy.rereads)


@contextmanager
def _source_side(stream: Stream, probe: Probe, plan: LoadPlan, batch: Batch) -> Iterator[Future[Fingerprint] | None]:
    """Asks the source while Spark reads, when the answer does not depend on what the writer finds."""
    if stream.verify is VerifyLevel.NONE or not (batch.keys_unique or batch.latest is None):
        yield None
        return
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="verify") as pool:
        yield pool.submit(verify.source_side, probe, plan, stream.verify, None)


def _verify(
    stream: Stream,
    probe: Probe,
    plan: LoadPlan,
    staging: Staging,
    written: Written,
    expected: Future[Fingerprint] | None,
) -> verify.Verdict:
    if stream.verify is VerifyLevel.NONE:
        return verify.Verdict(equal=None)

    def ask() -> Fingerprint:
        return verify.source_side(probe, plan, stream.verify, written.latest)

    table = verify.table_side(plan, staging, written, stream.verify)
    source = expected.result() if expected is not None else ask()
    return verify.judge(plan, stream.verify, source, table, ask)


def _publish(stream: Stream, plan: LoadPlan, staging: Staging) -> Receipt:
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


def _coverage(verdict: verify.Verdict) -> tuple[str, ...]:
    if not verdict.not_covered:
        return ()
    return (f"not covered by the fingerprint: {', '.join(verdict.not_covered)}",)


def _unchanged(stream: Stream, prepared: Prepared, journal: Journal) -> Outcome:
    since = prepared.standing.since
    return Outcome(
        stream=stream.name,
        outcome=Result.UNCHANGED,
        strategy=stream.strategy.kind,
        position=since.to_dict() if since else None,
        snapshot=prepared.standing.table.snapshot,
        seconds=dict(journal.seconds),
        notes=prepared.notes,
    )
