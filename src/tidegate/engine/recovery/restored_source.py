"""Keeps refusing a source that was found restored, even after new writes have passed the loaded position.

A full refresh lifts the refusal, and so does a person who sets the position or puts the option right that it rests on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tidegate.core.ports.source import Probe
from tidegate.core.position import Position
from tidegate.engine.context import RunContext
from tidegate.engine.stream import Stream
from tidegate.errors import HistoryGone
from tidegate.registry.values import Discontinued


def witness(stream: Stream, probe: Probe, since: Position | None) -> Mapping[str, Any]:
    """What will tell later whether the source goes on from now, for a position up to which it was looked at now.

    A position that stays where it was keeps its own: what it is a witness of has not moved either.
    """
    restore = probe.restore
    return restore.witness(stream.strategy.cursor, since) if restore is not None else {}


def refuse(stream: Stream, context: RunContext) -> Discontinued | None:
    """What an earlier run found of the source, where that rests on an option that has been put right since.

    Raises:
        HistoryGone: it found that the source was restored.
    """
    known = None if context.reads_everything else context.registry.discontinued(stream.uid)
    if known is not None and _holds(known, stream):
        by_value, by_number = (
            f"`tidegate state set {stream.name} VALUE`",
            f"`tidegate state rewind {stream.name} --to N`",
        )
        kept = by_value if stream.strategy.cursor else by_number
        raise HistoryGone(
            f"{known.reason}; seen by an earlier run",
            hint=f"Replace the table with what the source has now: `tidegate resync {stream.name} --replace --yes`. If "
            f"the source was not restored, continue from a position that you vouch for: {kept}.",
        )
    return known


@contextmanager
def remembering(stream: Stream, context: RunContext) -> Iterator[None]:
    """Refuses a source that was found restored; if the load finds that now, the registry keeps it for later runs."""
    known = refuse(stream, context)
    try:
        yield
    except HistoryGone as error:
        if error.context.get("restored"):
            mark = Discontinued(reason=error.message, options=error.context.get("options", {}))
            context.registry.mark_discontinued(stream.uid, mark)
        raise
    if known is not None:
        forget(stream, context)  # with the option as it is now, the source goes on


def forget(stream: Stream, context: RunContext) -> None:
    """Lifts the refusal, once everything that the source has now is loaded."""
    context.registry.mark_discontinued(stream.uid, None)


def _holds(known: Discontinued, stream: Stream) -> bool:
    """Whether the strategy still has the options on which the finding rests."""
    return all(getattr(stream.strategy, name, None) == value for name, value in known.options.items())
