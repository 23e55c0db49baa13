"""The check `unique`: no two rows of the table have the same values in these columns.

Rows with NULL in one of the columns are ignored, as with UNIQUE in SQL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from tidegate.core.display import counted, done_by
from tidegate.core.policies.rules import CheckContext, ColumnTest, Judges, Scope
from tidegate.core.schema import Kind, Schema
from tidegate.errors import ConfigError
from tidegate.spark.sql import names, quote


@dataclass(frozen=True, slots=True, kw_only=True)
class Unique:
    """The combined values of the columns occur in only one row of the table.

    Args:
        columns: the columns whose values together must be unique in the table.
    """

    kind: ClassVar[str] = "unique"
    main: ClassVar[str] = "columns"
    judges: ClassVar[Literal[Judges.AGGREGATE]] = Judges.AGGREGATE
    scope: ClassVar[Scope] = Scope.TABLE

    columns: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.columns:
            raise ConfigError("unique needs `columns:` with at least one column")

    @property
    def column_tests(self) -> tuple[ColumnTest, ...]:
        return tuple(ColumnTest(name="unique", column=name) for name in self.columns if len(self.columns) == 1)

    def refuse(self, schema: Schema) -> None:
        """Refuses columns that have no values to count."""
        for column in schema:
            if column.name in self.columns and column.type.kind is Kind.FLOAT:
                raise ConfigError(
                    f"unique: column {column.name!r} holds floating-point numbers, whose equality proves nothing",
                    column=column.name,
                )

    def ask(self, schema: Schema) -> tuple[str, ...]:  # noqa: ARG002 - the same for every type
        """Rows with values, and how many combinations of values there are."""
        whole = " AND ".join(f"{quote(name)} IS NOT NULL" for name in self.columns)
        return f"count_if({whole})", f"count(DISTINCT {names(self.columns)})"

    def judge(self, answers: Sequence[Any], known: CheckContext) -> str | None:  # noqa: ARG002 - the rows tell all
        """How many rows are too many."""
        surplus = int(answers[0]) - int(answers[1])
        listed = ", ".join(self.columns)
        if not surplus:
            return None
        return f"{counted(surplus, 'row')} of the table {done_by(surplus, 'have')} duplicate values in ({listed})"
