"""The envelope `dms`: files of AWS Database Migration Service, with an `Op` beside the row's columns.

Never orders events by file names alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tidegate.core.ports.envelope import RowEnvelope
from tidegate.core.schema import Schema
from tidegate.dialects.spark import Spark
from tidegate.envelopes import _operations as operations

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class Dms(RowEnvelope):
    """Rows of AWS DMS; those of its full load have no `Op`, and are older than every change of their key.

    Args:
        sequence: the columns that order the events: that of `TimestampColumnName`, or `AR_H_CHANGE_SEQ`.
        keep: columns of the sequence that are also columns of the table.
    """

    kind: ClassVar[str] = "dms"

    sequence: tuple[str, ...]
    keep: tuple[str, ...] = ()

    def schema(self, columns: Schema) -> Schema:
        """The columns beside `Op` and the order, unless they are kept."""
        known = ["Op"] if columns.find("Op") else []
        left = operations.without(columns, (*known, *self.sequence))
        return Schema(columns=tuple(each for each in columns if each in left.columns or each.name in self.keep))

    def events(self, rows: DataFrame, columns: Schema, schema: Schema) -> DataFrame:
        """Every row as an event; one without an operation is of the full load, so it is an insert.

        DMS stamps a row of the full load with the time of its transfer, by which a change that was committed before
        would be the older one, although it comes from the log, which goes on where the full load began.
        """
        order = [column for name in self.sequence if (column := columns.find(name))]
        with_operation = columns.find("Op") is not None
        full_load = f"{Spark().quote('Op')} IS NULL" if with_operation else "true"
        return operations.events(
            rows,
            schema,
            operation=f"coalesce({operations.word('Op')}, 'I')" if with_operation else "'I'",
            order=f"concat(if({full_load}, '{operations.SEPARATOR}', ''), {operations.orders(order)})",
            unordered=operations.unordered(order),
        )
