"""Implements `tidegate watch`: runs each stream when it is due, in one warm process, never twice at a time.

A stop waits for the loads that are running.
"""

from __future__ import annotations

import logging
import queue
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from types import FrameType

from tidegate.core.cutting import first_line
from tidegate.core.display import Shown
from tidegate.core.outcome import Outcome, Problem, Result
from tidegate.core.policies.schedule import Agenda, Schedule
from tidegate.engine import loads
from tidegate.engine.context import RunContext
from tidegate.engine.events import ignore
from tidegate.engine.maintenance.maintain import StreamUpkeep, maintain_stream
from tidegate.engine.run import new_run_id, run_stream
from tidegate.engine.stream import Stream
from tidegate.errors import ConfigError, InternalError, TidegateError

log = logging.getLogger("tidegate")

LONGEST_WAIT = timedelta(minutes=1)
"""A machine that slept, or a clock that was set, is noticed after that long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchResult(Shown):
    """One finished run of a stream.

    Args:
        upkeep: maintenance of its tables, if that was due.
        next_at: when the stream is due again.
    """

    stream: str
    ended_at: datetime
    outcome: Outcome
    next_at: datetime
    upkeep: StreamUpkeep | None = None


@dataclass(kw_only=True)
class Watch:
    """Runs streams when they are due, until asked to stop.

    Args:
        run: runs a stream that was due at that time once; errors are part of the outcome.
        maintain: maintains its tables; as above.
        now: the clock.
        paused: whether a person took the stream off its schedule; asked each time that it is due.
        tell: called after every run.
        parallel: streams that may run in parallel.
    """

    streams: Mapping[str, Stream]
    run: Callable[[Stream, datetime], Outcome]
    maintain: Callable[[Stream], StreamUpkeep]
    now: Callable[[], datetime]
    tell: Callable[[WatchResult], None]
    paused: Callable[[Stream], bool] = field(default=lambda _: False)
    parallel: int = 1
    _ended: queue.SimpleQueue[tuple[str, datetime, Outcome, StreamUpkeep | None] | None] = field(
        default_factory=queue.SimpleQueue, init=False
    )
    _stopping: threading.Event = field(default_factory=threading.Event, init=False)
    _maintained: dict[str, datetime] = field(default_factory=dict, init=False)

    def stop(self) -> None:
        """No stream starts from now on; may be called from a signal handler."""
        self._stopping.set()
        self._ended.put(None)

    def ended(self) -> bool:
        """Whether a stop was requested."""
        return self._stopping.is_set()

    def go(self, schedules: Mapping[str, Schedule], began: Mapping[str, datetime] | None = None) -> None:
        """Runs the streams until `stop`, and returns when the last running one has finished.

        Args:
            began: when the last run of each stream did, by name, whoever ran it.
        """
        agenda = Agenda.of(schedules, self.now(), began)
        with ThreadPoolExecutor(max_workers=self.parallel, thread_name_prefix="watch") as pool:
            while not self._stopping.is_set():
                for name in agenda.take(self.now()):
                    if self._left_out(name):
                        agenda.ended(name, self.now(), well=True)
                    else:
                        pool.submit(self._turn, self.streams[name], agenda.turns[name].due_at)
                self._note(agenda, self._wait(agenda))
        while not self._ended.empty():
            self._note(agenda, 0)

    def _turn(self, stream: Stream, due_at: datetime) -> None:
        """In a thread of its own, which signals do not reach.

        A stream that still waits for a place when a stop was requested is due when the next watch begins.
        """
        if self._stopping.is_set():
            return
        began, outcome, upkeep = self.now(), None, None
        try:
            outcome = self.run(stream, due_at)
            if outcome.error is None and not self._stopping.is_set() and self._needs_upkeep(stream):
                self._maintained[stream.name] = self.now()
                upkeep = self.maintain(stream)
        except Exception as error:
            log.error("stream %s: %s: %s", stream.name, type(error).__name__, first_line(error))  # noqa: TRY400 - a trace only at debug
            log.debug("the error of a turn", exc_info=error)
            outcome = outcome or _broken(stream, error)
        self._ended.put((stream.name, began, outcome, upkeep))

    def _left_out(self, name: str) -> bool:
        try:
            return self.paused(self.streams[name])
        except TidegateError:  # of a registry that does not answer; the run says so
            return False

    def _needs_upkeep(self, stream: Stream) -> bool:
        every, last = stream.policies.maintenance.every, self._maintained.get(stream.name)
        if every is None or last is None:
            return every is not None
        return not timedelta(0) <= self.now() - last < every  # below zero after the clock was set back

    def _wait(self, agenda: Agenda) -> float:
        """Seconds until there may be something to do."""
        due = agenda.next_due()
        wait = LONGEST_WAIT if due is None else min(due - self.now(), LONGEST_WAIT)
        return max(wait.total_seconds(), 0)

    def _note(self, agenda: Agenda, seconds: float) -> None:
        try:
            ended = self._ended.get(timeout=seconds)
        except queue.Empty:
            return
        if ended is not None:
            name, began, outcome, upkeep = ended
            now = self.now()
            next_at = agenda.ended(name, now, well=outcome.error is None, began=began)
            self.tell(WatchResult(stream=name, ended_at=now, outcome=outcome, next_at=next_at, upkeep=upkeep))


def _broken(stream: Stream, error: Exception) -> Outcome:
    """The outcome of a turn that ended with an error of nobody's."""
    found = InternalError(f"stream {stream.name!r}: {type(error).__name__}: {first_line(error)}")
    problem = Problem(code=found.code, message=found.message, hint=found.hint)
    return Outcome(stream=stream.name, outcome=Result.FAILED, strategy=stream.strategy.kind, error=problem)


def watch_streams(
    streams: Sequence[Stream],
    context: RunContext,
    *,
    every: timedelta | None,
    parallel: int,
    tell: Callable[[WatchResult], None],
) -> None:
    """Runs the streams when they are due, until SIGINT or SIGTERM; see `Project.watch`."""
    watched = Watch(
        streams={stream.name: stream for stream in streams},
        run=lambda stream, due_at: _run(stream, replace(context, ended=watched.ended), due_at),
        maintain=lambda stream: maintain_stream(stream, replace(context, run_id=new_run_id())),
        now=context.now,
        paused=lambda stream: context.registry.is_paused(stream.uid),
        tell=tell,
        parallel=parallel,
    )
    context.sessions.lasting = True
    with stopped_by_signals(watched.stop):
        watched.go(schedules(streams, every), _last_starts(streams, context))


def _last_starts(streams: Sequence[Stream], context: RunContext) -> dict[str, datetime]:
    """By name when the last run of each stream began; those that never ran are left out."""
    known = {each.uid: each.last_run_at for each in context.registry.status(with_gaps=False)}
    return {stream.name: at for stream in streams if (at := known.get(stream.uid)) is not None}


def _run(stream: Stream, context: RunContext, due_at: datetime) -> Outcome:
    outcome = run_stream(stream, replace(context, run_id=new_run_id()), ignore, due_at=due_at)
    loads.publish([stream], context.registry)
    return outcome


def schedules(streams: Sequence[Stream], every: timedelta | None) -> dict[str, Schedule]:
    """When each stream is due, by name; streams without a schedule are left out.

    Args:
        every: for streams that have no schedule.

    Raises:
        ConfigError: no stream has one.
    """
    usual = None if every is None else Schedule(every=every)
    found = {stream.name: when for stream in streams if (when := stream.policies.schedule or usual) is not None}
    if not found:
        raise ConfigError(
            "none of these streams has a `schedule:`, so there is nothing to watch",
            hint="Add `schedule: {every: 5m}`, or watch with `tidegate watch --every 5m`.",
        )
    return found


@contextmanager
def stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """SIGINT and SIGTERM call `stop`; the second signal ends the process as usual."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def listen(number: int, _frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        stop()

    for number in before:
        signal.signal(number, listen)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
