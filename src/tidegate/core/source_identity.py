"""Checks that a position belongs to this source and this strategy.

Called before every load that continues from a position, so that no load continues from another source's history.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.core.ports.source import Probe
from tidegate.core.position import Position
from tidegate.core.position_state import cursor_of
from tidegate.errors import ConfigError, HistoryGone

OF_NAME = (
    "Another table has its name now, or it was created again. To load that one from now on: `tidegate run STREAM "
    "--full-refresh --yes`. If it is replaced again and again, choose a strategy that compares every row and follows "
    "the name, such as `strategy: checksum`, before that."
)


def check_owner(since: Position, kind: str, cursor: Sequence[str]) -> None:
    """Raises ConfigError when another strategy or other columns wrote the position."""
    hint = (
        "Run a full refresh with `tidegate run STREAM --full-refresh --yes`, or restore the previous strategy and "
        "column."
    )
    if since.kind != kind:
        raise ConfigError(
            f"the table was loaded with strategy {since.kind}, and the stream now names {kind}", hint=hint
        )
    loaded = cursor_of(since.state)
    if loaded != tuple(cursor):
        raise ConfigError(
            f"the table was loaded with cursor {', '.join(loaded)}, and the stream now names {', '.join(cursor)}",
            hint=hint,
        )


def check_continues(since: Position, probe: Probe, *, recreated: bool = False) -> None:
    """Raises HistoryGone when the source is another one, or an older state of the same.

    Args:
        recreated: see `check_same_source`.
    """
    check_same_source(since, probe, recreated=recreated)
    clock, restore = probe.clock(), probe.restore
    if since.clock is not None and clock is not None and clock < since.clock:
        late = restore is not None and restore.follows()
        raise HistoryGone(
            f"the source went back in time: its clock was {since.clock} and is {clock} (restored)", restored=not late
        )
    reason = restore.restore_reason(since) if restore is not None else None
    if reason is not None:
        raise HistoryGone(reason, restored=True)


def check_same_source(since: Position, probe: Probe, *, recreated: bool = False) -> None:
    """Raises HistoryGone when the source is another one than was loaded.

    Args:
        recreated: it may be another table of that name in the same database, as every row is compared.
    """
    identity = probe.identity()
    if since.source is None or identity == since.source:
        return
    of_name = _numbered(identity) is not None and _numbered(identity) == _numbered(since.source)
    if of_name and recreated:
        return
    raise HistoryGone(
        f"the source is not the one the table was loaded from: it was {since.source} and is {identity} (restored, "
        "failed over, or recreated)",
        hint=OF_NAME if of_name else None,
    )


def _numbered(identity: str) -> str | None:
    """Where a table is to which the database gave a number; None where the identity ends with none."""
    place, _, number = identity.rpartition(":")
    return place if number.isdecimal() else None
