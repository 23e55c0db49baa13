"""The `deletes:` of a stream: how deleted rows are detected, how they are applied, and how many are allowed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tidegate.core.fraction import Fraction
from tidegate.core.schema import TIMESTAMPTZ, Column, Schema

DELETED_AT = "deleted_at"
"""The column of a table that keeps deleted rows: when the load that found them gone was planned; NULL for live rows."""
MAX_FRACTION = 0.1
ALWAYS_ALLOWED = 10
"""Rows that one load may delete by default however small the table is; a share of few rows would allow none."""
ALL_OF_THEM = 1


class Detect(StrEnum):
    """How deletes are detected for a strategy that does not see them."""

    NONE = "none"
    KEY_DIFF = "key_diff"


class Apply(StrEnum):
    """What to do with a row that was deleted at the source."""

    HARD = "hard"
    SOFT = "soft"


class Scope(StrEnum):
    """Which rows of the table are looked up in the source."""

    TABLE = "table"
    WINDOW = "window"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletes:
    """How rows that were deleted at the source are removed from the table.

    Args:
        detect: how deletes are found: `key_diff` compares the keys of both sides in every run; `none` leaves it to the
            strategy.
        apply: what happens to such a row in the table: `hard` deletes it, `soft` keeps it and sets `deleted_at`.
        max_fraction: the share of the table's rows that one load may delete, such as 0.05 or 5%. The default for
            `key_diff` is 0.1, but at least 10 rows; deletes that a strategy finds itself are limited only if it is set.
            1 lets an empty source empty the table.
        scope: which rows `key_diff` looks at: the whole `table`, or only rows whose cursor lies in the `window` that
            the load reads.
    """

    detect: Detect = Detect.NONE
    apply: Apply = Apply.HARD
    max_fraction: Fraction | None = None
    scope: Scope = Scope.TABLE

    def __post_init__(self) -> None:
        if self.max_fraction is not None and not 0 <= self.max_fraction <= 1:
            raise ValueError(f"max_fraction is {self.max_fraction}, but must be between 0 and 1")

    def most(self, rows: int) -> int | None:
        """How many of the table's rows one load may delete; None for any number.

        Example:
            >>> by_default, stated = Deletes(detect=Detect.KEY_DIFF), Deletes(max_fraction=0.1)
            >>> by_default.most(500), by_default.most(20), stated.most(20), Deletes().most(20)
            (50, 10, 2, None)
        """
        if self.max_fraction is not None:
            return None if self.max_fraction == ALL_OF_THEM else int(self.max_fraction * rows)
        return max(ALWAYS_ALLOWED, int(MAX_FRACTION * rows)) if self.detect is Detect.KEY_DIFF else None

    @property
    def limit(self) -> str:
        """The limit as people read it, and the key that sets it."""
        if self.max_fraction is not None:
            return f"deletes: {{max_fraction: {self.max_fraction}}}"
        share = f"{MAX_FRACTION:.0%} of the table, but at least {ALWAYS_ALLOWED} rows"
        return f"{share}; `deletes: {{max_fraction: …}}` sets it"

    @property
    def soft(self) -> bool:
        """Whether deleted rows stay in the table."""
        return self.apply is Apply.SOFT

    @property
    def columns(self) -> Schema:
        """What the table has for it beside the source's columns."""
        return Schema(columns=(Column(name=DELETED_AT, type=TIMESTAMPTZ),) if self.soft else ())
