"""The check `range`: the values of a column are between two bounds.

NULL passes; use `not_null` to exclude it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from tidegate.checks._values import Value, above, literal
from tidegate.core.policies.rules import Judges
from tidegate.core.schema import Schema
from tidegate.errors import ConfigError
from tidegate.spark.sql import quote


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Every value of the column is within the bounds; NULL is accepted.

    Args:
        column: a column of numbers, texts, dates or timestamps.
        min: the lower bound, in the column's type; no bound unless given.
        max: the upper bound, in the column's type; no bound unless given.
        inclusive: whether the bounds themselves are accepted.
    """

    kind: ClassVar[str] = "range"
    main: ClassVar[str] = "column"
    judges: ClassVar[Literal[Judges.ROW]] = Judges.ROW

    column: str
    min: Value | None = None
    max: Value | None = None
    inclusive: bool = True

    def __post_init__(self) -> None:
        if self.min is None and self.max is None:
            raise ConfigError("range needs `min:`, `max:` or both")

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    def refuse(self, schema: Schema) -> None:
        """Refuses bounds that the column cannot hold, and those between which nothing is."""
        self.conditions(schema)
        column = schema.find(self.column)
        if column is None or self.min is None or self.max is None:
            return
        if above(column, self.min, self.max):
            raise ConfigError(f"range has min {self.min} above max {self.max}", column=self.column)

    def conditions(self, schema: Schema) -> Mapping[tuple[str, ...], str]:
        """False for a row beyond a bound."""
        return {self.columns: " AND ".join(self._ends(schema))}

    def reason(self) -> str:
        ends = [f"at least {self.min}"] if self.min is not None else []
        ends += [f"at most {self.max}"] if self.max is not None else []
        return f"{self.column} is not {' and '.join(ends)}" + ("" if self.inclusive else " (exclusive)")

    def _ends(self, schema: Schema) -> Iterator[str]:
        equal = "=" if self.inclusive else ""
        column = schema.find(self.column)
        for sign, end in ((">", self.min), ("<", self.max)):
            if column is not None and end is not None:
                yield f"{quote(self.column)} {sign}{equal} {literal(column, end)}"
