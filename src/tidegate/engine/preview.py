"""Implements `tidegate plan`: the first two stages of a run, without saving or moving anything.

Never starts Spark, takes a lease or writes to the registry.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

from tidegate.core.changes import Action, ChangeSet, Part
from tidegate.core.display import Shown
from tidegate.core.ledger import Ledger
from tidegate.core.outcome import Problem
from tidegate.core.plan import LoadPlan
from tidegate.core.report import StreamReport
from tidegate.engine import column_names, held_back, hooks, partitions, retention, type_changes
from tidegate.engine.context import LoadContext, RunContext
from tidegate.engine.deletes import delete_guard, key_diff
from tidegate.engine.events import Journal
from tidegate.engine.outcome import failure
from tidegate.engine.reconcile import RecoveryState
from tidegate.engine.recovery import recovery, restored_source
from tidegate.engine.stages import detect
from tidegate.engine.stages.plan import plan
from tidegate.engine.stream import Stream
from tidegate.errors import TidegateError

REASONS = {
    Action.LOAD: "not loaded yet",
    Action.RELOAD: "its checksum differs from the loaded one",
    Action.DELETE: "the source no longer has rows in it",
    Action.SKIP: "its checksum equals the loaded one",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSlice:
    """One slice of a plan: its action (`LOAD`, `RELOAD`, `DELETE`, `SKIP`), the reason, and its size."""

    slice: str
    action: str
    reason: str
    rows: int | None
    bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamPlan(Shown):
    """What a run of one stream would do.

    Args:
        outcome: `changed`, `unchanged`, or how the run would end: `stopped`, `failed`.
        position: the table's position now.
        write: mode, reason and pruning predicate.
    """

    shown: ClassVar[tuple[str, ...]] = ("stream", "outcome", "strategy", "target", "rows", "bytes", "notes", "error")

    stream: str
    target: str
    strategy: str
    outcome: str
    position: dict[str, Any] | None = None
    slices: tuple[PlannedSlice, ...] = ()
    rows: int | None = None
    bytes: int | None = None
    schema_changes: tuple[dict[str, Any], ...] = ()
    write: dict[str, Any] | None = None
    create: bool = False
    notes: tuple[str, ...] = ()
    error: Problem | None = None

    def to_dict(self) -> dict[str, Any]:
        """One entry of `plan --json`."""
        values = asdict(self)
        values["slices"] = [asdict(part) for part in self.slices]
        values["notes"] = list(self.notes)
        values["schema_changes"] = list(self.schema_changes)
        values["error"] = self.error.to_dict() if self.error else None
        return values


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanReport(StreamReport[StreamPlan]):
    """What a run would do to each stream."""

    streams: tuple[StreamPlan, ...] = field(default_factory=tuple)

    def to_dict(self) -> dict[str, Any]:
        """The document of `plan --json`."""
        return {"streams": [plan.to_dict() for plan in self.streams]}


def preview(stream: Stream, context: RunContext) -> StreamPlan:
    """The plan of one stream; errors become part of it, never an exception."""
    about: dict[str, Any] = {"stream": stream.name, "target": str(stream.target), "strategy": stream.strategy.kind}
    try:
        table = stream.format.state(stream.target, stream.uid)
        recovered = recovery.found(stream, context, table)
        restored_source.refuse(stream, context)
        stream = retention.applied(stream, recovered.since, context)
        with stream.source.probe(context.sessions, stream.bound_request) as probe:
            journal = Journal(stream=stream.name)
            work = LoadContext(stream=stream, context=context, journal=journal, probe=probe, recovered=recovered)
            work = type_changes.escalated(column_names.followed(work))
            changes, ledger = detect.detect(work)
            work, changes = key_diff.watch(work, changes)
            if changes is not None and not changes.slices and changes.parts:
                changes = None  # they were compared, and none of them differs
            if changes is not None:
                delete_guard.guard(work, changes)
            plan = _plan(work, changes, ledger)
            slices = _slices(changes) if changes is not None else _equal(work, ledger)
            why = changes.notes if changes else _unchanged(work)
            waiting = held_back.notes(probe, held_back.ahead(work))
            notes = (*probe.notes(), *waiting, *why, *_layout(stream), *retention.notes(stream, context.now()))
            notes += hooks.notes(stream, context, changed=changes is not None)
    except TidegateError as error:
        failed = failure(stream, error, context.redact)
        return StreamPlan(**about, outcome=failed.result, error=failed.error)
    if changes is None or plan is None:
        return StreamPlan(**about, outcome="unchanged", position=_position(recovered), slices=slices, notes=notes)
    return StreamPlan(
        **about,
        outcome="changed",
        position=_position(recovered),
        slices=slices,
        rows=changes.rows,
        bytes=changes.bytes,
        schema_changes=tuple(asdict(change) for change in plan.evolution.seen),
        write=asdict(plan.write),
        create=plan.evolution.create,
        notes=notes,
    )


def _plan(work: LoadContext, changes: ChangeSet | None, ledger: Ledger) -> LoadPlan | None:
    """The plan of the first commit; those of further partitions differ from it in nothing but these."""
    if changes is None:
        return None
    first = next(partitions.groups(changes))
    return plan(work, partitions.vouched(first, ledger) if first.parts else first, save=_keep_nothing).plan


def _unchanged(work: LoadContext) -> tuple[str, ...]:
    """Why nothing has to be done, where the strategy can say more than that."""
    since = work.recovered.since
    why = work.stream.strategy.unchanged(since) if since is not None else ""
    return (why,) if why and work.stream.strategy.restores else ()


def _keep_nothing(plan: LoadPlan) -> None:
    """A preview is not a load: its plan is not kept."""


def _layout(stream: Stream) -> tuple[str, ...]:
    """A note that a table's layout differs from the project's, which a run does not change."""
    maintenance = stream.format.maintenance
    if maintenance is None:
        return ()
    reason = maintenance.layout_differs(stream.target, stream.policies.layout.partition_by)
    return (
        (f"{reason}; `tidegate maintain {stream.name}` applies it to new rows, if the format can",)
        if reason is not None
        else ()
    )


def _position(recovered: RecoveryState) -> dict[str, Any] | None:
    return recovered.since.to_dict() if recovered.since else None


def _slices(changes: ChangeSet) -> tuple[PlannedSlice, ...]:
    if changes.parts:
        return tuple(_slice(part) for part in changes.parts)
    alone = len(changes.slices) == 1
    return tuple(
        PlannedSlice(
            slice=part.label,
            action=Action.LOAD,
            reason=changes.reason,
            rows=changes.rows if alone else None,
            bytes=changes.bytes if alone else None,
        )
        for part in changes.slices
    )


def _equal(work: LoadContext, ledger: Ledger) -> tuple[PlannedSlice, ...]:
    """The partitions of a table in which none differs."""
    compared, since = work.stream.strategy.partitions, work.recovered.since
    return tuple(_slice(part) for part in compared.equal(work.probe, since, ledger)) if compared is not None else ()


def _slice(part: Part) -> PlannedSlice:
    reason = REASONS[part.action]
    return PlannedSlice(slice=part.slice.label, action=part.action, reason=reason, rows=part.rows, bytes=part.bytes)
