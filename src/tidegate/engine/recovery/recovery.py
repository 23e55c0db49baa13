"""Finds the position from which a run may continue: the table's own, and only after its last load was verified.

Formats without branches show a load before it is verified, so an unverified load is verified first.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from tidegate.core.display import counted
from tidegate.core.effects import Mirror
from tidegate.core.plan import LoadPlan
from tidegate.core.ports.format import Staging, TableState
from tidegate.core.position import Position
from tidegate.core.slices import Range
from tidegate.engine.context import LoadContext, RunContext
from tidegate.engine.reconcile import RecoveryState, RegistryRepair, reconcile
from tidegate.engine.stream import Stream, VerifyLevel
from tidegate.engine.verification import comparison, events
from tidegate.engine.verification.proof import REPAIR
from tidegate.errors import PositionMissing, SourceMoved, TidegateError, VerifyFailed
from tidegate.registry.values import PlanStatus


def recover(stream: Stream, context: RunContext) -> RecoveryState:
    """The table's own position; the registry is updated with a load that was committed before a crash."""
    registry = context.registry
    remembered = registry.position(stream.uid)
    table = stream.format.state(stream.target, stream.uid)
    recovered = found(stream, context, table)
    since = recovered.since
    for saved in registry.open_plans(stream.uid):
        landed = since is not None and since.load_id == saved.load_id
        if landed and saved.since == (remembered.position if remembered else None):
            # Where a load is seen only once it is published, nothing unverified is ever seen.
            verified = None if stream.policies.verify is VerifyLevel.NONE else stream.format.invisible
            registry.advance(saved, snapshot=table.position_snapshot, table_uuid=table.uuid, verified=verified)
            return _with_proof(recovered, stream, context)
        registry.finish_plan(saved.load_id, PlanStatus.PUBLISHED if landed else PlanStatus.DROPPED)
    if recovered.repair is RegistryRepair.CATCH_UP:
        registry.set_position(
            stream.uid,
            since,
            snapshot=table.position_snapshot,
            table_uuid=table.uuid,
            reason="recovered from the table",
            verified=unproven(stream),
        )
    return _with_proof(recovered, stream, context)


def found(stream: Stream, context: RunContext, table: TableState) -> RecoveryState:
    """The position to start from; changes nothing.

    Raises:
        PositionMissing: names the stream that loaded the table before, if the registry knows one.
        PositionMoved: the registry knows more than the table does.
        Incompatible: its lake takes no loads.
    """
    if table.position is None:  # a first load, before which nothing has shown that the lake takes any
        stream.format.refuse_loads(stream.target)
    try:
        return reconcile(stream.name, table, context.registry.position(stream.uid))
    except PositionMissing as error:
        others = (each for each in context.registry.status(with_gaps=False) if each.uid != stream.uid)
        before = next((each for each in others if each.target == str(stream.target) and each.sequence), None)
        if before is None:
            raise
        raise PositionMissing(
            f"the table of stream {stream.name!r} was loaded by stream {before.stream!r}, and has no position of this "
            f"one: was the stream renamed?",
            hint=f"If it was, keep its identity in tidegate.yaml: `uid: {before.uid}` under {stream.name!r}. If not, "
            f"use another target.",
        ) from error


def unproven(stream: Stream) -> bool | None:
    """What the registry records for a position from the table: False if it still has to be verified."""
    return None if stream.format.invisible or stream.policies.verify is VerifyLevel.NONE else False


def prove(work: LoadContext) -> LoadContext:
    """Verifies the last load if it was left unverified.

    Strategies that compare every row do not need this: they ignore its claims, see `RecoveryState.vouched`. One that
    does so only where it has to, does so where this finds a difference, or where the source does not stand still.

    Raises:
        VerifyFailed: the rows differ, and not because the source has gone on.
    """
    stream, context, since = work.stream, work.context, work.recovered.loaded
    if work.recovered.proven or since is None or context.reads_everything or stream.strategy.emits == {Mirror}:
        return work
    try:
        after = _proven_after(work, since)
    except (VerifyFailed, SourceMoved):
        if not stream.strategy.settles_unverified:
            raise
        return work
    context.registry.verified(stream.uid, since, after=after)
    return replace(work, recovered=replace(work.recovered, proven=True))


def _proven_after(work: LoadContext, since: Position) -> str | None:
    """From where on the rows of the last load were compared and equal; None for from the beginning."""
    stream, context = work.stream, work.context
    with work.session() as session:
        comparison.choose_loaded(stream, context, work.probe, since)
        after = None
        saved = context.registry.plan(since.load_id)
        if saved is not None and events.was_of_events(saved):
            found = events.difference(work, session, saved)
        elif comparison.mirrors(stream):
            # Without a record of the last load every row counts as loaded earlier; a full refresh loaded them itself.
            earlier = saved.since if saved else since
            refreshed = saved is not None and saved.plan.get("reset") is not None
            before = None if refreshed or earlier is None else earlier.loaded_through
            found = comparison.of_last_load(work, session, before)
        else:
            whole = {"upto": since.loaded_through, "nulls": True}
            ends: Mapping[str, Any] = saved.plan["changes"]["slices"][0] if saved else whole
            part = Range(
                cursor=stream.strategy.cursor,
                after=ends.get("after"),
                upto=ends.get("upto"),
                nulls=bool(ends.get("nulls")),
            )
            found, after = comparison.window(work, session, part), part.after
        work.probe.verify_unchanged()
    if not found.equal:
        raise VerifyFailed(
            f"stream {stream.name!r}: load {since.sequence} is in {stream.target} and was never verified, and the "
            f"table differs from the source: {counted(found.source_rows, 'row')} at the source, "
            f"{found.target_rows:,} in the table",
            hint=_next_step(stream, since, of_events=events.was_of_events(saved)),
            load_id=since.load_id,
        )
    return after


def _next_step(stream: Stream, since: Position, *, of_events: bool) -> str:
    if comparison.mirrors(stream) and not of_events:
        return REPAIR
    refresh = "`tidegate run STREAM --full-refresh --yes`"
    if of_events or since.loaded_through is None:
        return f"Run a full refresh: {refresh}."
    # The source may have changed rows of the load since; a table that keeps every version cannot be compared then.
    return (
        f"If the source has changed those rows since, continue from there with `tidegate state set STREAM "
        f"{shlex.quote(since.loaded_through)}`, which keeps what is loaded without a proof. Otherwise run a full "
        f"refresh: {refresh}."
    )


@contextmanager
def seen_unverified(work: LoadContext, plan: LoadPlan, staging: Staging) -> Iterator[None]:
    """Wraps a verification: if it fails, the registry records that visible rows are not verified."""
    try:
        yield
    except TidegateError:
        if not staging.invisible:
            with suppress(TidegateError):  # the next run finds the load in the table, and notes the same
                uuid = work.stream.format.state(work.stream.target, work.stream.uid).uuid
                snapshot = staging.receipt().snapshot
                work.context.registry.advance(plan, snapshot=snapshot, table_uuid=uuid, verified=False)
        raise


def _with_proof(recovered: RecoveryState, stream: Stream, context: RunContext) -> RecoveryState:
    if unproven(stream) is None or recovered.since is None:
        return recovered
    remembered = context.registry.position(stream.uid)
    return replace(recovered, proven=remembered is None or remembered.verified is not False)
