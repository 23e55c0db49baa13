"""Runs streams in parallel: leases, retries and outcomes.

The failure of one stream never affects the result of another.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from tidegate.core.cutting import first_line
from tidegate.core.outcome import Outcome, Result
from tidegate.core.report import RunReport
from tidegate.engine import clear_connections, damaged_files, hooks, load, loads
from tidegate.engine.context import RunContext
from tidegate.engine.events import STAGES, Journal, Listener
from tidegate.engine.lease import acquire
from tidegate.engine.observers import Command
from tidegate.engine.outcome import LoadResult, combine_consecutive, failure, interruption, outcome_of
from tidegate.engine.retries import retrying
from tidegate.engine.run_log import RunLog
from tidegate.engine.stages.read import SMALL_ROWS
from tidegate.engine.stream import Stream
from tidegate.errors import (
    CommitUnknown,
    InternalError,
    RegistryError,
    SparkLost,
    TidegateError,
    WriteError,
    interrupted,
)
from tidegate.registry import recent
from tidegate.registry.leases import Lease
from tidegate.spark.failures import told_as_lost

log = logging.getLogger("tidegate")


def utc_now() -> datetime:
    """The clock of every record."""
    return datetime.now(UTC)


def new_run_id() -> str:
    """A fresh name for one run of any number of streams."""
    return uuid.uuid4().hex


def run_streams(
    streams: Sequence[Stream],
    context: RunContext,
    *,
    listener: Listener,
    parallel: int = 1,
    fail_fast: bool = False,
) -> RunReport:
    """Runs each stream once, up to `parallel` at a time; with `fail_fast` none starts after the first failure."""
    clear_connections.warn(streams)
    started = context.now()
    failed, halted = threading.Event(), threading.Event()
    context = replace(context, interrupted=halted.is_set)
    context.sessions.expects_much = len(streams) > 1 and _expects_much(streams, context)

    def one(number: int, stream: Stream) -> Outcome | None:
        if halted.is_set() or (fail_fast and failed.is_set()):
            return None
        outcome = run_stream(stream, context, listener, place=(number, len(streams)))
        if outcome.error is not None:
            failed.set()
        return outcome

    numbers = range(1, len(streams) + 1)
    if parallel == 1 or len(streams) == 1:
        outcomes = list(map(one, numbers, streams))
    else:
        with ThreadPoolExecutor(max_workers=parallel, thread_name_prefix="stream") as pool:
            try:
                outcomes = list(pool.map(one, numbers, streams))
            except KeyboardInterrupt:
                halted.set()
                context.sessions.abort()
                raise
    loads.publish(streams, context.registry)
    return RunReport(
        run_id=context.run_id,
        started_at=started,
        finished_at=context.now(),
        streams=tuple(outcome for outcome in outcomes if outcome is not None),
    )


def _expects_much(streams: Sequence[Stream], context: RunContext) -> bool:
    """Whether one of the streams is to be read whole, or moved many rows the last time."""
    if context.reads_everything:
        return True
    uids = [stream.uid for stream in streams]
    last = context.registry.ask(lambda connection: recent.last_successes(connection, uids))
    return any(uid not in last or (last[uid].get("rows_read") or 0) >= SMALL_ROWS for uid in uids)


def run_stream(
    stream: Stream,
    context: RunContext,
    listener: Listener,
    *,
    place: tuple[int, int] = (1, 1),
    due_at: datetime | None = None,
) -> Outcome:
    """Runs one stream under its lease; errors become part of the outcome, never an exception.

    Args:
        place: which one of how many streams of the run it is, from 1.
        due_at: when the schedule wanted it to begin; None of what no schedule asked for.

    Raises:
        KeyboardInterrupt: as it came; the registry says of the stream that it was interrupted.
    """
    began = time.monotonic()
    lines = RunLog(
        listener=context.listener(stream, Command.RUN, listener, due_at=due_at), redact=context.redact, now=context.now
    )
    journal = Journal(stream=stream.name, listener=lines, place=place, halted=context.interrupted)
    journal.begin()
    try:
        outcome = _under_lease(stream, context, journal, lines, began)
    except TidegateError as error:
        outcome = _outcome(stream, failure(stream, error, context.redact), journal, began)
    except KeyboardInterrupt:
        journal.interrupted()
        raise
    except Exception as error:  # noqa: BLE001 - the border of a stream: a bug must not take the others down
        outcome = outcome_of(stream, _failed(stream, error, context), _seconds(journal, began))
        with suppress(Exception):  # of a run that was never begun
            context.registry.start_run(context.run_id, stream.uid)
            context.registry.finish_run(context.run_id, outcome)
    journal.end(outcome)
    return outcome


def _under_lease(stream: Stream, context: RunContext, journal: Journal, lines: RunLog, began: float) -> Outcome:
    registry, backfills = context.registry, context.registry.backfills
    registry.register(uid=stream.uid, name=stream.name, source=stream.source_name, target=str(stream.target))
    with acquire(registry, stream.uid, waits=lambda: backfills.at_work(stream.uid)) as lease:
        registry.start_run(context.run_id, stream.uid)
        try:
            registry.close_crashed(stream.uid, keep_run=context.run_id)
            with lines.saved(partial(registry.keep_log, stream.uid, context.run_id)):
                done = catch_up(lambda each: _attempts(stream, each, lease, journal), context)
                failed = hooks.run_due(stream, context, journal.working, done)
                done = replace(done, notes=(*done.notes, *failed))
            outcome = _outcome(stream, done, journal, began)
        except KeyboardInterrupt:
            # A registry that cannot be reached must not hide the interruption; the run then counts as crashed.
            with suppress(RegistryError):
                ended = _outcome(stream, interruption(stream), journal, began)
                registry.finish_run(context.run_id, ended)
            raise
        except Exception as error:  # noqa: BLE001 - a run that was begun ends, whatever broke
            outcome = outcome_of(stream, _failed(stream, error, context), _seconds(journal, began))
        registry.finish_run(context.run_id, outcome)
        return outcome


def catch_up(load: Callable[[RunContext], LoadResult], context: RunContext) -> LoadResult:
    """Loads until everything that the log contained at the first load is in the table, or a load is not committed.

    Does not follow a log that grows as fast as it is read.

    Args:
        load: one load; its error is part of what it returns.
    """
    done = [load(context)]
    left = done[0].reached.log_behind
    later = replace(context, full_refresh=False, resync=False)
    while left > 0 and _continues(done[-1]) and not context.ended():
        done.append(load(later))
        left -= done[-1].counts.log_taken
    return combine_consecutive(done)


def _continues(last: LoadResult) -> bool:
    return last.result is Result.LOADED and last.error is None and last.reached.log_behind > 0


def _outcome(stream: Stream, done: LoadResult, journal: Journal, began: float) -> Outcome:
    return outcome_of(stream, done, _seconds(journal, began), journal.broken)


def _attempts(stream: Stream, context: RunContext, lease: Lease, journal: Journal) -> LoadResult:
    failed_before, tried = journal.broken, stream
    unknown: list[CommitUnknown] = []

    def load_once() -> LoadResult:
        nonlocal tried
        try:
            with told_as_lost():
                return _load(tried, context, lease, journal)
        except CommitUnknown as error:
            unknown[:] = [error]
            raise
        except WriteError as error:
            if unknown and journal.plan is None:  # the table could not be asked whether it shows the load
                raise unknown[0] from error
            if isinstance(error, SparkLost):  # mostly for its memory, of which the system may have had too little
                tried = replace(tried, source=tried.source.smaller())
            raise

    def again(why: str, wait: float) -> None:
        journal.broken = failed_before  # the next attempt looks at the rows once more
        journal.retry(context.redact(why), wait)

    try:
        return retrying(again)(load_once)
    except Exception as error:  # the border of a stream: a bug must not take the others down
        if interrupted(error) or context.interrupted():
            raise KeyboardInterrupt from error
        return _failed(stream, error, context)


def _load(stream: Stream, context: RunContext, lease: Lease, journal: Journal) -> LoadResult:
    """One load. A damaged file of the table is recognized here, as no further attempt would help."""
    try:
        return load.run(stream, context, lease, journal)
    except TidegateError as error:
        if not error.retryable or (found := damaged_files.named(stream, error)) is error:
            raise
        raise found from error


def _failed(stream: Stream, error: Exception, context: RunContext) -> LoadResult:
    """The result of a run that an error ended; one that is not ours is a bug of this stream."""
    if isinstance(error, TidegateError):
        return failure(stream, error, context.redact)
    wrapped = InternalError(f"stream {stream.name!r}: {type(error).__name__}: {first_line(error)}")
    wrapped.__cause__ = error
    return failure(stream, wrapped, context.redact)


def _seconds(journal: Journal, began: float) -> dict[str, float]:
    """By stage, as `Outcome` names them."""
    spent = journal.seconds
    seconds = {str(stage): spent.get(stage, 0.0) for stage in STAGES}
    seconds["read_write"] = sum(seconds[stage] for stage in ("read", "check", "write"))
    seconds["total"] = time.monotonic() - began
    return {name: round(value, 3) for name, value in seconds.items()}
