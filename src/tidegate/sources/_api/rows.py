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
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Self

import pyarrow as pa  # type: ignore[import-untyped]
import simplejson  # type: ignore[import-untyped]

from tidegate.core.schema import Type
from tidegate.errors import SchemaRefused, SourceError
from tidegate.sources.shared.deep import deep
from tidegate.sources.shared.reference.values import TextRules, arrow_type, as_double, of_arrow, of_texts

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
    return _united(chunks, stated) if chunks else pa.table({})


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
    """The table that an item is; None for what may be a record."""
    if isinstance(item, pa.Table):
        return _plain_table(item)
    if isinstance(item, pa.RecordBatch):
        return _plain_table(pa.Table.from_batches([item]))
    if isinstance(item, Mapping) or not (hasattr(item, "columns") and hasattr(item, "dtypes")):
        return None
    _refuse_duplicates([str(name) for name in item.columns])
    try:
        return _plain_table(pa.Table.from_pandas(item, preserve_index=False))
    except (pa.ArrowException, ValueError, TypeError, AttributeError) as error:
        column = next((name for name in map(str, item.columns) if f"column {name} " in str(error)), None)
        raise SchemaRefused(
            f"a frame of the API cannot become a table: {'a column' if column is None else f'column {column!r}'} has "
            "values without a common type",
            hint="Give each column of the frame one type in the resource, such as `frame.astype({'v': 'string'})`.",
            column=column,
        ) from error


def _plain_table(table: pa.Table) -> pa.Table:
    """A table with each name once, and no type beside those that the files have anyhow."""
    _refuse_duplicates(table.column_names)
    for number, (name, kind) in enumerate(zip(table.column_names, table.schema.types, strict=True)):
        if pa.types.is_timestamp(kind) and kind.unit == "ns":
            try:
                column = table.column(number).cast(pa.timestamp("us", kind.tz))
            except pa.ArrowInvalid as error:
                raise SchemaRefused(
                    f"column {name!r} of the API has times with nanoseconds, and tables have microseconds",
                    hint=f"Round them in the resource, such as `frame[{name!r}].dt.floor('us')`.",
                    column=name,
                ) from error
            table = table.set_column(number, name, column)
    return table


def _refuse_duplicates(names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise SchemaRefused(
                f"the API has two columns of the name {name!r} in one table or record",
                hint="Rename one of them in the resource, or leave it out.",
                column=name,
            )
        seen.add(name)


def _chunk(records: list[Mapping[str, Any]] | pa.Table, stated: Mapping[str, Type]) -> pa.Table:
    if isinstance(records, pa.Table):
        return records
    names = dict.fromkeys(name for record in records for name in record)
    _refuse_duplicates(map(str, names))
    columns = {}
    for each in names:
        name, values = str(each), [_python(record.get(each)) for record in records]
        if not _is_text(name):
            raise SchemaRefused(f"the API has a name with {HALF}", hint=WITHOUT)
        if name in stated:
            columns[name] = _stated(name, values, stated[name])
        elif any(value is not None for value in values):
            columns[name] = _inferred(name, values)
    if not columns:
        raise SchemaRefused(
            "the API's records have no values yet, so the types of their columns are unknown",
            hint="State them: `source: {columns: {id: bigint}}`.",
        )
    return pa.table(columns)


HALF = "half of a surrogate pair, which is no character"
WITHOUT = "Leave it out in the request or in the resource, or have it repaired where it is written."


def _is_text(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= each <= "\udfff" for each in text)


def _python(value: Any) -> Any:
    """A value of NumPy or pandas as the value of Python that it stands for."""
    if value is None or type(value) in (str, int, float, bool):
        return value
    package = type(value).__module__.partition(".")[0]
    if package == "pandas" and type(value).__name__ in ("NAType", "NaTType"):
        return None
    return value.item() if package == "numpy" and getattr(value, "ndim", None) == 0 else value


def _texts(name: str, values: Iterable[str | None]) -> pa.Array:
    try:
        return pa.array(values, pa.string())
    except UnicodeEncodeError as error:
        raise SchemaRefused(f"column {name!r} of the API has a text with {HALF}", hint=WITHOUT, column=name) from error


def _inferred(name: str, values: list[Any]) -> pa.Array:
    kinds = {_kind(value) for value in values if value is not None}
    if kinds <= {int, float}:
        return _numbers(name, values, fractions=float in kinds)
    if len(kinds) > 1:
        one, other = sorted(WORDS[kind] for kind in kinds)[:2]
        raise _mixed(name, one, other, "text")
    (kind,) = kinds
    if kind is str:
        return _texts(name, [None if value is None else _text(value) for value in values])
    if kind is datetime:
        zoned = {value.tzinfo is not None for value in values if value is not None}
        if len(zoned) > 1:
            raise _mixed(name, "times with a zone", "times without one", "timestamptz")
        if any(getattr(value, "nanosecond", 0) for value in values):
            raise _unfit(name, "times with nanoseconds", "text")
        return pa.array(values, pa.timestamp("us", "UTC" if zoned.pop() else None))
    try:
        return pa.array(values, DECIMAL if kind is Decimal else None)
    except pa.ArrowInvalid as error:
        raise _unfit(name, f"decimals that {DECIMAL} does not hold", "decimal(38,18)") from error


def _numbers(name: str, values: list[Any], *, fractions: bool) -> pa.Array:
    whole = [value for value in values if isinstance(value, int)]
    if not fractions:
        if any(not -LONGEST <= value < LONGEST for value in whole):
            raise _mixed(name, "whole numbers", "numbers longer than 64 bits", "decimal(38,0)")
        return pa.array(values, pa.int64())
    if any(abs(value) > EXACT for value in whole):
        raise _mixed(name, "whole numbers too long for a double", "numbers with a fraction", "decimal(38,6)")
    try:
        return pa.array([None if value is None else _double(value) for value in values], pa.float64())
    except ValueError as error:
        raise _unfit(name, "a number beyond the range of a double", "text") from error


def _double(value: float | Number) -> float:
    """By the rule of a text that is to be a double."""
    return as_double(str(value), RULES) if isinstance(value, Number) else float(value)


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

    __slots__ = ("_written",)
    _written: str

    def __new__(cls, text: str) -> Self:
        made = super().__new__(cls, text)
        made._written = text
        return made

    def __str__(self) -> str:
        return self._written


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):  # in a text, as JSON has them
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping | list | tuple):
        words = {"separators": (",", ":"), "ensure_ascii": False, "use_decimal": True, "encoding": None}
        return str(deep(lambda: simplejson.dumps(value, default=_text, **words)))
    return str(value)


def _stated(name: str, values: list[Any], kind: Type) -> pa.Array:
    wanted = arrow_type(kind)
    if all(value is None or isinstance(value, bytes) for value in values) and pa.types.is_binary(wanted):
        return pa.array(values, wanted)
    texts = _texts(name, [None if value is None else _written(value) for value in values])
    try:
        return of_texts(texts, kind, RULES)
    except (ValueError, ArithmeticError, LookupError) as error:
        raise _no_value(name, kind) from error


def _no_value(name: str, kind: Type) -> SchemaRefused:
    return SchemaRefused(
        f"column {name!r} of the API has a value that is no {kind}",
        hint=f"Load it as it is with `source: {{columns: {{{name}: text}}}}`, or state a type that holds it.",
        column=name,
    )


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
    return _unfit(name, f"{one} and {other}", word, "State a type that holds both")


def _unfit(name: str, what: str, word: str, how: str = "State a type that holds them") -> SchemaRefused:
    return SchemaRefused(
        f"column {name!r} of the API holds {what}",
        hint=f"{how}: `source: {{columns: {{{name}: {word}}}}}`.",
        column=name,
    )


def _united(chunks: list[pa.Table], stated: Mapping[str, Type]) -> pa.Table:
    """All rows in one table; a column whose chunks have several types has the stated one, or the one that holds all."""
    names = dict.fromkeys(name for chunk in chunks for name in chunk.column_names)
    columns = {}
    for name in names:
        parts = [chunk.column(name) if name in chunk.column_names else pa.nulls(len(chunk)) for chunk in chunks]
        types = {part.type for part in parts if not pa.types.is_null(part.type)}
        if len(types) > 1 and name in stated:
            parts = [_as_stated(name, part, stated[name]) for part in parts]
            wanted = arrow_type(stated[name])
        else:
            wanted = types.pop() if len(types) == 1 else _common(name, types)
        columns[name] = pa.chunked_array([_cast(name, part, wanted) for part in parts], wanted)
    return pa.table(columns)


def _as_stated(name: str, part: Any, kind: Type) -> pa.Array:
    """A part of a column in the type that is stated for it."""
    array = part.combine_chunks() if isinstance(part, pa.ChunkedArray) else part
    try:
        return array if pa.types.is_null(array.type) else of_arrow(array, kind, RULES)
    except (ValueError, ArithmeticError, LookupError, pa.ArrowException) as error:
        raise _no_value(name, kind) from error


FAMILIES: tuple[Callable[[pa.DataType], bool], ...] = (
    lambda kind: pa.types.is_integer(kind) or pa.types.is_floating(kind),
    pa.types.is_decimal,
    lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind),
    lambda kind: pa.types.is_binary(kind) or pa.types.is_large_binary(kind),
    lambda kind: pa.types.is_timestamp(kind) and kind.tz is None,
    lambda kind: pa.types.is_timestamp(kind) and kind.tz is not None,
)
"""Types that have a common one which changes no value of theirs."""


def _common(name: str, types: set[pa.DataType]) -> pa.DataType:
    found = {kind.value_type if pa.types.is_dictionary(kind) else kind for kind in types}
    if not types:
        return pa.null()
    family = next((each for each in FAMILIES if all(map(each, found))), None)
    if family is FAMILIES[-1]:
        return pa.timestamp("us", "UTC")
    if family is not None:
        fields = [pa.schema([("", pa.string() if family is FAMILIES[2] else kind)]) for kind in sorted(found, key=str)]
        with suppress(pa.ArrowException):
            common = pa.unify_schemas(fields, promote_options="permissive").field(0).type
            if not pa.types.is_decimal256(common):
                return common
    one, other = sorted(map(str, types))[:2]
    raise _mixed(name, one, other, "text")


def _cast(name: str, part: Any, wanted: pa.DataType) -> pa.Array:
    array = part.combine_chunks() if isinstance(part, pa.ChunkedArray) else part
    try:
        return array.cast(wanted)
    except pa.ArrowException as error:
        if pa.types.is_floating(wanted):
            one, other = "whole numbers too long for a double", "numbers with a fraction"
            raise _mixed(name, one, other, "decimal(38,6)") from error
        one, other = sorted(map(str, (array.type, wanted)))
        raise _mixed(name, one, other, "text") from error


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
