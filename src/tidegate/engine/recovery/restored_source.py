"""Keeps refusing a source that was found restored, even after new writes have passed the loaded position.

Only a full refresh lifts the refusal.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tidegate.engine.context import RunContext
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


@contextmanager
def remembering(stream: Stream, context: RunContext) -> Iterator[None]:
    """Refuses a source that was found restored; if the load finds that now, the registry keeps it for later runs."""
    refuse(stream, context)
    try:
        yield
    except HistoryGone as error:
        if error.context.get("restored"):
            context.registry.mark_discontinued(stream.uid, error.message)
        raise


def forget(stream: Stream, context: RunContext) -> None:
    """Lifts the refusal, once everything that the source has now is loaded."""
    context.registry.mark_discontinued(stream.uid, None)
