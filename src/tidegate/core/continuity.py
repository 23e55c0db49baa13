"""Decides whether a position is still one of this source and this strategy.

Called by every strategy that goes on from a position, and by backfills. Must never let a load start from another
history.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.core.position import Position
from tidegate.core.protocols import Probe
from tidegate.errors import ConfigError, HistoryGone


def check_owner(since: Position, kind: str, cursor: Sequence[str]) -> None:
    """Raises ConfigError when another strategy or other columns wrote the position."""
    hint = "Load it anew with `tidegate run STREAM --full-refresh --yes`, or take strategy and column back."
    if since.kind != kind:
        raise ConfigError(f"the table was loaded by strategy {since.kind}, and the stream now names {kind}", hint=hint)
    loaded = list(since.state.get("cursor", ()))
    if loaded != list(cursor):
        raise ConfigError(
            f"the table was loaded by cursor {', '.join(loaded)}, and the stream now names {', '.join(cursor)}",
            hint=hint,
        )


def check_continues(since: Position, probe: Probe) -> None:
    """Raises HistoryGone when the source is another one, or an older state of the same."""
    check_same_source(since, probe)
    clock = probe.clock()
    if since.clock is not None and clock is not None and clock < since.clock:
        raise HistoryGone(f"the source went back in time: its clock was {since.clock} and is {clock} (restored)")


def check_same_source(since: Position, probe: Probe) -> None:
    """Raises HistoryGone when the source is another one than was loaded."""
    identity = probe.identity()
    if since.source and identity != since.source:
        raise HistoryGone(
            f"the source is not the one that was loaded: it was {since.source} and is {identity} (restored, failed "
            "over, or recreated)"
        )
