"""Change logs: what follows a position, the columns of an event, and messages.

Never skips events whose part of the log has been deleted: that is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Any

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

KEY = "__tidegate_key"
VALUE = "__tidegate_value"
"""Key and value of a message, binary; NULL where it has none."""

PLACE = "__tidegate_place"
"""Where a message or a row stands in its log: a text that sorts as the log does, within one part of it."""


class Truncate(StrEnum):
    """What an event that empties the table does."""

    APPLY = "apply"
    IGNORE = "ignore"
    STOP = "stop"


class OnBadEvent(StrEnum):
    """What is done about events that cannot be taken."""

    STOP = "stop"
    QUARANTINE = "quarantine"


RESYNC = "Run `tidegate resync STREAM`."
"""What helps where events of a log are lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRules:
    """How the events of a load are applied.

    Args:
        floor: an order at or below which no event counts; None for none.
        remember: how long the last order that was applied is kept of every key.
        compact_after: loads after which what is kept is compacted to one row a key.
    """

    floor: str | None = None
    truncate: Truncate = Truncate.APPLY
    remember: timedelta = timedelta(days=7)
    compact_after: int = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSpan:
    """What of a log is read next.

    Args:
        slices: what to read; none where nothing lies after the position.
        state: the position once it is read: JSON types, the log's identity among them.
        events: how many are read; None when not known before they are read.
        taken: how much of the log is read, in a unit of its own: events of a topic, files, bytes of a server's log.
        behind: how much stays for later loads, beyond the most that one load takes; in the same unit.
        bulk: the slices are the table itself, read once before its log: no row of them is an event.
        floor: an order at or below which no event counts, because the bulk rows hold it already; None for none.
        reason: what is read and why, one sentence's end for people.
    """

    slices: tuple[Slice, ...]
    state: Mapping[str, Any] = field(default_factory=dict)
    events: int | None = None
    taken: int = 0
    behind: int = 0
    bulk: bool = False
    floor: str | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """How far a table is behind its log.

    Args:
        events: that lie after the position; None where nobody can count them without reading them.
        seconds: for how long the oldest of them has been there; 0 for none, None where nobody knows.
    """

    events: int | None = None
    seconds: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message of a log, unparsed; None for a missing key or value."""

    key: bytes | None
    value: bytes | None
