"""Reloads a range of a source, chunk by chunk, while the stream's regular loads continue.

Never moves the stream's position. A chunk is read only under the stream's lease, so that its rows are at least as new
as those in the table.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial

from tidegate.core.backfill import MOST_CHUNKS, Backfill, Chunk, Progress, Scale, cut_by_rows, cut_evenly
from tidegate.core.changes import ChangeSet
from tidegate.core.display import counted
from tidegate.core.effects import Upsert
from tidegate.core.ids import new_load_id
from tidegate.core.ports.source import Probe
from tidegate.core.position import Position
from tidegate.core.schema import Kind
from tidegate.core.slices import Range
from tidegate.core.source_identity import check_continues, check_owner
from tidegate.engine import column_names, hooks, load
from tidegate.engine.context import LoadContext, RunContext
from tidegate.engine.events import Journal, Listener
from tidegate.engine.lease import acquire
from tidegate.engine.observers import Command
from tidegate.engine.outcome import LoadResult, failure, outcome_of, unchanged
from tidegate.engine.reconcile import RecoveryState, RegistryRepair
from tidegate.engine.recovery import recovery, restored_source
from tidegate.engine.retries import retrying
from tidegate.engine.stages.plan import plan
from tidegate.engine.stream import Stream
from tidegate.errors import ConfigError, PlanError, PositionMissing, TidegateError
from tidegate.registry.backfills import lease_name

CHUNK_ROWS = 500_000
BURST = 10  # seconds' worth of rows that one chunk may read where a rate is set
BREATH = 0.5  # between two commits, so that a load that waits gets its turn
IN_A_ROW = 3
KINDS = (Kind.INTEGER, Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ)
OnProgress = Callable[[Backfill], None]
LoadGroup = Callable[[Sequence[Chunk]], Mapping[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a backfill is asked for.

    Args:
        begin, end: values of the cursor; `begin` belongs to the range, `end` does not.
        chunk: how much of the cursor a chunk spans, or how many rows it has at most.
    """

    begin: str
    end: str
    chunk: timedelta | int | None = None
    parallel: int = 1
    rate: int | None = None


def ignore(_: object) -> None:
    """Ignores the event."""


class Backfills:
    """The backfills of a project's streams, by name."""

    def __init__(self, find: Callable[[str], Stream], context: RunContext) -> None:
        self._find = find
        self._context = context

    def start(
        self, name: str, request: Request, *, on_progress: OnProgress = ignore, on_event: Listener = ignore
    ) -> Backfill:
        """Plans the chunks of a range and loads them; what became of them. Raises like `start`."""
        stream = self._find(name)
        return self._load_pending(stream, start(stream, self._context, request), on_progress, on_event)

    def resume(self, name: str, *, on_progress: OnProgress = ignore, on_event: Listener = ignore) -> Backfill:
        """Goes on with the stream's open backfill; chunks that failed are tried again."""
        stream = self._find(name)
        return self._load_pending(stream, resume(stream, self._context), on_progress, on_event)

    def pause(self, name: str) -> Backfill:
        """Pauses the stream's backfill after its current commit; `resume` continues it."""
        return self._mark(name, Progress.PAUSED)

    def cancel(self, name: str) -> Backfill:
        """Ends the stream's backfill after the commit it is at; what was loaded stays."""
        return self._mark(name, Progress.CANCELLED)

    def list(self, *names: str) -> list[Backfill]:
        """The backfills of these streams, newest first."""
        return self._context.registry.backfills.all_of([self._find(name).uid for name in names])

    def _load_pending(
        self, stream: Stream, backfill: Backfill, on_progress: OnProgress, on_event: Listener
    ) -> Backfill:
        done = load_pending(self._context, backfill, partial(_load, stream, self._context, on_event), on_progress)
        hooks.after(stream, self._context)  # once, not after each chunk
        return done

    def _mark(self, name: str, status: Progress) -> Backfill:
        kept, found = self._context.registry.backfills, opened(self._find(name), self._context)
        kept.mark(found.backfill_id, status)
        return kept.get(found.backfill_id)


def start(stream: Stream, context: RunContext, request: Request) -> Backfill:
    """A new backfill, its chunks planned and kept; nothing is loaded yet.

    Raises:
        ConfigError: a range that is empty or reversed, or reaches beyond what the table holds.
        PlanError: rows of this stream cannot be loaded again, or another backfill of it is open.
    """
    _refuse(stream, request)
    restored_source.refuse(stream, context)
    registry = context.registry
    registry.register(uid=stream.uid, name=stream.name, source=stream.source_name, target=str(stream.target))
    table = stream.format.state(stream.target, stream.uid)
    recovered = RecoveryState(table=table, since=table.position, repair=RegistryRepair.NOTHING)
    with stream.source.probe(context.sessions) as probe:
        position = _position(stream, column_names.renamed(recovered, probe, stream.writer).since)
        check_continues(position, probe)
        alone = _alone(stream, probe)
        scale = Scale(kind=probe.schema().find(stream.strategy.cursor[0]).type.kind)  # type: ignore[union-attr]
        if scale.kind not in KINDS:
            raise PlanError(f"a range of {stream.strategy.cursor[0]!r} cannot be split into chunks")
        low, high = _ends(stream, scale, request, position)
        chunks = tuple(_chunks(stream, probe, scale, (low, high), request))
    asked = Backfill(
        backfill_id=0,
        stream=stream.name,
        begin=scale.text(low),
        end=scale.text(high + 1),
        parallel=1 if alone else request.parallel,
        rate=request.rate,
        status=Progress.RUNNING,
        chunks=chunks,
        created_at=context.now(),
    )
    return registry.backfills.create(stream.uid, asked)


def resume(stream: Stream, context: RunContext) -> Backfill:
    """The stream's open backfill, to be continued: failed chunks are retried. Raises PlanError: there is none."""
    found = opened(stream, context)
    again = (replace(chunk, status=Progress.WAITING) for chunk in found.chunks if chunk.status is not Progress.DONE)
    context.registry.backfills.keep(found.backfill_id, *again)
    context.registry.backfills.mark(found.backfill_id, Progress.RUNNING)
    return context.registry.backfills.get(found.backfill_id)


def opened(stream: Stream, context: RunContext) -> Backfill:
    """The stream's backfill that is neither done nor cancelled. Raises PlanError if there is none."""
    found = context.registry.backfills.open_of(stream.uid)
    if found is None:
        raise PlanError(
            f"stream {stream.name!r} has no open backfill",
            hint="`tidegate backfill list` shows them; `tidegate backfill STREAM --from A --to B` starts one.",
        )
    return found


def load_pending(context: RunContext, backfill: Backfill, load_group: LoadGroup, on_progress: OnProgress) -> Backfill:
    """Loads the pending chunks, until none is left or the backfill is paused or cancelled.

    Args:
        load_group: loads some chunks in one commit and gives the rows of each by its number.
        on_progress: after each commit, how far it is.

    Raises:
        LeaseHeld: another process works on this backfill.
    """
    kept, number, failures = context.registry.backfills, backfill.backfill_id, 0
    with context.registry.lease(lease_name(number)):
        while True:
            now = kept.get(number)
            if now.status is not Progress.RUNNING:
                return now
            if not now.waiting or failures >= IN_A_ROW:
                failed = now.waiting or any(chunk.status is Progress.FAILED for chunk in now.chunks)
                kept.mark(number, Progress.FAILED if failed else Progress.DONE, among=(Progress.RUNNING,))
                return kept.get(number)
            group = now.waiting[: now.parallel]
            # A chunk that failed beside others is tried alone.
            group = group[:1] if group[0].attempts else tuple(chunk for chunk in group if not chunk.attempts)
            loaded = _loaded(context, load_group, group)
            kept.keep(number, *loaded)
            failures = 0 if loaded[0].status is Progress.DONE else failures + int(loaded[0].status is Progress.FAILED)
            on_progress(kept.get(number))
            rows, seconds = sum(chunk.rows for chunk in loaded), sum(chunk.seconds for chunk in loaded)
            time.sleep(max(BREATH, rows / now.rate - seconds if now.rate else 0))


def _loaded(context: RunContext, load_group: LoadGroup, group: Sequence[Chunk]) -> list[Chunk]:
    """The chunks as they stand after one commit, or after an attempt at it."""
    began = time.monotonic()
    try:
        rows = retrying()(load_group, group)
    except TidegateError as error:
        text = f"{error.code}: {context.redact(error.message)}"
        status = Progress.WAITING if len(group) > 1 else Progress.FAILED
        return [replace(chunk, status=status, attempts=chunk.attempts + 1, error=text) for chunk in group]
    spent = (time.monotonic() - began) / len(group)
    return [
        replace(chunk, status=Progress.DONE, rows=rows[chunk.number], seconds=round(spent, 3), error=None)
        for chunk in group
    ]


def _load(stream: Stream, context: RunContext, listener: Listener, group: Sequence[Chunk]) -> dict[int, int]:
    """One load of these chunks at the live position; the rows of each."""
    listener_of_load = context.listener(stream, Command.BACKFILL, _within(listener), part=new_load_id())
    journal = Journal(stream=stream.name, listener=listener_of_load)
    journal.begin()
    try:
        done, rows = _load_group(stream, context, journal, group)
    except TidegateError as error:
        journal.end(outcome_of(stream, failure(stream, error, context.redact), {}))
        raise
    except KeyboardInterrupt:
        journal.interrupted()
        raise
    journal.end(outcome_of(stream, done, {}))
    return rows


def _within(listener: Listener) -> Listener:
    """Leaves out how a commit ended: who follows a backfill is told of that by `on_progress`."""
    return lambda event: listener(replace(event, outcome=None, error=None))


def _load_group(
    stream: Stream, context: RunContext, journal: Journal, group: Sequence[Chunk]
) -> tuple[LoadResult, dict[int, int]]:
    with acquire(context.registry, stream.uid, waits=lambda: True) as lease:
        restored_source.refuse(stream, context)
        recovered = recovery.recover(stream, context)
        with stream.source.probe(context.sessions) as probe:
            work = LoadContext(stream=stream, context=context, journal=journal, probe=probe, recovered=recovered)
            work = recovery.prove(column_names.followed(work))
            position = _position(stream, work.recovered.since)
            check_continues(position, probe)
            _alone(stream, probe)
            parts = {
                chunk.number: Range(cursor=stream.strategy.cursor, after=chunk.after, upto=chunk.upto)
                for chunk in group
            }
            rows = {number: probe.stats(part).rows for number, part in parts.items()}
            if not any(rows.values()):
                return unchanged(work), rows
            # Rows may come that the position's claims do not know of.
            since = replace(position, state=stream.strategy.unclaimed(position.state))
            changes = _changes(tuple(parts.values()), since, sum(rows.values()))
            return load.load(work, plan(work, changes, save=context.save, some=True), lease), rows


def _changes(parts: tuple[Range, ...], since: Position, rows: int) -> ChangeSet:
    return ChangeSet(
        slices=parts,
        effect=Upsert(repeats="rows of a backfill may already be in the table"),
        state=since.state,
        loaded_through=since.loaded_through,
        rows=rows,
        reason=f"backfill of {counted(rows, 'row')} in {', '.join(part.label for part in parts)}",
    )


def _refuse(stream: Stream, request: Request) -> None:
    if not stream.strategy.cursor:
        raise PlanError(
            f"stream {stream.name!r}: strategy {stream.strategy.kind} has no cursor, so there is no range to load",
            hint=f"Compare and repair the table instead: `tidegate verify {stream.name} --repair`.",
        )
    if not (stream.writer.idempotent and stream.writer.needs_key):
        raise PlanError(
            f"stream {stream.name!r}: write: {stream.writer.kind} would add existing rows a second time",
            hint="Use `write: merge` with a `key:`.",
        )
    if stream.policies.retain is not None:
        raise PlanError(
            f"stream {stream.name!r}: a backfill could bring back rows that `retain:` has dropped",
            hint=f"Repair what differs: `tidegate verify {stream.name} --repair`.",
        )
    if request.parallel < 1 or (request.rate is not None and request.rate < 1):
        raise ConfigError("parallel and rate must be 1 or more", hint="Try --parallel 2 --rate 10000.")
    if (isinstance(request.chunk, int) and request.chunk < 1) or request.chunk == timedelta(0):
        raise ConfigError("a chunk must not be empty", hint="Try --chunk 7d, or a number of rows: --chunk 100000.")


def _position(stream: Stream, since: Position | None) -> Position:
    if since is None or since.loaded_through is None:
        raise PositionMissing(
            f"the table of stream {stream.name!r} has not been loaded yet", hint=f"Run `tidegate run {stream.name}`."
        )
    check_owner(since, stream.strategy.kind, stream.strategy.cursor)
    return since


def _alone(stream: Stream, probe: Probe) -> bool:
    """Whether chunks are loaded one by one: a source with several rows of a key is compared with all that is loaded.

    Raises:
        PlanError: the writer would take such a row for a new version of its key.
    """
    if probe.unique(stream.key):
        return False
    if stream.writer.versions is not None:
        raise PlanError(
            f"stream {stream.name!r}: the source may have several rows per key, and write: {stream.writer.kind} keeps "
            f"each of them as a version",
            hint=f"Compare and repair the table instead: `tidegate verify {stream.name} --repair`.",
        )
    return True


def _ends(stream: Stream, scale: Scale, request: Request, since: Position) -> tuple[int, int]:
    """First and last number of the range."""
    first, beyond = (
        scale.number(stream.strategy.resume_at(stream.strategy.resume(text)) or text)
        for text in (request.begin, request.end)
    )
    if first >= beyond:
        raise ConfigError(
            f"the range from {request.begin} to {request.end} is empty or reversed",
            hint="`--to` is the first value not to load, and must be after `--from`.",
        )
    through = scale.number(since.loaded_through or "")
    if beyond > through + 1:
        raise ConfigError(
            f"the range ends at {request.end}, and stream {stream.name!r} has been loaded through "
            f"{since.loaded_through}: later values belong to its next loads",
            hint=f"Use --to '{scale.text(through + 1)}', or run `tidegate run {stream.name}` first.",
        )
    return first, beyond - 1


def _chunks(stream: Stream, probe: Probe, scale: Scale, ends: tuple[int, int], request: Request) -> Iterator[Chunk]:
    def rows_of(low: int, high: int) -> int:
        part = Range(cursor=stream.strategy.cursor, after=scale.below(low), upto=scale.text(high))
        return probe.stats(part).rows

    if isinstance(request.chunk, timedelta):
        if scale.kind is Kind.INTEGER:
            raise ConfigError(
                "a numeric cursor cannot be split by duration",
                hint="Give the chunk as a number of rows: --chunk 100000.",
            )
        width = scale.width(request.chunk)
        if (ends[1] - ends[0]) // width >= MOST_CHUNKS:
            raise ConfigError(f"more than {MOST_CHUNKS} chunks", hint="Use a larger --chunk.")
        parts = [(low, high, rows_of(low, high)) for low, high in cut_evenly(*ends, width)]
    else:
        most = request.chunk or min(CHUNK_ROWS, BURST * request.rate if request.rate else CHUNK_ROWS)
        parts = list(cut_by_rows(*ends, most, rows_of))
    for number, (low, high, rows) in enumerate(parts, start=1):
        yield Chunk(number=number, after=scale.below(low), upto=scale.text(high), rows=rows)
