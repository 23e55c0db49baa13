"""Proves a whole table after a load, once its last proof is as old as `verify: {full_every: …}` allows.

Compares as `tidegate verify` does, in the snapshot that the load read, so a source that goes on makes no difference.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta

from tidegate.core.bucketing import Level
from tidegate.core.display import counted, short_duration
from tidegate.engine import column_names, load_history
from tidegate.engine.context import LoadContext
from tidegate.engine.outcome import LoadResult, failure
from tidegate.engine.recovery import recovery
from tidegate.engine.stream import Stream
from tidegate.engine.verification import comparison, whole
from tidegate.errors import SourceMoved, TidegateError, VerifyFailed


def incompatibilities(stream: Stream) -> Iterator[str]:
    """Why the table of a stream cannot be proven as a whole; nothing where it can, or is never to be."""
    if stream.policies.full_every is None:
        return
    if stream.strategy.applies_events:
        yield "verify: full_every compares all rows with the source, and a log of changes cannot be asked for them"
    elif not comparison.mirrors(stream):
        kind = stream.writer.kind
        yield f"verify: full_every needs a table that is a copy of its source, and write: {kind} keeps more"


def proven(work: LoadContext, done: LoadResult) -> LoadResult:
    """What a run did, and what a proof of the whole table added, if one was due.

    A difference ends the run as a load whose verification fails; what was published stays.
    """
    every = work.stream.policies.full_every
    if every is None or done.error is not None:
        return done
    now = work.probe.now()
    if not due(every, load_history.proven_at(work.context.registry, work.stream.uid, covered=False), now):
        return done
    try:
        return replace(done, notes=(*done.notes, _proof(work, every)))
    except SourceMoved as error:
        return replace(done, notes=(*done.notes, f"the whole table was not proven, the next run tries: {error}"))
    except TidegateError as error:
        failed = failure(work.stream, error, work.context.redact)
        return replace(done, result=failed.result, error=failed.error)


def due(every: timedelta, last: datetime | None, now: datetime) -> bool:
    """Whether the last proof of the whole table is too old; one of a time that has not come says nothing.

    Example:
        >>> at = datetime.fromisoformat("2025-01-08T00:00:00Z")
        >>> [due(timedelta(days=7), at - timedelta(days=days), at) for days in (6, 7, -1)]
        [False, True, True]
    """
    return last is None or last > now or now - last >= every


def _proof(work: LoadContext, every: timedelta) -> str:
    """That source and table are equal, for people. Raises VerifyFailed: they are not."""
    stream, context = work.stream, work.context
    work = column_names.followed(replace(work, recovered=recovery.recover(stream, context)))
    since = work.recovered.loaded
    if since is None:
        return "there is nothing to prove yet"
    comparison.choose_loaded(stream, context, work.probe, since)
    with work.session() as session:
        found = whole.compared(work, session, Level.CHECKSUM)
    if not found.equal:
        raise VerifyFailed(
            f"stream {stream.name!r}: its whole table was compared with the source, and they differ: "
            f"{counted(found.source_rows, 'row')} at the source, {found.target_rows:,} in {stream.target}",
            hint="Count the rows with `tidegate verify STREAM --level rows`, repair them with `--repair`.",
        )
    context.registry.verified(stream.uid, since)
    return f"the whole table was compared with the source, as it is every {short_duration(every)}: they are equal"
