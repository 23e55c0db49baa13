"""The option `significant_change`: differences too small to be worth a load.

A load that happens always moves every difference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tidegate.core.fraction import Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class Significance:
    """When differences are worth a load: if enough rows differ enough. The load then moves every difference.

    Inserted and deleted rows always count.

    Args:
        columns: a changed row counts if one of these columns changed; any column unless given.
        absolute, relative: a number counts as changed if it differs by more than the greater of `absolute` and
            `relative` times its old value; values of other types count if they differ at all.
        min_rows: at least this many rows must count.
        min_fraction: at least this share of the table's rows must count, such as 0.3 or 30%.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}

    columns: tuple[str, ...] = ()
    absolute: float = 0.0
    relative: Fraction = 0.0
    min_rows: int = 1
    min_fraction: Fraction = 0.0

    def problems(self) -> tuple[str, ...]:
        found = [
            f"significant_change: {name} cannot be negative, got {value}"
            for name, value in (("absolute", self.absolute), ("relative", self.relative), ("min_rows", self.min_rows))
            if value < 0
        ]
        if not 0 <= self.min_fraction <= 1:
            found.append(f"significant_change: min_fraction is a share from 0 to 1, got {self.min_fraction}")
        return tuple(found)

    def enough(self, rows: int, of: int) -> bool:
        """Whether so many rows that count are worth a load of a table of `of` rows.

        Example:
            >>> Significance(min_rows=2, min_fraction=0.5).enough(2, 4), Significance(min_rows=3).enough(2, 4)
            (True, False)
        """
        return rows >= max(self.min_rows, 1) and rows >= self.min_fraction * of
