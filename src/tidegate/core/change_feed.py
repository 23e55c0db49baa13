"""What a versioned table (Delta, Iceberg) reports about the changes between two of its versions.

A range of versions that are no longer known is never reported as empty.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

EMPTY = "empty"
"""The version of a table that nobody has written to yet."""


class FeedContent(StrEnum):
    """How much a table reports about a range of its versions."""

    NOTHING = "nothing"
    """No row came, changed or went: compaction, properties."""

    APPENDS = "appends"
    """Rows came; none changed, none went."""

    CHANGES = "changes"
    """Every row that came or went, commit by commit."""

    UNKNOWN = "unknown"
    """Not what happened, but the rows as they are now: only a comparison finds out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """The changes between two versions.

    Args:
        reason: why the feed has that content, for people, to go after "because"; empty for what needs no reason.
        rows: that came, where the table counts them.
    """

    content: FeedContent
    reason: str = ""
    rows: int | None = None
