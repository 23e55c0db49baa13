"""The envelope `rows`: each row of a log is an event, with an operation and a column that orders it.

A row with an unknown operation or without an order is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tidegate.core.ports.envelope import RowEnvelope
from tidegate.core.schema import Schema
from tidegate.envelopes import _operations as operations

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows(RowEnvelope):
    """Plain rows with an operation and an order.

    Args:
        operation: the column with `INSERT`, `UPDATE`, `DELETE`, `TRUNCATE` or their first letters, in any case.
        sequence: the columns that order the events, most significant first; they are not columns of the table.
        keep: columns of operation and sequence that are also columns of the table.
    """

    kind: ClassVar[str] = "rows"

    operation: str = "operation"
    sequence: tuple[str, ...] = ("sequence",)
    keep: tuple[str, ...] = ()

    def schema(self, columns: Schema) -> Schema:
        """The columns that are neither operation nor order, unless they are kept."""
        left = operations.without(columns, (self.operation, *self.sequence))
        return Schema(columns=tuple(each for each in columns if each in left.columns or each.name in self.keep))

    def events(self, rows: DataFrame, columns: Schema, schema: Schema) -> DataFrame:
        order = [column for name in self.sequence if (column := columns.find(name))]
        return operations.events(
            rows,
            schema,
            operation=operations.word(self.operation),
            order=operations.orders(order),
            unordered=operations.unordered(order),
        )
