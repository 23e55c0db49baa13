"""The envelope `sqlserver_cdc`: rows of SQL Server change tables (`__$operation`, `__$start_lsn`, `__$seqval`).

Never takes the row before an update for the row after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

from tidegate.core.log import REFUSED
from tidegate.core.ports.envelope import RowEnvelope
from tidegate.core.schema import Column, Kind, Schema
from tidegate.dialects.spark import Spark
from tidegate.envelopes import _operations as operations

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

OPERATION, START, WITHIN = "__$operation", "__$start_lsn", "__$seqval"
BEFORE, AFTER = 3, 4
BEFORE_KEYS = "__tidegate_before_keys"
MOVED = (
    "it changes the stream's key, and no event deletes the old row; read the capture instance itself "
    "(`source: {connection: …, capture_instance: …}`)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlserverCdc(RowEnvelope):
    """Rows of `cdc.fn_cdc_get_all_changes_…` or of a change table, the LSNs as bytes or hexadecimal text.

    Source: SQL Server documentation, "cdc.<capture_instance>_CT": 1 delete, 2 insert, 3 before, 4 after an update.

    Args:
        key: the stream's.
    """

    kind: ClassVar[str] = "sqlserver_cdc"

    key: tuple[str, ...] = field(default=(), metadata={"given": True})

    def keyed_by(self, key: Sequence[str]) -> SqlserverCdc:
        """See `Envelope`: a table without a clustered index logs a changed key as an update."""
        return replace(self, key=tuple(key))

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
        after = self._checked(rows, schema).where(f"{number} IS NULL OR {number} <> {BEFORE}")
        return operations.events(after, schema, operation=word, order=order, unordered=operations.unordered(lsn))

    def _checked(self, rows: DataFrame, schema: Schema) -> DataFrame:
        """The same, of which updates of another key than before are refused, if the row before is among them."""
        spark = Spark()
        number, *place = (spark.quote(name) for name in (OPERATION, START, WITHIN))
        names = [spark.quote(name) for name in self.key if schema.find(name) is not None]
        if not names:
            return rows
        key = f"struct({', '.join(names)})"
        before = f"collect_set(CASE WHEN {number} = {BEFORE} THEN {key} END) OVER (PARTITION BY {', '.join(place)})"
        moved = f"{number} = {AFTER} AND size({BEFORE_KEYS}) > 0 AND NOT array_contains({BEFORE_KEYS}, {key})"
        others = [spark.quote(name) for name in rows.columns if name != REFUSED]
        found = rows.selectExpr(*others, REFUSED, f"{before} AS {BEFORE_KEYS}")
        reason = f"coalesce({REFUSED}, CASE WHEN {moved} THEN {spark.string(MOVED)} END) AS {REFUSED}"
        return found.selectExpr(*others, reason)


def _hexadecimal(column: Column) -> str:
    name = Spark().quote(column.name)
    return f"hex({name})" if column.type.kind is Kind.BINARY else f"upper(regexp_replace({name}, '^0[xX]', ''))"
