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
    """What to do with an event that empties the table."""

    APPLY = "apply"
    IGNORE = "ignore"
    STOP = "stop"


class OnBadEvent(StrEnum):
    """What to do with events that cannot be applied."""

    STOP = "stop"
    QUARANTINE = "quarantine"


RESYNC = "Run `tidegate resync STREAM`."
"""What helps where events of a log are lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRules:
    """How the events of a load are applied.

    Args:
        floor: an order at or below which no event counts; None for none.
        remember: how long the last applied order of a key is kept.
        compact_after: the number of loads after which the records are compacted to one row per key.
    """

    floor: str | None = None
    truncate: Truncate = Truncate.APPLY
    remember: timedelta = timedelta(days=7)
    compact_after: int = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSpan:
    """The part of a log that is read next.

    Args:
        slices: what to read; none if nothing lies after the position.
        state: the state of the position afterwards: JSON types, including the log's identity.
        events: how many events are read; None if that is not known before reading.
        taken: how much of the log is read, in the unit of the log: events of a topic, files, bytes of a server's log.
        behind: how much is left for later loads, beyond the limit of one load; in the same unit.
        bulk: the slices are the table itself, read once before its log: no row of them is an event.
        floor: an order at or below which no event counts, because the bulk rows hold it already; None for none.
        reason: what is read and why, for people; the end of a sentence.
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
        events: the number of events after the position; None if they cannot be counted without reading them.
        seconds: the age of the oldest of them; 0 for none, None if it is not known.
    """

    events: int | None = None
    seconds: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message of a log, unparsed; None for a missing key or value."""

    key: bytes | None
    value: bytes | None
