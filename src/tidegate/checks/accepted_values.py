"""The check `accepted_values`: a column only has values from a list.

NULL passes; use `not_null` to exclude it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from tidegate.checks._values import Value, literals
from tidegate.core.policies.rules import ColumnTest, Judges
from tidegate.core.schema import Schema
from tidegate.errors import ConfigError
from tidegate.spark.sql import quote


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedValues:
    """Every value of the column is one of the list; NULL is accepted.

    Args:
        column: the column to check.
        values: the accepted values, in the column's type.
    """

    kind: ClassVar[str] = "accepted_values"
    main: ClassVar[str] = "column"
    judges: ClassVar[Literal[Judges.ROW]] = Judges.ROW

    column: str
    values: tuple[Value, ...]

    def __post_init__(self) -> None:
        if not self.values:
            raise ConfigError("accepted_values needs `values:` with at least one value")

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    @property
    def column_tests(self) -> tuple[ColumnTest, ...]:
        return (ColumnTest(name="accepted_values", column=self.column, values=self.values),)

    def refuse(self, schema: Schema) -> None:
        self.conditions(schema)

    def conditions(self, schema: Schema) -> Mapping[tuple[str, ...], str]:
        listed = (sql for column in schema if column.name == self.column for sql in literals(column, self.values))
        return {self.columns: f"{quote(self.column)} IN ({', '.join(listed)})"}

    def reason(self) -> str:
        return f"{self.column} is not one of the accepted values"
