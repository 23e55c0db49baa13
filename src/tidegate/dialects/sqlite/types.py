"""Maps declared types of SQLite columns to exact types.

The declaration is not trusted: the dialect's expressions check every value against it.
"""

from __future__ import annotations

import re

from tidegate.core import schema as types
from tidegate.core.schema import Column, Type, decimal
from tidegate.dialects.shared.type_names import parse_type

DECIMAL = re.compile(r"(?:decimal|numeric|dec)\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)", re.IGNORECASE)
WORDS: tuple[tuple[str, Type], ...] = (
    (r"bool(ean)?", types.BOOLEAN),
    (r"date", types.DATE),
    (r"datetime|timestamp( without time zone)?", types.TIMESTAMP),
    (r"time( without time zone)?", types.TIME),
    (r"uuid|guid", types.UUID),
    (r"jsonb?", types.JSON),
    (r".*int.*", types.BIGINT),
    (r".*(char|clob|text).*|string", types.TEXT),
    (r".*blob.*|.*binary.*|bytea", types.BINARY),
    (r"real|float|double( precision)?", types.DOUBLE),
)


AS_TEXT = " as text"
"""Ends the label of a column that is read as text whatever is declared."""


def column_of(name: str, native: tuple[str, bool], override: str | None) -> Column | str:
    """The column, exactly; its declaration where that names no type that can be kept.

    Args:
        native: the declaration, and whether NULL is allowed.
    """
    declared, nullable = native
    kind = parse_type(name, override) if override is not None else type_of(declared)
    if kind is None:
        return f"declared {declared}" if declared else "no declared type"
    as_text = override is not None and kind == types.TEXT and type_of(declared) != types.TEXT
    label = f"{declared or 'any type'}{AS_TEXT}" if as_text else override or declared
    return Column(name=name, type=kind, nullable=nullable, native=label, as_text=as_text)


def type_of(declared: str) -> Type | None:
    """The type that such a declaration stands for; None for one that says too little."""
    words = re.sub(r"\s+", " ", declared.strip().lower())
    found = DECIMAL.fullmatch(words)
    if found:
        precision, scale = int(found[1]), int(found[2] or 0)
        return decimal(precision, scale) if 1 <= precision <= 38 and scale <= precision else None
    plain = re.sub(r" ?\(.*\)", "", words)
    return next((kind for pattern, kind in WORDS if re.fullmatch(pattern, plain)), None)
