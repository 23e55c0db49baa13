"""Types of columns in files, and the common type of a column across files.

A type is never used for a value that it could change.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
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
    from pyarrow import types as is_  # type: ignore[import-untyped]  # noqa: PLC0415 - only where such files are read

    if is_.is_dictionary(kind):
        return of_arrow(kind.value_type)
    if is_.is_list(kind) or is_.is_large_list(kind):
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
        (TEXT, (is_.is_string, is_.is_large_string)),
        (BINARY, (is_.is_binary, is_.is_large_binary, is_.is_fixed_size_binary)),
        (DATE, (is_.is_date,)),
    ):
        if any(test(kind) for test in tests):
            return found
    return None


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
            elif before != kind and not widens(kind, before):
                raise SchemaRefused(
                    f"column {name!r} is {before} in {where[name]} and {kind} in {file}",
                    hint="Correct one of them, declare the type in `source: {columns: …}`, or load them with two "
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
    return old == new or old.kind is Kind.TEXT or whole or new.kind is Kind.JSON or widens(old, new)
