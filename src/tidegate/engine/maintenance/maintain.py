"""Maintains the tables of a stream and reports what was done and saved.

Works only under the stream's lease, and never changes rows or positions.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, ClassVar

from tidegate.core.cutting import first_line
from tidegate.core.display import Shown
from tidegate.core.outcome import Problem
from tidegate.core.policies.maintenance import Maintenance, Need, Step, Upkeep, Usage
from tidegate.core.ports.format import TableMaintenance
from tidegate.core.report import StreamReport
from tidegate.engine import hooks, retention
from tidegate.engine.context import RunContext
from tidegate.engine.events import Journal, Listener, Stage, journals
from tidegate.engine.maintenance.measured import Measurement, QueryTime, compared, measurement
from tidegate.engine.observers import Command
from tidegate.engine.outcome import failure
from tidegate.engine.retries import retrying
from tidegate.engine.stream import LoadsTable, Stream
from tidegate.errors import ConfigError, InternalError, TidegateError
from tidegate.registry.leases import Lease
from tidegate.registry.values import Status

TASK = "maintain"
LOADS = "loads_table"
REWRITES = frozenset({Step.COMPACT, Step.DELETES})
"""Steps after which readers open fewer files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedStep:
    """A step: why it was worthwhile, and what it did; None if nothing was done."""

    step: Step
    reason: str
    did: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableUpkeep:
    """What was done to one table.

    Args:
        before, after: its storage in the warehouse; None if nothing was done.
        query: how long the measured query took before and after; None unless it was compacted and measured.
    """

    table: str
    steps: tuple[FinishedStep, ...]
    before: Usage | None = None
    after: Usage | None = None
    query: QueryTime | None = None

    @property
    def saved(self) -> Usage | None:
        """What there is less of; negative if there is more, as older versions are after a rewrite."""
        return None if self.before is None or self.after is None else self.before.less(self.after)

    def to_dict(self) -> dict[str, Any]:
        """JSON types only."""
        saved = self.saved
        values = {**asdict(self), "steps": [{**asdict(done), "step": str(done.step)} for done in self.steps]}
        return {**values, "saved": asdict(saved) if saved else None}


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamUpkeep(Shown):
    """What was done to the tables of one stream.

    Args:
        outcome: `maintained`, `unchanged` when no step was worth doing, `due` of a dry run that found some; or
            `failed`, `stopped`, `held`.
    """

    shown: ClassVar[tuple[str, ...]] = ("stream", "outcome", "error")

    stream: str
    outcome: str
    tables: tuple[TableUpkeep, ...] = ()
    error: Problem | None = None

    def to_dict(self) -> dict[str, Any]:
        """JSON types only."""
        return {
            "stream": self.stream,
            "outcome": self.outcome,
            "tables": [table.to_dict() for table in self.tables],
            "error": self.error.to_dict() if self.error else None,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepReport(StreamReport[StreamUpkeep]):
    """The results of maintenance for each stream."""

    streams: tuple[StreamUpkeep, ...]

    def to_dict(self) -> dict[str, Any]:
        """The document of `maintain --json`."""
        return {"streams": [stream.to_dict() for stream in self.streams], "exit_code": self.exit_code}


def maintain_streams(
    streams: Sequence[Stream], context: RunContext, *, force: bool, dry_run: bool, listener: Listener | None = None
) -> UpkeepReport:
    """Maintains the tables of streams, one stream after the other."""
    journaled = zip(streams, journals([stream.name for stream in streams], listener), strict=True)
    done = [maintain_stream(stream, context, journal, force=force, dry_run=dry_run) for stream, journal in journaled]
    loads = next((stream.loads for stream in streams if stream.loads is not None), None)
    if loads is not None:
        done.append(_loads_table(loads, context, force=force, dry_run=dry_run))
    return UpkeepReport(streams=tuple(done))


def _loads_table(loads: LoadsTable, context: RunContext, *, force: bool, dry_run: bool) -> StreamUpkeep:
    """Maintains the table that tells of runs, which no lease guards: a step that meets a writer is repeated."""
    upkeep = Upkeep(target=loads.target, uid=LOADS, rules=Maintenance(), now=context.now(), force=force)
    done: list[FinishedStep] = []
    try:
        keeper = loads.format.maintenance
        needs = keeper.survey(upkeep) if keeper is not None else ()
        for need in needs:
            did = None
            if keeper is not None and not dry_run:
                with context.session() as session:
                    did = retrying()(partial(keeper.maintain, session, upkeep, need.step))
            done.append(FinishedStep(step=need.step, reason=need.reason, did=did))
    except TidegateError as error:
        problem = Problem(code=error.code, message=context.redact(error.message), hint=error.hint)
        return StreamUpkeep(stream=LOADS, outcome="failed", error=problem)
    outcome = ("due" if dry_run else "maintained") if done else "unchanged"
    tables = (TableUpkeep(table=str(loads.target), steps=tuple(done)),)
    return StreamUpkeep(stream=LOADS, outcome=outcome, tables=tables)


def maintain_stream(
    stream: Stream, context: RunContext, journal: Journal | None = None, *, force: bool = False, dry_run: bool = False
) -> StreamUpkeep:
    """Maintains the tables of one stream under its lease; errors become part of the result, never an exception.

    Args:
        journal: told of the look at the tables as `detect`, of each step as `write`.
        force: run every step that has something to do, whatever its threshold.
        dry_run: only report; takes no lease and does not start Spark.
    """
    began, journal = time.monotonic(), journal or Journal(stream=stream.name)
    journal.listener = context.listener(stream, Command.MAINTAIN, journal.listener)
    journal.begin()
    try:
        found = (_due_steps if dry_run else _leased)(stream, context, journal, force=force)
    except Exception as error:  # noqa: BLE001 - the border of a stream: a bug must not take the others down
        wrapped = error if isinstance(error, TidegateError) else _bug(stream, error)
        failed = failure(stream, wrapped, context.redact)
        found = StreamUpkeep(stream=stream.name, outcome=str(failed.result), error=failed.error)
    code = f" ({found.error.code})" if found.error else ""
    journal.finish(f"{found.outcome}{code}, {time.monotonic() - began:.1f} s", found.error)
    return found


def _leased(stream: Stream, context: RunContext, journal: Journal, *, force: bool) -> StreamUpkeep:
    context.registry.register(uid=stream.uid, name=stream.name, source=stream.source_name, target=str(stream.target))
    with context.registry.lease(stream.uid) as lease:
        done = _maintained(stream, context, lease, journal, force=force)
    hooks.after(stream, context)
    return done


def _bug(stream: Stream, error: Exception) -> InternalError:
    wrapped = InternalError(f"stream {stream.name!r}: {type(error).__name__}: {first_line(error)}")
    wrapped.__cause__ = error
    return wrapped


def last_look(stream: Stream, context: RunContext) -> datetime | None:
    """When orphan files of the stream's tables were last looked for."""
    for task in context.registry.tasks(stream.uid, Status.OK, task_type=TASK):
        steps = (done for table in (task.result_payload or {}).get("tables", ()) for done in table["steps"])
        if any(done["step"] == Step.ORPHANS for done in steps):
            return task.start_ts
    return None


def _due_steps(stream: Stream, context: RunContext, journal: Journal, *, force: bool) -> StreamUpkeep:
    found = [
        TableUpkeep(
            table=str(upkeep.target), steps=tuple(FinishedStep(step=need.step, reason=need.reason) for need in needs)
        )
        for upkeep, needs in _surveyed(stream, context, journal, force=force)
    ]
    due = any(table.steps for table in found)
    return StreamUpkeep(stream=stream.name, outcome="due" if due else "unchanged", tables=tuple(found))


def _maintained(stream: Stream, context: RunContext, lease: Lease, journal: Journal, *, force: bool) -> StreamUpkeep:
    surveyed = _surveyed(stream, context, journal, force=force)
    if not any(needs for _, needs in surveyed):
        tables = tuple(TableUpkeep(table=str(upkeep.target), steps=()) for upkeep, _ in surveyed)
        if any(each.status_cd == Status.ERROR for each in context.registry.tasks(stream.uid, limit=1, task_type=TASK)):
            with context.registry.task(stream.uid, TASK, run_id=context.run_id) as payload:
                payload["tables"] = []  # what failed before is over: there is nothing left to do
        return StreamUpkeep(stream=stream.name, outcome="unchanged", tables=tables)

    def do(upkeep: Upkeep, need: Need) -> str:
        def once() -> str:
            lease.check()
            with context.announced_session(journal) as session:  # one of its own, for a step sets what it needs
                if need.step is Step.RETAIN:
                    return retention.drop(stream, context, lease, session)
                return maintained(stream).maintain(session, upkeep, need.step)

        return _do(once, journal, upkeep, need)

    with context.registry.task(stream.uid, TASK, run_id=context.run_id) as payload:
        done: list[TableUpkeep] = []
        payload["tables"] = []
        for upkeep, needs in surveyed:
            done.append(_table(stream, upkeep, needs, do, partial(measurement, stream, context, journal, upkeep)))
            payload["tables"].append(done[-1].to_dict())
    return StreamUpkeep(stream=stream.name, outcome="maintained", tables=tuple(done))


def _surveyed(
    stream: Stream, context: RunContext, journal: Journal, *, force: bool
) -> list[tuple[Upkeep, tuple[Need, ...]]]:
    with journal.stage(Stage.DETECT) as tell:
        found = _survey(stream, context, force=force)
        steps = dict.fromkeys(str(need.step) for _, needs in found for need in needs)
        tell(f"to do: {', '.join(steps)}" if steps else "nothing to do")
    return found


def _survey(stream: Stream, context: RunContext, *, force: bool) -> list[tuple[Upkeep, tuple[Need, ...]]]:
    keeper = maintained(stream)
    upkeep = Upkeep(
        target=stream.target,
        uid=stream.uid,
        rules=stream.policies.maintenance,
        now=context.now(),
        partition_by=stream.policies.layout.partition_by,
        force=force,
        looked_at=last_look(stream, context),
    )
    # Nobody queries the tables that Tidegate keeps for itself.
    rules = replace(upkeep.rules, statistics=False, measure_query=False, measure_by=None)
    sides = (replace(upkeep, target=side, rules=rules, partition_by=()) for side in keeper.side_tables(stream.target))
    surveyed = [(each, keeper.survey(each)) for each in sides]
    return [(upkeep, (*retention.need(stream, context), *keeper.survey(upkeep))), *surveyed]


def _table(
    stream: Stream,
    upkeep: Upkeep,
    needs: Sequence[Need],
    do: Callable[[Upkeep, Need], str],
    measure: Callable[[], Measurement],
) -> TableUpkeep:
    keeper, target = maintained(stream), upkeep.target
    if not needs:
        return TableUpkeep(table=str(target), steps=())
    before, done, query = keeper.usage(target), [], None
    rewrites = [number for number, need in enumerate(needs) if need.step in REWRITES]
    measured = rewrites if upkeep.rules.measure_query else []
    for number, need in enumerate(needs):
        if number in measured[:1]:  # not before: `retain` drops rows
            slow = measure()
        done.append(FinishedStep(step=need.step, reason=need.reason, did=do(upkeep, need)))
        if number in measured[-1:]:  # not later: older versions are still there if the answers differ
            query = compared(stream, target, slow, measure())
    return TableUpkeep(table=str(target), steps=tuple(done), before=before, after=keeper.usage(target), query=query)


def _do(work: Callable[[], str], journal: Journal, upkeep: Upkeep, need: Need) -> str:
    """The step, again where somebody else came in between."""
    with journal.stage(Stage.WRITE) as tell:
        journal.working(f"{need.step} of {upkeep.target}, because {need.reason}")
        did = retrying()(work)
        tell(f"{need.step} of {upkeep.target}{f': {did}' if did else ''}")
    return did


def maintained(stream: Stream) -> TableMaintenance:
    """The part of the stream's format that keeps tables small. Raises ConfigError: it has none."""
    found = stream.format.maintenance
    if found is None:
        raise ConfigError(
            f"the lake of stream {stream.name!r} has a format that Tidegate cannot maintain",
            hint="Use the format's own tools; keep the newest version of the table.",
        )
    return found
