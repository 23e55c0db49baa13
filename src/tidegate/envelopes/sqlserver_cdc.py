"""The envelope `sqlserver_cdc`: rows of SQL Server change tables (`__$operation`, `__$start_lsn`, `__$seqval`).

Never takes the row before an update for the row after it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tidegate.core.ports.envelope import RowEnvelope
from tidegate.core.schema import Column, Kind, Schema
from tidegate.dialects.spark import Spark
from tidegate.envelopes import _operations as operations

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

OPERATION, START, WITHIN = "__$operation", "__$start_lsn", "__$seqval"
BEFORE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlserverCdc(RowEnvelope):
    """Rows of `cdc.fn_cdc_get_all_changes_…` or of a change table, the LSNs as bytes or hexadecimal text.

    Source: SQL Server documentation, "cdc.<capture_instance>_CT": 1 delete, 2 insert, 3 before, 4 after an update.
    """

    kind: ClassVar[str] = "sqlserver_cdc"

    def schema(self, columns: Schema) -> Schema:
        """The columns whose names do not begin with `__$`. Raises ColumnMissing."""
        own = [name for name in columns.names if name.startswith("__$")]
        return operations.without(columns, {*own, OPERATION, START, WITHIN})

    def events(self, rows: DataFrame, columns: Schema, schema: Schema) -> DataFrame:
        """A delete, an insert, or the row after an update; of a key that changed both ends have one LSN."""
        number = Spark().quote(OPERATION)
        numbers = {1: "D", 2: "I", 4: "U", 5: "U"}
        word = f"CASE {' '.join(f'WHEN {number} = {code} THEN {word!r}' for code, word in numbers.items())} END"
        lsn = [column for name in (START, WITHIN) if (column := columns.find(name))]
        # A deferred update of one key is a delete and an insert of one LSN, in this order.
        order = f"concat_ws(' ', {', '.join(map(_hexadecimal, lsn))}, CAST({number} AS string))"
        after = rows.where(f"{number} IS NULL OR {number} <> {BEFORE}")
        return operations.events(after, schema, operation=word, order=order, unordered=operations.unordered(lsn))


def _hexadecimal(column: Column) -> str:
    name = Spark().quote(column.name)
    return f"hex({name})" if column.type.kind is Kind.BINARY else f"upper(regexp_replace({name}, '^0[xX]', ''))"
