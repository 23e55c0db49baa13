"""Keeps refusing a source that was found restored, even after new writes have passed the loaded position.

Only a full refresh lifts the refusal.
"""

from __future__ import annotations

from collections.abc import Callable

from tidegate.engine.context import RunContext
from tidegate.engine.outcome import LoadResult
from tidegate.engine.stream import Stream
from tidegate.errors import HistoryGone


def refuse(stream: Stream, context: RunContext) -> None:
    """Raises HistoryGone if an earlier run found that the source was restored."""
    known = None if context.reads_everything else context.registry.discontinued(stream.uid)
    if known is not None:
        raise HistoryGone(
            f"{known}; seen by an earlier run",
            hint=f"Replace the table with what the source has now: `tidegate resync {stream.name} --replace --yes`.",
        )


def remembering(stream: Stream, context: RunContext, load: Callable[[], LoadResult]) -> LoadResult:
    """What the load says; that it found the source restored is kept, and forgotten once everything was loaded."""
    refuse(stream, context)
    try:
        done = load()
    except HistoryGone as gone:
        if gone.context.get("restored"):
            context.registry.mark_discontinued(stream.uid, gone.message)
        raise
    if context.reads_everything and done.error is None:
        context.registry.mark_discontinued(stream.uid, None)
    return done
