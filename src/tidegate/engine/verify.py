"""Implements `tidegate verify`: compares a whole table with its source, and repairs rows that differ.

Rows that the next load is about to change never count as different. A repair is a commit that is fenced and verified
like a load.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from tidegate.core.bucketing import Level
from tidegate.core.changes import ChangeSet
from tidegate.core.display import Shown, counted, done_by
from tidegate.core.effects import Mirror
from tidegate.core.outcome import Problem
from tidegate.core.plan import LoadPlan, Mode, WriteChoice, WriteFacts
from tidegate.core.position import Position
from tidegate.core.report import StreamReport
from tidegate.core.slices import Keys
from tidegate.engine import column_names, held_back, hooks, load, retention
from tidegate.engine.context import LoadContext, PlannedLoad, RunContext
from tidegate.engine.deletes import delete_guard
from tidegate.engine.events import Journal, Listener, Moment, Stage, journals
from tidegate.engine.observers import Command
from tidegate.engine.outcome import failure
from tidegate.engine.planner import PlanInputs, make_plan
from tidegate.engine.recovery import recovery
from tidegate.engine.stages.plan import keep_loaded_columns
from tidegate.engine.stream import Stream, VerifyLevel
from tidegate.engine.verification import comparison, whole
from tidegate.engine.verification.drilldown import Difference, Key
from tidegate.errors import ConfigError, PlanError, PositionMissing, TidegateError, VerifyFailed
from tidegate.registry.leases import Lease

KEYS_A_SLICE = 500
MOST_KEYS = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification(Shown):
    """The result of comparing one stream's table with its source.

    Args:
        equal: at the end, after a repair; None if unknown.
        slices_different: buckets that differed.
        rows_different: None at levels that do not look at rows.
        rows_fetched: rows read from both sides to find them.
        rows_quarantined: rows in quarantine; they count as source rows, but not as target rows.
        rows_ahead: rows of the source with a cursor ahead of the clock, which no run has loaded; they are not compared.
        columns_not_covered: of a type that has no exact text on every engine; they are not compared.
    """

    stream: str
    level: str
    equal: bool | None = None
    source_rows: int | None = None
    target_rows: int | None = None
    rows_different: int | None = None
    slices_different: int | None = None
    columns_not_covered: tuple[str, ...] = ()
    repaired_rows: int = 0
    rows_fetched: int = 0
    rows_quarantined: int = 0
    rows_ahead: int = 0
    seconds: float = 0.0
    error: Problem | None = None

    @property
    def exit_code(self) -> int:
        """0 for equal, 3 for different, else that of the error."""
        if self.error is not None:
            return self.error.exit_code
        return 0 if self.equal else 3

    def to_dict(self) -> dict[str, Any]:
        """JSON types only."""
        values = asdict(self)
        values["columns_not_covered"] = list(self.columns_not_covered)
        values["error"] = self.error.to_dict() if self.error else None
        return values


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationReport(StreamReport[Verification]):
    """The results of a comparison of several streams."""

    streams: tuple[Verification, ...]

    def to_dict(self) -> dict[str, Any]:
        """The document of `verify --json`."""
        return {"streams": [stream.to_dict() for stream in self.streams]}

    def exit_code_of(self, stream: Verification) -> int:
        """0 for equal, 3 for different, else that of the error."""
        return stream.exit_code

    def failure_of(self, stream: Verification) -> TidegateError | None:
        """The error of one stream, or that its table differs from its source."""
        if stream.error is not None or stream.equal:
            return stream.error.to_error() if stream.error else None
        return VerifyFailed(
            f"stream {stream.stream!r}: table and source differ ({counted(stream.source_rows or 0, 'row')} at the "
            f"source, {stream.target_rows or 0:,} in the table)",
            hint=f"Count the rows with `tidegate verify {stream.stream} --level rows`, repair them with `--repair`.",
        )


def level_of(text: str) -> Level:
    """The level of that name. Raises ConfigError."""
    if text not in list(Level):
        raise ConfigError(f"level is {text!r}, it must be one of {', '.join(Level)}")
    return Level(text)


def verify_streams(
    streams: Sequence[Stream], context: RunContext, level: Level, *, repair: bool, listener: Listener | None = None
) -> VerificationReport:
    """Compares the tables of streams with their sources, one after the other."""
    journaled = zip(streams, journals([stream.name for stream in streams], listener), strict=True)
    return VerificationReport(
        streams=tuple(
            verify_stream(stream, context, level, repair=repair, journal=journal) for stream, journal in journaled
        )
    )


def verify_stream(stream: Stream, context: RunContext, level: Level, *, repair: bool, journal: Journal) -> Verification:
    """Compares one stream's table with its source; errors become part of the result, never an exception."""
    began = time.monotonic()
    journal.listener = context.listener(stream, Command.VERIFY, journal.listener)
    journal.begin()
    journal.tell(Stage.VERIFY, Moment.START)
    try:
        context.registry.register(
            uid=stream.uid, name=stream.name, source=stream.source_name, target=str(stream.target)
        )
        if repair:
            with context.registry.lease(stream.uid) as lease:
                found = _verify(stream, context, Level.ROWS, lease, journal)
            hooks.after(stream, context)
        else:
            found = _verify(stream, context, level, None, journal)
    except KeyboardInterrupt:
        journal.interrupted()
        raise
    except TidegateError as error:
        found = Verification(stream=stream.name, level=level, error=failure(stream, error, context.redact).error)
    found = replace(found, level=level, seconds=round(time.monotonic() - began, 3))
    journal.finish(_ended(found), found.error)
    return found


def _ended(found: Verification) -> str:
    """How the comparison ended, in a few words."""
    if found.error is not None:
        return f"failed ({found.error.code}), {found.seconds:.1f} s"
    repaired = f", {counted(found.repaired_rows, 'row')} repaired" if found.repaired_rows else ""
    return f"{'equal' if found.equal else 'different'}{repaired}, {found.seconds:.1f} s"


def _verify(stream: Stream, context: RunContext, level: Level, lease: Lease | None, journal: Journal) -> Verification:
    recovered = recovery.recover(stream, context)
    since = recovered.loaded
    if since is None:
        raise PositionMissing(
            f"the table of stream {stream.name!r} has not been loaded yet", hint=f"Run `tidegate run {stream.name}`."
        )
    stream = retention.applied(stream, since, context)
    if not comparison.mirrors(stream):
        raise PlanError(
            f"stream {stream.name!r} keeps every version of a row that it reads (write: {stream.writer.kind}), so its "
            f"table is not a copy of the source",
            hint="Only tables written by merge or replace, or appended by strategy sequence, can be verified.",
        )
    bound = stream.bound_request if lease is not None and _dates(stream) else None
    with context.announced_session(journal) as session, stream.source.probe(context.sessions, bound) as probe:
        work = LoadContext(stream=stream, context=context, journal=journal, probe=probe, recovered=recovered)
        work = column_names.followed(work)
        since = work.recovered.loaded or since
        if probe.files is not None:
            probe.files.request_unconditionally()
        comparison.choose_loaded(stream, context, probe, since)
        columns = probe.schema()
        difference = whole.compared(work, session, level)
        repaired, left = 0, 0
        if lease is not None and not difference.equal:
            repaired, left = _repair(work, since, difference, lease)
        elif difference.equal and level is not Level.COUNTS:
            context.registry.verified(stream.uid, since)
        return Verification(
            stream=stream.name,
            level=level,
            equal=difference.equal or (lease is not None and not left),
            source_rows=difference.source_rows,
            target_rows=difference.source_rows if repaired and not left else difference.target_rows,
            rows_different=difference.rows if level is Level.ROWS else None,
            slices_different=difference.buckets,
            columns_not_covered=columns.not_covered,
            repaired_rows=repaired,
            rows_fetched=difference.fetched,
            rows_quarantined=difference.quarantined,
            rows_ahead=held_back.ahead_in_source(work),
            error=failure(stream, _without_key(stream, left, repaired), context.redact).error if left else None,
        )


def _without_key(stream: Stream, left: int, repaired: int) -> PlanError:
    return PlanError(
        f"stream {stream.name!r}: {counted(left, 'row')} that {done_by(left, 'differ')} {done_by(left, 'have')} "
        f"no value in a column of the key "
        f"({', '.join(stream.key)}), so they cannot be matched; the other {repaired} were repaired",
        hint="Use a key that is never NULL, or filter out these rows at the source with a `query:`, then delete them "
        "from "
        f"{stream.target}.",
    )


def _repair(work: LoadContext, since: Position, difference: Difference, lease: Lease) -> tuple[int, int]:
    """Moves just the rows that differ, deletes what must not be there: one fenced, verified commit.

    Returns:
        The rows that are as the source's again, and the keys that still differ.

    Raises:
        DeleteFuse: it would delete more rows than one load may.
    """
    stream, context = work.stream, work.context
    missing = len(difference.extra) + difference.extra_rows
    work = delete_guard.knowing_rows(work) if missing else work
    delete_guard.guard_repair(work, source_rows=difference.source_rows, missing=missing)
    keys = (*difference.missing, *difference.changed, *difference.extra)
    named = comparison.named_by(stream, work.probe.schema())
    if not named or len(keys) > MOST_KEYS:
        unnamed = f"its key ({', '.join(stream.key)}) has no exact text form" if stream.key else "it has no key"
        raise PlanError(
            f"stream {stream.name!r} differs in {counted(difference.rows, 'row')}, which cannot be repaired one "
            f"by one: " + (f"these are more than {MOST_KEYS:,}" if named else unnamed),
            hint=f"Run a full refresh: `tidegate run {stream.name} --full-refresh --yes`.",
        )
    slices, left = _slices(work, keys)
    if not slices:
        return 0, left
    plan = _planned(work, since, slices, len(keys))
    context.save(plan)
    policies = replace(stream.policies, verify=VerifyLevel.MOVED)
    repairing = replace(work, stream=replace(stream, policies=policies))
    with context.registry.task(stream.uid, "repair", run_id=context.run_id) as payload:
        done = load.load(repairing, PlannedLoad(plan=plan, unique=work.probe.unique(stream.key)), lease)
        rows = done.counts.rows_read
        payload |= {"rows": rows, "rows_affected": rows, "snapshot": done.reached.snapshot, "left": left}
    return difference.rows - left, left


def _planned(work: LoadContext, since: Position, slices: tuple[Keys, ...], keys: int) -> LoadPlan:
    """The load of these keys alone, after which the position is as it was."""
    stream = work.stream
    # The table may hold rows of which the position does not know: the next load compares whatever it claims.
    state = stream.strategy.unclaimed(since.state)
    changes = ChangeSet(
        slices=slices,
        effect=Mirror(),
        state=state,
        loaded_through=since.loaded_through,
        rows=keys,
        reason=f"{counted(keys, 'key', 'differ')} between source and table",
        edge=work.probe.edge() if _dates(stream) else None,
        read_at=work.probe.now(),
    )
    found = PlanInputs(
        table=work.recovered.table,
        since=since,
        changes=changes,
        columns=work.probe.schema(),
        identity=work.probe.identity(),
        clock=since.clock,
        witness=since.witness,
        facts=WriteFacts(effect=changes.effect, rows=keys, table_rows=work.recovered.table.rows),
        last_sequence=work.context.registry.last_sequence(stream.uid),
        before=work.recovered.table.since_load.source_columns,
    )
    made = make_plan(stream, found, now=work.context.now())
    reason = "the rows that differ are compared by key and repaired"
    made = replace(made, since=work.recovered.stored)
    return replace(keep_loaded_columns(made, found), write=WriteChoice(mode=Mode.MERGE_PARTITIONS, reason=reason))


def _dates(stream: Stream) -> bool:
    """Whether a repair ends versions, by the time up to which its source has nothing that comes later."""
    return stream.writer.versions is not None and stream.bound_request is not None


def _slices(work: LoadContext, keys: Sequence[Key]) -> tuple[tuple[Keys, ...], int]:
    """What a repair reads and replaces, and how many of the keys it cannot name."""
    stream = work.stream
    texts = [tuple(text for text in key if text is not None) for key in keys if None not in key]
    without_text = len(keys) - len(texts)
    nulls = Keys(columns=stream.key, values=(), nulls=True)
    # What has no key may go where the source has no such row: else nothing tells which of them is one too many.
    deletable = bool(without_text) and stream.writer.versions is None and not work.probe.count(nulls)
    slices = tuple(
        Keys(columns=stream.key, values=tuple(texts[first : first + KEYS_A_SLICE]))
        for first in range(0, len(texts), KEYS_A_SLICE)
    )
    return (*slices, nulls) if deletable else slices, 0 if deletable else without_text
