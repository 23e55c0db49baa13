"""The check `references`: the values of some columns exist in another table of the lake, like a foreign key.

A row with NULL in one of the columns passes, as with foreign keys in SQL. Rows of the other table count only while they
are present.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from tidegate.core.ids import Target, split_name
from tidegate.core.policies.rules import ColumnTest, Judges
from tidegate.core.ports.format import Format
from tidegate.core.schema import Schema
from tidegate.errors import ConfigError
from tidegate.spark.expressions import columns_of
from tidegate.spark.sql import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class References:
    """Every row's values exist in a row of another table, as of the time of the check.

    Args:
        columns: the columns of the loaded rows.
        to: the other table, `lake.schema.table`.
        field: the columns of the other table, in the same order; the same names unless given.
    """

    kind: ClassVar[str] = "references"
    main: ClassVar[str] = "columns"
    judges: ClassVar[Literal[Judges.LOOKUP]] = Judges.LOOKUP

    columns: tuple[str, ...]
    to: str
    field: tuple[str, ...] = ()
    lakes: Mapping[str, Format] = dataclasses.field(
        default_factory=dict, metadata={"given": True}, repr=False, compare=False
    )
    present: Callable[[Target], Sequence[str]] = dataclasses.field(
        default=lambda _: (), metadata={"given": True}, repr=False, compare=False
    )
    target: Target | None = dataclasses.field(default=None, metadata={"given": True}, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.columns:
            raise ConfigError("references needs `columns:` with at least one column")
        try:
            parts = split_name(self.to)
        except ValueError as error:
            raise ConfigError(f"references: `to:` {error}") from error
        if len(parts) < 3 or parts[0] not in self.lakes:
            known = ", ".join(self.lakes) or "of the project"
            raise ConfigError(f"references: `to: {self.to}` must be lake.schema.table in one of the lakes {known}")
        if self._there == self.target:
            raise ConfigError(
                "references: a table cannot be checked against itself, because rows of one load may refer to each other"
            )
        if self.field and len(self.field) != len(self.columns):
            raise ConfigError(f"references: {len(self.columns)} columns and {len(self.field)} in `field:`")

    @property
    def column_tests(self) -> tuple[ColumnTest, ...]:
        if len(self.columns) != 1:
            return ()
        field = (self.field or self.columns)[0]
        return (ColumnTest(name="relationships", column=self.columns[0], to=self._there, field=field),)

    def refuse(self, schema: Schema) -> None:
        del schema
        state = self.lakes[self._there.lake].state(self._there, "")
        if state.schema is None:
            raise ConfigError(
                f"references: table {self.to} does not exist yet",
                hint="Run the stream that loads it first, then run again.",
            )
        for name in self._fields:
            if state.schema.find(name) is None:
                listed = ", ".join(state.schema.names)
                raise ConfigError(f"references: table {self.to} has no column {name!r}; it has: {listed}", column=name)

    def there(self, session: SparkSession) -> DataFrame:
        """The values of the other table's present rows, under the names of the columns that refer to them."""
        rows = self.lakes[self._there.lake].read(session, self._there, None)
        for condition in self.present(self._there):
            if set(columns_of(condition)) <= set(rows.columns):  # else the table is not loaded as the project says, yet
                rows = rows.where(condition)
        renamed = zip(self._fields, self.columns, strict=True)
        return rows.selectExpr(*(f"{quote(referenced)} AS {quote(own)}" for referenced, own in renamed))

    def reason(self) -> str:
        return f"no row of {self.to} has the value of {', '.join(self.columns)}"

    @property
    def _fields(self) -> tuple[str, ...]:
        return self.field or self.columns

    @property
    def _there(self) -> Target:
        lake, *namespace, table = split_name(self.to)
        return Target(lake=lake, namespace=tuple(namespace), table=table)
