"""Parses the type names in `source: {columns: …}`."""

from __future__ import annotations

import re

from tidegate.core import schema as types
from tidegate.core.schema import Type, decimal
from tidegate.errors import ConfigError

WORDS = {
    "bigint": types.BIGINT,
    "binary": types.BINARY,
    "boolean": types.BOOLEAN,
    "date": types.DATE,
    "double": types.DOUBLE,
    "int": types.INT,
    "json": types.JSON,
    "string": types.TEXT,
    "text": types.TEXT,
    "time": types.TIME,
    "timestamp": types.TIMESTAMP,
    "uuid": types.UUID,
}
DECIMAL = re.compile(r"(?:decimal|numeric)\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)", re.IGNORECASE)


def parse_type(column: str, text: str) -> Type:
    """The type of such a text.

    Raises:
        ConfigError: an unknown word, or a decimal of no digits or more than 38.

    Example:
        >>> str(parse_type("amount", "decimal(20,4)"))
        'decimal(20,4)'
    """
    found = DECIMAL.fullmatch(text.strip())
    if found:
        precision, scale = int(found[1]), int(found[2] or 0)
        if 1 <= precision <= 38 and scale <= precision:
            return decimal(precision, scale)
    kind = WORDS.get(text.strip().lower())
    if kind is None:
        known = ", ".join(sorted(WORDS))
        raise ConfigError(
            f"columns: {column}: {text!r} is not a type; known types: decimal(p,s) with at most 38 digits, {known}",
            column=column,
        )
    return kind
