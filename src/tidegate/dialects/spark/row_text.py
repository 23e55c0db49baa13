"""Spark expressions that store a whole row as one text, from which the same row can be restored.

Used for quarantined rows. Keeps every digit, and distinguishes an empty string from NULL. A column may have been
widened since: a text is the same value of the wider type.
"""

from __future__ import annotations

from tidegate.core.quarantine import FIELDS, ROW, RowText
from tidegate.core.schema import Column, Kind, Schema
from tidegate.core.wire_format import WireFormat
from tidegate.dialects.spark import LONG_STRINGS, Spark

KEEP_NULLS = "map('ignoreNullFields', 'false')"
STRICT = f"map('mode', 'FAILFAST', {LONG_STRINGS})"


def row_text(columns: Schema) -> RowText:
    """A row as JSON of canonical texts, and back; a column that a text does not have is NULL."""
    spark = Spark()
    quote = spark.quote
    fields = ", ".join(f"{spark.string(each.name)}, {_text(quote(each.name), each)}" for each in columns)
    types = ", ".join(f"{quote(each.name)} {'array<string>' if _listed(each) else 'string'}" for each in columns)
    return RowText(
        pack=f"to_json(named_struct({fields}), {KEEP_NULLS})",
        parse=f"from_json({ROW}, {spark.string(types)}, {STRICT})",
        values=tuple(f"{_value(f'{FIELDS}.{quote(each.name)}', each)} AS {quote(each.name)}" for each in columns),
    )


def _listed(column: Column) -> bool:
    return column.type.kind is Kind.ARRAY


def _text(value: str, column: Column) -> str:
    stored = column.type.stored
    if stored.kind is Kind.ARRAY and stored.element is not None:
        return f"transform({value}, x -> {_text('x', Column(name=column.name, type=stored.element))})"
    # Spark's text is the shortest that reads back as the same double; that of a float would be another double.
    return f"CAST(CAST({value} AS double) AS string)" if stored.kind is Kind.FLOAT else Spark().text(value, column)


def _value(text: str, column: Column) -> str:
    stored = column.type.stored
    if stored.kind is Kind.ARRAY and stored.element is not None:
        return f"transform({text}, x -> {_value('x', Column(name=column.name, type=stored.element))})"
    return Spark().decode(text, column, WireFormat.TEXT)
