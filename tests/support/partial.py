"""An envelope of the tests: plain rows that also say which columns they do not carry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tidegate.core.log import UNKNOWN
from tidegate.core.ports.envelope import RowEnvelope
from tidegate.core.schema import Schema
from tidegate.envelopes import _operations as operations
from tidegate.envelopes.rows import Rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SEQUENCE = ("lsn", "place")


@dataclass(frozen=True, slots=True, kw_only=True)
class Partial(RowEnvelope):
    """Rows of `operation`, `lsn`, `place` and `unknown`, an array of names."""

    kind: ClassVar[str] = "partial"
    messages: ClassVar[bool] = False

    def schema(self, columns: Schema) -> Schema:
        return operations.without(columns, ("operation", "unknown", *SEQUENCE))

    def events(self, rows: DataFrame, columns: Schema, schema: Schema) -> DataFrame:
        # The names travel with their event as one more column of the envelope of plain rows.
        wide = Schema(columns=(*schema.columns, *(column for column in columns if column.name == "unknown")))
        found = Rows(sequence=SEQUENCE).events(rows, columns, wide).drop(UNKNOWN)
        names = f"coalesce(from_json(unknown, 'array<string>'), array()) AS {UNKNOWN}"
        return found.selectExpr("*", names).drop("unknown")
