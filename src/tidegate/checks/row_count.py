"""The check `row_count`: a load, or the table, has an expected number of rows.

A comparison with earlier loads is skipped until there are enough of them.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from tidegate.core.display import counted
from tidegate.core.fraction import Fraction
from tidegate.core.policies.rules import CheckContext, Judges, Scope
from tidegate.core.schema import Schema
from tidegate.errors import ConfigError

FEWEST_LOADS, MOST_LOADS = 3, 50


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCount:
    """A load, or the table, has an expected number of rows.

    A run with nothing to load skips the check.

    Args:
        min: the fewest rows that are accepted.
        max: the most rows that are accepted.
        of: what is counted: the rows of the `load`, or of the whole `table` after it.
        change: the fraction by which a load may differ from the median of the last loads: 0.5 accepts from half as many
            to half as many again. The check passes until there have been three loads.
        loads: how many of the last loads the median is taken of.
    """

    kind: ClassVar[str] = "row_count"
    main: ClassVar[str] = "min"
    judges: ClassVar[Literal[Judges.AGGREGATE]] = Judges.AGGREGATE

    min: int | None = None
    max: int | None = None
    of: Scope = Scope.LOAD
    change: Fraction | None = None
    loads: int = 10

    def __post_init__(self) -> None:
        if self.min is None and self.max is None and self.change is None:
            raise ConfigError("row_count needs `min:`, `max:` or `change:`")
        if min(self.min or 0, self.max or 0) < 0:
            raise ConfigError("row_count: `min:` and `max:` must not be negative")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ConfigError(f"row_count has min {self.min} above max {self.max}")
        if self.change is not None and (self.change < 0 or self.of is Scope.TABLE):
            raise ConfigError(
                "row_count: `change:` must be a fraction of 0 or more, and only applies to the rows of a load"
            )
        if not FEWEST_LOADS <= self.loads <= MOST_LOADS:
            raise ConfigError(
                f"row_count: `loads:` is {self.loads}, it must be between {FEWEST_LOADS} and {MOST_LOADS}"
            )

    @property
    def columns(self) -> tuple[str, ...]:
        return ()

    @property
    def scope(self) -> Scope:
        return self.of

    def refuse(self, schema: Schema) -> None:
        """Nothing: rows of any columns can be counted."""

    def ask(self, schema: Schema) -> tuple[str, ...]:  # noqa: ARG002 - whatever the columns
        return ("count(*)",)

    def judge(self, answers: Sequence[Any], known: CheckContext) -> str | None:
        """Too few, too many, or unlike the last loads."""
        rows, what = int(answers[0]), f"the {self.of}"
        if self.min is not None and rows < self.min:
            return f"{what} has {counted(rows, 'row')}; at least {self.min} are expected"
        if self.max is not None and rows > self.max:
            return f"{what} has {counted(rows, 'row')}; at most {self.max} are expected"
        past = known.loads[: self.loads]
        if self.change is None or len(past) < FEWEST_LOADS:
            return None
        usual = statistics.median(past)
        if abs(rows - usual) <= self.change * usual:
            return None
        expected = f"the median of the last {len(past)} loads is {usual:g}, with a tolerance of {self.change:.0%}"
        return f"{what} has {counted(rows, 'row')}; {expected}"
