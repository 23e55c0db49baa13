"""Makes one Arrow table of the records that an API answers, by a rule that changes no value.

| a record's value | column |
|---|---|
| true, false | boolean |
| whole numbers | bigint |
| numbers with a fraction, also mixed with whole ones | double |
| decimals, dates, times and bytes of Python | decimal(38,9), date, timestamp or timestamptz, binary |
| texts, UUIDs | text; a text is never taken for a number or a time |
| objects and lists | text: compact JSON, as they came |
| nothing but NULL | no column: its type is unknown until a value comes |

What `columns:` states wins over all of that.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import simplejson  # type: ignore[import-untyped]

from tidegate.core.schema import Type
from tidegate.errors import SchemaRefused, SourceError
from tidegate.sources.shared.reference.values import TextRules, arrow_type, of_texts

CHUNK = 20_000
LONGEST = 2**63
EXACT = 2**53
"""Up to which every whole number is a double."""
DECIMAL = pa.decimal128(38, 9)
"""Of decimals whose type is not stated, as dlt has it, so that the next answer's are of the same type."""
RULES = TextRules(base64=True)


def table_of(pages: Iterable[Any], stated: Mapping[str, Type]) -> pa.Table:
    """One table of all pages.

    Rows: one a record, in the order of the answers; columns by name, in the order in which they came first.

    Args:
        pages: records as mappings, lists of them, or tables of Arrow or pandas.
        stated: types under `columns:`.

    Raises:
        SchemaRefused: values of one column have no common type, or one does not fit the stated type.
        SourceError: an item is no record.
    """
    chunks = [_chunk(records, stated) for records in _chunked(pages)]
    return _united(chunks) if chunks else pa.table({})


def _chunked(pages: Iterable[Any]) -> Iterator[list[Mapping[str, Any]] | pa.Table]:
    waiting: list[Mapping[str, Any]] = []
    for page in pages:
        for item in page if isinstance(page, list) else [page]:
            table = _as_table(item)
            if table is not None:
                if waiting:
                    yield waiting
                    waiting = []
                yield table
            elif isinstance(item, Mapping):
                waiting.append(item)
            else:
                raise SourceError(
                    f"the API's rows should be records, and one is {type(item).__name__}",
                    hint="Select the records with `records:`, such as `records: $.data`, or yield mappings.",
                )
        if len(waiting) >= CHUNK:
            yield waiting
            waiting = []
    if waiting:
        yield waiting


def _as_table(item: Any) -> pa.Table | None:
    if isinstance(item, pa.Table):
        return item
    if isinstance(item, pa.RecordBatch):
        return pa.Table.from_batches([item])
    if hasattr(item, "columns") and hasattr(item, "dtypes"):
        return pa.Table.from_pandas(item, preserve_index=False)
    return None


def _chunk(records: list[Mapping[str, Any]] | pa.Table, stated: Mapping[str, Type]) -> pa.Table:
    if isinstance(records, pa.Table):
        return records
    names = dict.fromkeys(name for record in records for name in record)
    columns = {}
    for name in names:
        values = [record.get(name) for record in records]
        if name in stated:
            columns[str(name)] = _stated(str(name), values, stated[name])
        elif any(value is not None for value in values):
            columns[str(name)] = _inferred(str(name), values)
    if not columns:
        raise SchemaRefused(
            "the API's records have no values yet, so the types of their columns are unknown",
            hint="State them: `source: {columns: {id: bigint}}`.",
        )
    return pa.table(columns)


def _inferred(name: str, values: list[Any]) -> pa.Array:
    kinds = {_kind(value) for value in values if value is not None}
    if kinds <= {int, float}:
        return _numbers(name, values, fractions=float in kinds)
    if len(kinds) > 1:
        one, other = sorted(WORDS[kind] for kind in kinds)[:2]
        raise _mixed(name, one, other, "text")
    (kind,) = kinds
    if kind is str:
        return pa.array([None if value is None else _text(value) for value in values], pa.string())
    if kind is datetime:
        zoned = {value.tzinfo is not None for value in values if value is not None}
        if len(zoned) > 1:
            raise _mixed(name, "times with a zone", "times without one", "timestamptz")
        return pa.array(values, pa.timestamp("us", "UTC" if zoned.pop() else None))
    try:
        return pa.array(values, DECIMAL if kind is Decimal else None)
    except pa.ArrowInvalid as error:
        raise _mixed(name, f"decimals that {DECIMAL} does not hold", "others", "decimal(38,18)") from error


def _numbers(name: str, values: list[Any], *, fractions: bool) -> pa.Array:
    whole = [value for value in values if isinstance(value, int)]
    if not fractions:
        if any(not -LONGEST <= value < LONGEST for value in whole):
            raise _mixed(name, "whole numbers", "numbers longer than 64 bits", "decimal(38,0)")
        return pa.array(values, pa.int64())
    if any(abs(value) > EXACT for value in whole):
        raise _mixed(name, "whole numbers too long for a double", "numbers with a fraction", "decimal(38,6)")
    return pa.array([None if value is None else float(value) for value in values], pa.float64())


WORDS: dict[type, str] = {
    bool: "booleans",
    int: "whole numbers",
    float: "numbers with a fraction",
    Decimal: "decimals",
    datetime: "times",
    date: "dates",
    bytes: "bytes",
    str: "texts",
}


def _kind(value: Any) -> type:
    for kind in WORDS:  # bool before int, datetime before date
        if isinstance(value, kind):
            return float if kind is Decimal and isinstance(value, Number) else kind
    return str


class Number(Decimal):
    """A number with a fraction as it stands in JSON: exact where a decimal is stated, else a double."""


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):  # in a text, as JSON has them
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping | list | tuple):
        words = {"separators": (",", ":"), "ensure_ascii": False, "use_decimal": True, "encoding": None}
        return str(simplejson.dumps(value, default=_text, **words))
    return str(value)


def _stated(name: str, values: list[Any], kind: Type) -> pa.Array:
    wanted = arrow_type(kind)
    if all(value is None or isinstance(value, bytes) for value in values) and pa.types.is_binary(wanted):
        return pa.array(values, wanted)
    texts = pa.array([None if value is None else _written(value) for value in values], pa.string())
    try:
        return of_texts(texts, kind, RULES)
    except (ValueError, ArithmeticError, LookupError) as error:
        raise SchemaRefused(
            f"column {name!r} of the API has a value that is no {kind}",
            hint=f"Load it as it is with `source: {{columns: {{{name}: text}}}}`, or state a type that holds it.",
            column=name,
        ) from error


def _written(value: Any) -> str:
    """A value as the text of it that a file of JSON would hold."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, float):
        return repr(value)
    return str(value) if isinstance(value, uuid.UUID) else _text(value)


def _mixed(name: str, one: str, other: str, word: str) -> SchemaRefused:
    return SchemaRefused(
        f"column {name!r} of the API holds {one} and {other}",
        hint=f"State a type that holds both: `source: {{columns: {{{name}: {word}}}}}`.",
        column=name,
    )


def _united(chunks: list[pa.Table]) -> pa.Table:
    """All rows in one table; a column that one chunk has whole numbers of and another fractions is a double in both."""
    names = dict.fromkeys(name for chunk in chunks for name in chunk.column_names)
    columns = {}
    for name in names:
        parts = [chunk.column(name) if name in chunk.column_names else pa.nulls(len(chunk)) for chunk in chunks]
        types = {part.type for part in parts if not pa.types.is_null(part.type)}
        wanted = types.pop() if len(types) == 1 else _common(name, types)
        columns[name] = pa.chunked_array([_cast(name, part, wanted) for part in parts], wanted)
    return pa.table(columns)


def _common(name: str, types: set[pa.DataType]) -> pa.DataType:
    if types == {pa.int64(), pa.float64()}:
        return pa.float64()
    if all(pa.types.is_decimal(kind) for kind in types):
        scale = max(kind.scale for kind in types)
        whole = max(kind.precision - kind.scale for kind in types)
        if scale + whole <= 38:
            return pa.decimal128(scale + whole, scale)
    one, other = sorted(map(str, types))[:2]
    raise _mixed(name, one, other, "text")


def _cast(name: str, part: Any, wanted: pa.DataType) -> pa.Array:
    array = part.combine_chunks() if isinstance(part, pa.ChunkedArray) else part
    try:
        return array.cast(wanted)
    except pa.ArrowInvalid as error:  # a whole number that no double is
        raise _mixed(name, "whole numbers too long for a double", "numbers with a fraction", "decimal(38,6)") from error


def like(table: pa.Table, before: pa.Schema | None) -> pa.Table:
    """The rows with the columns of an earlier answer, too: a column that no record has a value of stays what it was."""
    if before is None:
        return table
    columns = {field.name: pa.nulls(len(table), field.type) for field in before}
    for name in table.column_names:
        part = table.column(name)
        known = columns[name].type if name in columns else part.type
        columns[name] = _cast(name, part, pa.float64()) if {part.type, known} == {pa.int64(), pa.float64()} else part
    return pa.table(columns)
