"""Decides what can be read of a source: the closed union `Slice`.

Emitted by strategies, read by sources, replaced or verified by formats. Holds values only, never SQL.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Meaning(StrEnum):
    """What the rows of a load are."""

    ALL = "all"
    NEW = "new"
    UPSERTS = "upserts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Everything:
    """Every row."""

    @property
    def label(self) -> str:
        """The slice's `extract_group_id`."""
        return "everything"


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Rows whose cursor is greater than `after` and at most `upto`.

    Args:
        cursor: the columns whose first non-NULL value is the cursor; usually one.
        after: exclusive lower bound as canonical text (`core/fingerprint`), None for no bound.
        upto: inclusive upper bound as canonical text.
        nulls: also every row whose cursor is NULL.
    """

    cursor: tuple[str, ...]
    after: str | None
    upto: str | None
    nulls: bool = False

    @property
    def label(self) -> str:
        """The slice's `extract_group_id`."""
        return f"({self.after or '-inf'}, {self.upto or '-inf'}]" + (" and NULL" if self.nulls else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """Rows of one partition: `low <= column < high`, or a text's prefix; without any of them, rows of NULL.

    Args:
        label: the slice's `extract_group_id`.
        low, high: inclusive and exclusive bound as canonical text; a missing `high` is no bound.
        prefix: the first `length` characters of the column, or the whole of a shorter text.
        length: of the prefix.
    """

    column: str
    label: str
    low: str | None = None
    high: str | None = None
    prefix: str | None = None
    length: int = 0

    @property
    def of_null(self) -> bool:
        """Whether these are the rows whose column is NULL."""
        return self.low is None and self.prefix is None


Slice = Everything | Range | Partition
