"""Maps Oracle types to exact types.

Uses what the driver says of the columns of a result, so that queries and tables are described alike. A type whose
values could change is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.core import schema as types
from tidegate.core.schema import Column, Kind, Type, decimal
from tidegate.core.yaml_text import scalar
from tidegate.dialects.shared.type_names import parse_type
from tidegate.errors import SchemaRefused

UNBOUNDED = "NUMBER"
"""A number of any digits, which is kept as the text of all of them unless the project states a type."""
STATED = " stated"
"""Ends the label of a column whose type the project states."""
MOST = 38
NATIONAL = ("NCHAR", "NVARCHAR2")
WORDS: Mapping[str, tuple[str, Type]] = {
    "BINARY_DOUBLE": ("BINARY_DOUBLE", types.DOUBLE),
    "BINARY_FLOAT": ("BINARY_FLOAT", types.REAL),
    "CHAR": ("CHAR", types.TEXT),
    "DATE": ("DATE", types.TIMESTAMP),
    "NCHAR": ("NCHAR", types.TEXT),
    "NVARCHAR": ("NVARCHAR2", types.TEXT),
    "TIMESTAMP": ("TIMESTAMP", types.TIMESTAMP),
    "TIMESTAMP_LTZ": ("TIMESTAMP WITH LOCAL TIME ZONE", types.TIMESTAMPTZ),
    "TIMESTAMP_TZ": ("TIMESTAMP WITH TIME ZONE", types.TIMESTAMPTZ),
    "VARCHAR": ("VARCHAR2", types.TEXT),
}
"""By the driver's name of a type: Oracle's word for it, and the exact type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Native:
    """What the driver says of a column.

    Args:
        word: its name of the type, such as `TIMESTAMP_TZ`.
        digits: the precision of a number, or the length of bytes; 0 for any.
        scale: of a number, or the digits of a second.
    """

    word: str
    digits: int = 0
    scale: int = 0
    nullable: bool = True

    @classmethod
    def of(cls, info: Any) -> Native:
        """Of a column of a cursor's description."""
        word = info.type_code.name.removeprefix("DB_TYPE_")
        digits = info.internal_size if word == "RAW" else info.precision
        return cls(word=word, digits=digits or 0, scale=info.scale or 0, nullable=info.null_ok is not False)


def column_of(name: str, native: Native, override: str | None) -> Column | str:
    """The column, exactly; Oracle's word for its type where none keeps every value.

    Raises:
        SchemaRefused: a type is stated that would change values.
    """
    kind, label = _type(native)
    # Blanks alone are an empty text without them, and an empty text is NULL.
    nullable = native.nullable or native.word in ("CHAR", "NCHAR")
    if override is not None:
        kind, label = _stated(name, native, label, override), f"{label}{STATED}"
    elif kind is None:
        return label
    as_text = kind == types.TEXT and native.word == "NUMBER"
    return Column(name=name, type=kind, nullable=nullable, native=label, as_text=as_text)


def _stated(name: str, native: Native, label: str, override: str) -> Type:
    wanted = parse_type(name, override)
    number = native.word == "NUMBER" and (
        wanted.kind in (Kind.DECIMAL, Kind.INTEGER, Kind.BOOLEAN) or wanted == types.TEXT
    )
    day = native.word == "DATE" and wanted == types.DATE
    uuid = native.word == "RAW" and native.digits == 16 and wanted == types.UUID
    if not (number or day or uuid):
        raise SchemaRefused(
            f"column {name!r} of type {label} cannot be read as {override!r}: a NUMBER can be read as decimal(p,s), "
            "bigint, int, boolean or text, a DATE as date, and a RAW(16) as uuid",
            hint=f"Leave it out with `source: {{exclude: [{scalar(name)}]}}`, or cast it in a `query:`.",
            column=name,
        )
    return wanted


def _type(native: Native) -> tuple[Type | None, str]:
    if native.word == "NUMBER":
        return _number(native)
    if native.word == "RAW":
        return types.BINARY, f"RAW({native.digits})"
    if native.word not in WORDS:
        return None, native.word
    label, kind = WORDS[native.word]
    if native.word.startswith("TIMESTAMP"):
        return kind, label.replace("TIMESTAMP", f"TIMESTAMP({native.scale})", 1)
    return kind, label


def _number(native: Native) -> tuple[Type, str]:
    """An integer up to 18 digits, a decimal up to 38; the text of all digits where the type bounds them not."""
    precision, scale = native.digits, native.scale
    if not precision or scale == -127:
        return types.TEXT, UNBOUNDED
    label = f"NUMBER({precision},{scale})"
    whole, behind = max(precision - scale, 0), max(scale, 0)
    if whole + behind > MOST:
        return types.TEXT, UNBOUNDED
    if scale <= 0 and whole <= 18:
        return (types.INT if whole <= 9 else types.BIGINT), label
    return decimal(max(whole + behind, 1), behind), label
