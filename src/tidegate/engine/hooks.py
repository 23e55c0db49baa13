"""Runs a stream's hooks for the load that readers see now, and remembers for which load each has succeeded.

No mark is made before a commit: a hook is due while the load that it last succeeded for is not the one that is visible.
So whatever dies in between, the next run does what is left; a hook runs at least once a load, and more often only after
a crash or with a registry that was lost. Nothing that a hook does, or fails to do, is an error of a load.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from tidegate.core.outcome import Problem, Result
from tidegate.core.ports.hook import PublishedLoad, StatedHook, is_due
from tidegate.engine.context import RunContext
from tidegate.engine.outcome import LoadResult
from tidegate.engine.stream import Stream
from tidegate.errors import ConfigError, EnvironmentMissing, HookFailed, LeaseHeld, TidegateError
from tidegate.registry.hooks import HookRecord
from tidegate.registry.values import RegisteredPosition

log = logging.getLogger("tidegate")

WAIT = 1.0
"""Seconds before the second attempt; before each further one twice as many."""
LOOK = 0.2
KINDS = ("inserted", "updated", "deleted")

Say = Callable[[str], None]


def due(stream: Stream, context: RunContext) -> tuple[StatedHook, ...]:
    """The hooks that have not succeeded for the visible load, as the registry knows it; asks nothing else."""
    stated = stream.policies.after_publish
    published = context.registry.position(stream.uid) if stated else None
    return () if published is None else _due(stream, published, context.registry.hooks(stream.uid))


def notes(stream: Stream, context: RunContext, *, changed: bool) -> tuple[str, ...]:
    """What `plan` says: every hook after a load, else those that are due; runs none."""
    hooks = stream.policies.after_publish if changed else due(stream, context)
    when = (
        "once a load that changed the table is published"
        if changed
        else "since it has not succeeded for the table's last load"
    )
    return tuple(f"after_publish: {context.redact(each.hook.label)} will run, {when}" for each in hooks)


def run_due(stream: Stream, context: RunContext, say: Say, done: LoadResult | None = None) -> tuple[str, ...]:
    """Runs what is due, under the stream's lease; a sentence for each hook that did not succeed, which is logged, too.

    Args:
        say: takes what is being done.
        done: what this run loaded.

    Raises:
        KeyboardInterrupt: the run is interrupted; the hook is due still.
    """
    failed = _failed(stream, context, say, done)
    for sentence in failed:  # a run with --quiet shows no notes
        log.warning("stream %r: %s", stream.name, sentence)
    return failed


def _failed(stream: Stream, context: RunContext, say: Say, done: LoadResult | None) -> tuple[str, ...]:
    try:
        stated, known = stream.policies.after_publish, context.registry.hooks(stream.uid)
        if known.keys() - {each.hook_id for each in stated}:
            context.registry.keep_hooks(stream.uid, {each.hook_id for each in stated})
        published = context.registry.position(stream.uid) if stated else None
        waiting = () if published is None else _due(stream, published, known)
        if published is None or not waiting or not _visible(stream, published):
            return ()
        load = _load(stream, waiting[0], published, done)
        return tuple(said for each in waiting if (said := _settle(stream, context, each, load, say)))
    except TidegateError as error:
        return (context.redact(f"after_publish: {error.message}"),)
    except Exception as error:  # noqa: BLE001 - a load that is published has not failed
        return (f"after_publish: {type(error).__name__}",)


def after(stream: Stream, context: RunContext) -> None:
    """Runs what is due after a command other than `run` changed what readers see.

    Takes the stream's lease; another runner that has it runs them itself. What fails is logged.
    """
    try:
        if not due(stream, context):
            return
        with context.registry.lease(stream.uid):
            run_due(stream, context, log.info)
    except LeaseHeld:
        return
    except TidegateError as error:
        log.warning("stream %r: after_publish: %s", stream.name, context.redact(error.message))


def _due(stream: Stream, published: RegisteredPosition, known: Mapping[str, HookRecord]) -> tuple[StatedHook, ...]:
    load, verified = published.position.load_id, published.verified
    return tuple(
        each
        for each in stream.policies.after_publish
        if is_due(load, verified, known[each.hook_id].load_id if each.hook_id in known else None)
    )


def _visible(stream: Stream, published: RegisteredPosition) -> bool:
    """Whether the table itself says that readers see this load: after an error the registry may know less."""
    found = stream.format.state(stream.target, stream.uid).position
    return found is not None and found.load_id == published.position.load_id


def _load(stream: Stream, stated: StatedHook, published: RegisteredPosition, done: LoadResult | None) -> PublishedLoad:
    rows = None
    # A run that found nothing new moved none of the rows of a load that an earlier one published.
    if done is not None and done.result is Result.LOADED and done.reached.position == published.position:
        rows = {kind: getattr(done.counts, f"rows_{kind}") for kind in KINDS}
    return PublishedLoad(
        project=stated.project,
        stream=stream.name,
        target=str(stream.target),
        load_id=published.position.load_id,
        version=published.snapshot,
        published_at=published.recorded_at,
        rows=rows,
        verified=published.verified,
    )


def _settle(stream: Stream, context: RunContext, stated: StatedHook, load: PublishedLoad, say: Say) -> str | None:
    """Tries one hook; None once it succeeded, else why not."""
    registry, label = context.registry, context.redact(stated.hook.label)
    registry.begin_hook(stream.uid, stated.hook_id, label)
    error = _tried(stated, context, load, lambda text: say(context.redact(f"after_publish: {label}{text}")))
    if error is None:
        registry.hook_succeeded(stream.uid, stated.hook_id, load.load_id)
        return None
    problem = Problem(code=error.code, message=context.redact(error.message), hint=context.redact(error.hint))
    registry.hook_failed(stream.uid, stated.hook_id, problem.to_dict())
    say(f"after_publish: failed: {problem.message}")
    return f"after_publish: {label} failed, and the next run tries it again: {problem.message}"


def _tried(stated: StatedHook, context: RunContext, load: PublishedLoad, say: Say) -> TidegateError | None:
    error: TidegateError | None = None
    for attempt in range(stated.tries):
        if attempt:
            _sleep(WAIT * 2 ** (attempt - 1), context)
        say("" if not attempt else f", attempt {attempt + 1} of {stated.tries}")
        try:
            _once(stated, context, load)
        except (ConfigError, EnvironmentMissing) as failed:
            return failed  # no other try ends otherwise
        except TidegateError as failed:
            error = failed
        else:
            return None
    return error


def _once(stated: StatedHook, context: RunContext, load: PublishedLoad) -> None:
    """One attempt, in a thread of its own, so that nothing a receiver does can hold the run for longer.

    Raises:
        TidegateError: it did not succeed.
    """
    seconds, ended = stated.timeout.total_seconds(), threading.Event()
    answers: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()

    def work() -> None:
        try:
            stated.hook.run(load, seconds=seconds, ended=ended.is_set)
        except BaseException as error:  # noqa: BLE001 - raised by who waits
            answers.put(error)
        else:
            answers.put(None)

    threading.Thread(target=work, name="hook", daemon=True).start()
    deadline = time.monotonic() + seconds + LOOK
    try:
        while True:
            _refuse_interrupted(context)
            with suppress(queue.Empty):
                found = answers.get(timeout=max(min(LOOK, deadline - time.monotonic()), 0.001))
                break
            if time.monotonic() > deadline:
                raise HookFailed(f"it took longer than {seconds:g} s")
    finally:
        ended.set()
    if isinstance(found, TidegateError):
        raise found
    if found is not None:
        raise HookFailed(type(found).__name__) from found


def _sleep(seconds: float, context: RunContext) -> None:
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        _refuse_interrupted(context)
        time.sleep(min(left, LOOK))


def _refuse_interrupted(context: RunContext) -> None:
    if context.interrupted():
        raise KeyboardInterrupt
