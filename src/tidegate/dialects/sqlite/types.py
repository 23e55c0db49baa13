"""Maps declared types of SQLite columns to exact types.

The declaration is not trusted: the dialect's expressions check every value against it.
"""

from __future__ import annotations

import re

from tidegate.core.schema import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    JSON,
    TEXT,
    TIME,
    TIMESTAMP,
    UUID,
    Column,
    Type,
    decimal,
)
from tidegate.dialects.shared.type_names import parse_type
from tidegate.errors import SchemaRefused

DECIMAL = re.compile(r"(?:decimal|numeric|dec)\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)", re.IGNORECASE)
WORDS: tuple[tuple[str, Type], ...] = (
    (r"bool(ean)?", BOOLEAN),
    (r"date", DATE),
    (r"datetime|timestamp( without time zone)?", TIMESTAMP),
    (r"time( without time zone)?", TIME),
    (r"uuid|guid", UUID),
    (r"jsonb?", JSON),
    (r".*int.*", BIGINT),
    (r".*(char|clob|text).*|string", TEXT),
    (r".*blob.*|.*binary.*|bytea", BINARY),
    (r"real|float|double( precision)?", DOUBLE),
)


def column_of(name: str, declared: str, *, nullable: bool, override: str | None) -> Column:
    """The column, exactly.

    Raises:
        SchemaRefused: the declaration names no type that can be kept; the hint says how to state one.
    """
    if override is not None:
        kind: Type | None = parse_type(name, override)
    else:
        kind = type_of(declared)
    if kind is None:
        what = f"is declared {declared!r}" if declared else "has no declared type"
        raise SchemaRefused(
            f"column {name!r} {what}, which is too vague to store its values exactly",
            hint=f'Declare its type: `source: {{columns: {{{name}: "decimal(20,4)"}}}}` (or text, bigint, timestamp '
            f"…).",
            column=name,
        )
    return Column(name=name, type=kind, nullable=nullable, native=override or declared)


def type_of(declared: str) -> Type | None:
    """The type that such a declaration stands for; None for one that says too little."""
    words = re.sub(r"\s+", " ", declared.strip().lower())
    found = DECIMAL.fullmatch(words)
    if found:
        precision, scale = int(found[1]), int(found[2] or 0)
        return decimal(precision, scale) if 1 <= precision <= 38 and scale <= precision else None
    plain = re.sub(r" ?\(.*\)", "", words)
    return next((kind for pattern, kind in WORDS if re.fullmatch(pattern, plain)), None)
