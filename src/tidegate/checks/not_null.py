"""The check `not_null`: none of the columns contains NULL.

An empty string is not NULL.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from tidegate.core.policies.rules import ColumnTest, Judges
from tidegate.core.schema import Schema
from tidegate.errors import ConfigError
from tidegate.spark.sql import quote


@dataclass(frozen=True, slots=True, kw_only=True)
class NotNull:
    """Every row has a value in each of the columns.

    Args:
        columns: the columns that must have a value.
    """

    kind: ClassVar[str] = "not_null"
    main: ClassVar[str] = "columns"
    judges: ClassVar[Literal[Judges.ROW]] = Judges.ROW

    columns: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.columns:
            raise ConfigError("not_null needs `columns:` with at least one column")

    @property
    def column_tests(self) -> tuple[ColumnTest, ...]:
        return tuple(ColumnTest(name="not_null", column=name) for name in self.columns)

    def refuse(self, schema: Schema) -> None:
        """Nothing: any column may hold NULL."""

    def conditions(self, schema: Schema) -> Mapping[tuple[str, ...], str]:  # noqa: ARG002 - the same for every type
        return {(name,): f"{quote(name)} IS NOT NULL" for name in self.columns}

    def reason(self) -> str:
        return f"no value in {' or '.join(self.columns)}"
