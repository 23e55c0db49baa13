"""The check `expression`: a Spark SQL condition is true for every row.

A row for which the condition is NULL passes, as in a SQL CHECK constraint.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from tidegate.core.policies.rules import Judges
from tidegate.core.schema import Schema
from tidegate.spark.expressions import columns_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """The condition is true or NULL for every row.

    Args:
        sql: a condition in Spark SQL on the columns of one row.
    """

    kind: ClassVar[str] = "expression"
    main: ClassVar[str] = "sql"
    judges: ClassVar[Literal[Judges.ROW]] = Judges.ROW
    any_case: ClassVar[bool] = True

    sql: str

    def __post_init__(self) -> None:
        columns_of(self.sql)

    @property
    def columns(self) -> tuple[str, ...]:
        return columns_of(self.sql)

    def refuse(self, schema: Schema) -> None:
        """Nothing: Spark knows the types."""

    def conditions(self, schema: Schema) -> Mapping[tuple[str, ...], str]:  # noqa: ARG002 - it names its columns itself
        return {self.columns: self.sql}

    def reason(self) -> str:
        return f"{self.sql} does not hold"
