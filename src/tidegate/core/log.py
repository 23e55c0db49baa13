"""Decides how a log of changes says what lies after a position, and what a row of it looks like.

Told by the probes of logs, asked by strategy cdc, folded by writers. Must never take a part of a log for read whose
beginning is gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from tidegate.core.slices import Slice

UNKNOWN = "__tidegate_unknown"
"""Array of names: columns whose value the event does not carry, so that the newest known value stays."""

CLEARS = "__tidegate_clears"
"""True for an event that empties the table (TRUNCATE); it has no key."""

REFUSED = "__tidegate_refused"
"""Why an event cannot be taken, one text for people without a value of the row; NULL for one that can."""

ORIGIN = "__tidegate_origin"
"""Where an event stands, for people: `topic shop.orders, partition 0, offset 17`."""

RAW = "__tidegate_raw"
"""A refused event as it came, as text (base64 where it is none); NULL for one that can be taken."""

EVENT_COLUMNS = (UNKNOWN, CLEARS, REFUSED, ORIGIN, RAW)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSpan:
    """What of a log is read next.

    Args:
        slices: what to read; none where nothing lies after the position.
        state: the position once it is read: JSON types, the log's identity among them.
        events: how many are read; None when not known before they are read.
        behind: events that stay for later loads, beyond the most that one load takes.
        bulk: the slices are the table itself, read once before its log: no row of them is an event.
        floor: an order at or below which no event counts, because the bulk rows hold it already; None for none.
        reason: what is read and why, one sentence's end for people.
    """

    slices: tuple[Slice, ...]
    state: Mapping[str, Any] = field(default_factory=dict)
    events: int | None = None
    behind: int = 0
    bulk: bool = False
    floor: str | None = None
    reason: str = ""


@runtime_checkable
class Logged(Protocol):
    """A probe of a log of changes.

    What its source reads of such slices: one row an event, the columns of the schema (those of a deleted row may be
    NULL beside its key), `frames.GONE`, `frames.ORDER`, and the columns of `EVENT_COLUMNS`. ORDER is a text that sorts,
    by code points, as the source committed; two events of one order are the same event, delivered twice. A change of
    a key is two events, the old key's end before the new key's beginning.
    """

    def after(self, state: Mapping[str, Any] | None, *, most: int | None) -> LogSpan:
        """What lies after a position that an earlier answer gave; None for the log's beginning.

        Args:
            most: events to read at most; None for all there are.

        Raises:
            HistoryGone: the log has lost events after the position, is not the one that was read, or ends before it.
        """
