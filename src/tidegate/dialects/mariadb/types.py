"""Maps MariaDB types to exact types.

Uses the column metadata of a result, so that queries and tables are described alike. A type whose values could change
is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidegate.core import schema as types
from tidegate.core.schema import Column, Kind, Type, decimal
from tidegate.core.yaml_text import scalar
from tidegate.dialects.shared.type_names import parse_type
from tidegate.errors import SchemaRefused

NOT_NULL, UNSIGNED, ENUM, SET = 1, 32, 256, 2048  # flags of a column in the protocol
DECIMAL, BIT, BIGINT_CODE, TINY = 246, 16, 8, 1
BINARY_CHARSET = "binary"
CHARSET = " charset "
STATED = " stated"
"""Ends the label of a column whose type the project states."""
# By the protocol's number of the type. Source: MariaDB, "Result set packets", field types.
PLAIN: Mapping[int, tuple[str, Type]] = {
    1: ("tinyint", types.INT),
    2: ("smallint", types.INT),
    3: ("int", types.INT),
    4: ("float", types.REAL),
    5: ("double", types.DOUBLE),
    7: ("timestamp", types.TIMESTAMPTZ),
    8: ("bigint", types.BIGINT),
    9: ("mediumint", types.INT),
    10: ("date", types.DATE),
    11: ("time", types.TIME),
    12: ("datetime", types.TIMESTAMP),
    13: ("year", types.INT),
    14: ("date", types.DATE),
    245: ("json", types.TEXT),
}
MOMENTS = frozenset({7, 11, 12})
"""Of which a column keeps as many digits of a second as it is declared with."""
TEXTS = {15: "varchar", 249: "text", 250: "text", 251: "text", 252: "text", 253: "varchar", 254: "char"}
ODD = {6: "null", 16: "bit", 255: "geometry"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Native:
    """What the protocol says of a column: its charset is its own, not the connection's."""

    name: str
    code: int
    flags: int
    length: int
    scale: int
    charset: str

    @property
    def unsigned(self) -> bool:
        """Whether it holds no negative numbers."""
        return bool(self.flags & UNSIGNED)


def column_of(name: str, native: Native, override: str | None) -> Column | str:
    """The column, exactly; MariaDB's word for its type where none keeps every value.

    Raises:
        SchemaRefused: a type is stated that would change values.
    """
    kind, label = _type(native)
    nullable = not native.flags & NOT_NULL
    if override is not None:
        kind = _stated(name, kind, label, override)
    elif kind is None:
        return label
    # A time may have a sign, and more hours than two digits.
    as_text = kind == types.TIME or (kind == types.TEXT and label.partition(CHARSET)[0] not in TEXTS.values())
    stated = label if override is None else f"{label}{STATED}"
    return Column(name=name, type=kind, nullable=nullable, native=stated, as_text=as_text)


def _stated(name: str, kind: Type | None, label: str, override: str) -> Type:
    wanted = parse_type(name, override)
    if wanted == types.TEXT:
        return wanted
    flag = wanted.kind is Kind.BOOLEAN and kind is not None and kind.kind in (Kind.INTEGER, Kind.BOOLEAN)
    number = wanted.kind is Kind.DECIMAL and (label.startswith("decimal") or label == "bigint unsigned")
    if not flag and not number:
        raise SchemaRefused(
            f"column {name!r} of type {label} cannot be read as {override!r}: any type can be read as text, "
            f"integers as boolean, and decimals as decimal",
            hint=f"Read it as text: `source: {{columns: {{{scalar(name, is_key=True)}: text}}}}`.",
            column=name,
        )
    return wanted


def _type(native: Native) -> tuple[Type | None, str]:
    if native.code == DECIMAL:
        return _decimal(native)
    if native.code == BIT:
        return (types.BOOLEAN if native.length == 1 else None), f"bit({native.length})"
    if native.code in TEXTS:
        return _text(native)
    if native.code not in PLAIN:
        return None, ODD.get(native.code, f"number {native.code}")
    label, kind = PLAIN[native.code]
    if native.code == TINY and native.length == 1:
        label = "tinyint(1)"
    elif native.code in MOMENTS and native.scale:
        label = f"{label}({native.scale})"
    if not native.unsigned or kind.kind is not Kind.INTEGER or label == "year":
        return kind, label
    wider = decimal(20, 0) if native.code == BIGINT_CODE else types.BIGINT if label == "int" else types.INT
    return wider, f"{label} unsigned"


def _decimal(native: Native) -> tuple[Type, str]:
    """Up to 38 digits a decimal, beyond that its exact text. Source: my_decimal_length_to_precision."""
    precision = native.length - (native.scale > 0) - (not native.unsigned)
    label = f"decimal({precision},{native.scale})"
    return (decimal(precision, native.scale) if precision <= 38 else types.TEXT), label


def _text(native: Native) -> tuple[Type, str]:
    label = "enum" if native.flags & ENUM else "set" if native.flags & SET else TEXTS[native.code]
    if native.charset == BINARY_CHARSET:
        return types.BINARY, {"char": "binary", "varchar": "varbinary"}.get(label, "blob")
    return types.TEXT, f"{label}{CHARSET}{native.charset}"
