"""Types of columns in files, and the common type of a column across files.

A type is never used for a value that it could change.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.core.schema import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    REAL,
    TEXT,
    TIMESTAMP,
    TIMESTAMPTZ,
    Column,
    Kind,
    Schema,
    Type,
    array,
    decimal,
    widens,
)
from tidegate.dialects.shared.type_names import parse_type
from tidegate.errors import SchemaRefused

WORDS = {"timestamptz": TIMESTAMPTZ, "float": REAL}
SPARK = {
    "tinyint": INT,
    "smallint": INT,
    "int": INT,
    "bigint": BIGINT,
    "float": REAL,
    "double": DOUBLE,
    "boolean": BOOLEAN,
    "string": TEXT,
    "binary": BINARY,
    "date": DATE,
    "timestamp": TIMESTAMPTZ,
    "timestamp_ntz": TIMESTAMP,
}
DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
BEFORE = "the files loaded before"
STATED = "`columns:`"


def stated(columns: Mapping[str, str]) -> dict[str, Type]:
    """The types under `columns:`. Raises ConfigError."""
    return {name: WORDS.get(text.strip().lower()) or parse_type(name, text) for name, text in columns.items()}


def of_spark(text: str) -> Type | None:
    """The type of Spark's name for it; None for one that has to be kept as JSON.

    Example:
        >>> [str(of_spark(text)) for text in ("decimal(9,2)", "array<int>", "struct<a:int>")]
        ['decimal(9,2)', 'array<int>', 'None']
    """
    if text.startswith("array<"):
        element = of_spark(text[6:-1])
        return array(element) if element is not None and element.kind is not Kind.ARRAY else None
    if found := DECIMAL.fullmatch(text):
        return decimal(int(found[1]), int(found[2]))
    if text.startswith(("struct<", "map<", "array<")):
        return None
    return SPARK.get(text, TEXT)


def of_arrow(kind: Any) -> Type | None:  # noqa: PLR0911 - one answer a type
    """The type that Spark reads an Arrow type of a file as; None for one that has no exact type here."""
    import pyarrow as pa  # type: ignore[import-untyped]  # noqa: PLC0415 - only where such files are read
    from pyarrow import types as is_  # noqa: PLC0415 - as above

    if is_.is_dictionary(kind):
        return of_arrow(kind.value_type)
    if isinstance(kind, pa.BaseExtensionType):
        return None if isinstance(kind, pa.UuidType) else of_arrow(kind.storage_type)
    if is_.is_list(kind) or is_.is_large_list(kind) or is_.is_fixed_size_list(kind):
        element = of_arrow(kind.value_type)
        return array(element) if element is not None and element.kind is not Kind.ARRAY else None
    if is_.is_decimal(kind):
        return decimal(kind.precision, kind.scale) if kind.precision <= 38 and kind.scale >= 0 else None
    if is_.is_timestamp(kind):
        return None if kind.unit == "ns" else TIMESTAMPTZ if kind.tz else TIMESTAMP
    if is_.is_uint64(kind):
        return decimal(20, 0)
    for found, tests in (
        (BOOLEAN, (is_.is_boolean,)),
        (INT, (is_.is_int8, is_.is_int16, is_.is_int32, is_.is_uint8, is_.is_uint16)),
        (BIGINT, (is_.is_int64, is_.is_uint32)),
        (REAL, (is_.is_float32,)),
        (DOUBLE, (is_.is_float64,)),
        (TEXT, (is_.is_string, is_.is_large_string, is_.is_string_view)),
        (BINARY, (is_.is_binary, is_.is_large_binary, is_.is_binary_view, is_.is_fixed_size_binary)),
        (DATE, (is_.is_date,)),
    ):
        if any(test(kind) for test in tests):
            return found
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoding:
    """A column of Parquet that Spark has no type for, but reads as what its values are stored as.

    Args:
        stored: Spark's name of that type.
        kind: what the values are.
        value: in SQL, of a stored value `{0}`; NULL where it has digits that the type does not hold.
        cut: the same without such digits.
    """

    stored: str
    kind: Type
    value: str
    cut: str


CLOCK = "date_format(timestamp_micros({}), 'HH:mm:ss.SSSSSS')"
HEXADECIMAL = "regexp_replace(lower(hex({0})), '(.{{8}})(.{{4}})(.{{4}})(.{{4}})(.{{12}})', '$1-$2-$3-$4-$5')"
HALF_BITS = "CAST(conv(concat(hex(substr({0}, 2, 1)), hex(substr({0}, 1, 1))), 16, 10) AS int)"
HALF = (
    f"CAST(if({HALF_BITS} >= 32768, -1, 1) * CASE shiftright({HALF_BITS}, 10) & 31 "
    f"WHEN 31 THEN if({HALF_BITS} & 1023 = 0, double('Infinity'), double('NaN')) "
    f"WHEN 0 THEN ({HALF_BITS} & 1023) * power(2D, -24) "
    f"ELSE (1024 + ({HALF_BITS} & 1023)) * power(2D, (shiftright({HALF_BITS}, 10) & 31) - 25) END AS float)"
)


def encoding_of(kind: Any) -> Encoding | None:
    """How a column of an Arrow type that `of_arrow` has no type for is read; None for one that cannot be."""
    import pyarrow as pa  # noqa: PLC0415 - only where such files are read
    from pyarrow import types as is_  # noqa: PLC0415 - as above

    if is_.is_dictionary(kind):
        return encoding_of(kind.value_type)
    if isinstance(kind, pa.UuidType):
        return Encoding(stored="binary", kind=TEXT, value=HEXADECIMAL, cut=HEXADECIMAL)
    if is_.is_float16(kind):
        return Encoding(stored="binary", kind=REAL, value=HALF, cut=HALF)
    if is_.is_timestamp(kind) and kind.unit == "ns":
        made, found = ("timestamp_micros({})", TIMESTAMPTZ) if kind.tz else (LOCAL, TIMESTAMP)
    elif is_.is_time(kind):
        made, found = CLOCK, TEXT
    else:
        return None
    if kind.unit == "ns":
        micros, cut = "{0} div 1000", "({0} - pmod({0}, 1000)) div 1000"
        value = f"CASE WHEN pmod({{0}}, 1000) = 0 THEN {made.format(micros)} END"
        return Encoding(stored="bigint", kind=found, value=value, cut=made.format(cut))
    value = made.format("{0}" if kind.unit == "us" else "CAST({0} AS bigint) * 1000")
    return Encoding(stored="bigint" if kind.unit == "us" else "int", kind=found, value=value, cut=value)


LOCAL = "CAST(timestamp_micros({}) AS timestamp_ntz)"
"""The session's zone is UTC, so that the cast keeps the time as it is."""


def nested_in_spark(kind: Any) -> str | None:
    """Spark's name of a nested Arrow type; None where a value in it has no exact type."""
    from pyarrow import types as is_  # noqa: PLC0415 - only where such files are read

    if is_.is_struct(kind):
        parts = [(field.name.replace("`", "``"), nested_in_spark(field.type)) for field in kind]
        return None if any(part is None for _, part in parts) else _wrapped("struct", (f"`{n}`: {p}" for n, p in parts))
    if is_.is_map(kind):
        inner = [nested_in_spark(kind.key_type), nested_in_spark(kind.item_type)]
    elif is_.is_list(kind) or is_.is_large_list(kind) or is_.is_fixed_size_list(kind):
        inner = [nested_in_spark(kind.value_type)]
    else:
        found = of_arrow(kind)
        return found.spark if found is not None else None
    names = [each for each in inner if each is not None]
    return _wrapped("map" if len(inner) == 2 else "array", names) if len(names) == len(inner) else None


def _wrapped(name: str, parts: Iterable[str]) -> str:
    return f"{name}<{', '.join(parts)}>"


AVRO = {
    "boolean": BOOLEAN,
    "int": INT,
    "long": BIGINT,
    "float": REAL,
    "double": DOUBLE,
    "string": TEXT,
    "bytes": BINARY,
    "fixed": BINARY,
    "enum": TEXT,
}
AVRO_LOGICAL = {
    "date": DATE,
    "timestamp-millis": TIMESTAMPTZ,
    "timestamp-micros": TIMESTAMPTZ,
    "local-timestamp-millis": TIMESTAMP,
    "local-timestamp-micros": TIMESTAMP,
}


def of_avro(kind: Any) -> Type | None:
    """The type that Spark reads a type of an Avro schema as; None for one that it has no exact type for."""
    if isinstance(kind, list):
        choices = [each for each in kind if each != "null"]
        return of_avro(choices[0]) if len(choices) == 1 else None
    if not isinstance(kind, dict):
        return AVRO.get(str(kind))
    if kind.get("logicalType") == "decimal":
        return decimal(kind["precision"], kind.get("scale", 0)) if kind["precision"] <= 38 else None
    if kind.get("logicalType") in AVRO_LOGICAL:
        return AVRO_LOGICAL[kind["logicalType"]]
    if kind.get("type") == "array":
        element = of_avro(kind["items"])
        return array(element) if element is not None and element.kind is not Kind.ARRAY else None
    return AVRO.get(str(kind.get("type")))


def merged_schema(shapes: Iterable[tuple[str, Mapping[str, Type]]], fixed: Mapping[str, Type]) -> Schema:
    """The columns of all files by name, in the order in which they come, each of a type that holds every file's values.

    Args:
        shapes: a file and the types of its columns.
        fixed: types that are stated, whatever the files have.

    Raises:
        SchemaRefused: two files have types of a column that none holds; both are named.
    """
    types: dict[str, Type] = {}
    where: dict[str, str] = {}
    for file, shape in shapes:
        for name, kind in shape.items():
            before = types.get(name)
            if name in fixed:
                types[name] = fixed[name]
            elif before is None or widens(before, kind):
                types[name], where[name] = kind, file
            elif before != kind and not widens(kind, before) and not by_value(kind, before):
                texts = castable(before, TEXT) and castable(kind, TEXT)
                raise SchemaRefused(
                    f"column {name!r} is {before} in {where[name]} and {kind} in {file}",
                    hint=f"Read it as text: `source: {{columns: {{{name}: text}}}}`, correct one of them, or load them "
                    "with two streams."
                    if texts
                    else "Correct one of them, declare the type in `source: {columns: …}`, or load them with two "
                    "streams.",
                    column=name,
                )
    return Schema(columns=tuple(Column(name=name, type=kind) for name, kind in types.items()))


GUESSES = (
    ("b", BOOLEAN),
    ("ij", BIGINT),
    ("ijl", decimal(38, 0)),
    ("in", DOUBLE),
    ("d", DATE),
    ("dt", TIMESTAMP),
    ("z", TIMESTAMPTZ),
)
"""What a column of texts is whose values are all of these kinds, see `dialects.spark.exact_text.kind_of`."""
GUESSED = frozenset(kind for _, kind in GUESSES)
UNQUOTED = frozenset({Kind.BOOLEAN, Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT})
"""Of JSON: what is inferred of values without quotes."""


def guessed(kinds: Iterable[str]) -> Type:
    """The type of a column of texts, of which none changes by it: text where no other holds all of them.

    Example:
        >>> [str(guessed(kinds)) for kinds in ("i", "dt", "id", "")]
        ['bigint', 'timestamp_ntz', 'string', 'string']
    """
    found = set(kinds)
    return next((kind for letters, kind in GUESSES if found and found <= set(letters)), TEXT)


def check_places(before: Sequence[str], stated: Sequence[str]) -> None:
    """Of files without a header, whose columns are known by their places alone: those of earlier loads keep theirs.

    Raises:
        SchemaRefused: with what is stated, values would come into other columns.
    """
    known = [name for name in stated if name in before]
    new = [name for name in stated if name not in before]
    in_order = known == [name for name in before if name in known]
    if in_order and (not new or list(stated) == [*before, *new]):
        return
    raise SchemaRefused(
        f"files without a header were read as {', '.join(before)}, and `columns:` now states {', '.join(stated)}",
        hint="Keep the earlier columns in their order, and add new ones at the end. Files with other columns, or the "
        "same in another order, need a header or a stream of their own.",
    )


def castable(old: Type, new: Type) -> bool:
    """Whether a cast keeps every value or ends with an error.

    Example:
        >>> castable(TEXT, DATE), castable(INT, BIGINT), castable(decimal(9, 4), decimal(9, 2))
        (True, True, False)
    """
    whole = old.kind is Kind.INTEGER and new.kind is Kind.DECIMAL
    written = old.kind in (Kind.INTEGER, Kind.BOOLEAN, Kind.DATE) and new.kind is Kind.TEXT
    return old == new or old.kind is Kind.TEXT or whole or written or new.kind is Kind.JSON or widens(old, new)


def by_value(old: Type, new: Type) -> bool:
    """Whether each value of a type of numbers can be looked at, whether the other type holds it exactly.

    Example:
        >>> by_value(DOUBLE, BIGINT), by_value(decimal(9, 2), decimal(12, 4)), by_value(REAL, decimal(9, 2))
        (True, True, False)
    """
    kinds = {old.kind, new.kind}
    short = any(each.kind is Kind.FLOAT and each.bits == 32 for each in (old, new))
    return kinds <= {Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT} and not (short and Kind.DECIMAL in kinds)


def exactly(sql: str, old: Type, new: Type) -> str:
    """A number as the other type; NULL where that is another number.

    A cast from a double ends at the greatest `bigint`, which cast back is the double again, and takes its shortest text
    for a decimal, which is another number where it leaves digits out.
    """
    value = f"try_cast({sql} AS {new.spark})"
    same = f"try_cast({value} AS {old.spark}) = {sql}"
    if Kind.FLOAT in (old.kind, new.kind) and old.kind is not new.kind:
        double = f"CAST({sql if old.kind is Kind.FLOAT else value} AS double)"
        limit = f"{2**63}D" if Kind.INTEGER in (old.kind, new.kind) else "1e15D"
        same = f"{double} >= -{limit} AND {double} < {limit} AND {same}"
    return f"CASE WHEN {same} THEN {value} END"
