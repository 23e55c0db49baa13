"""Maps Teradata types to exact types.

A type whose values could change is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tidegate.core import schema as types
from tidegate.core.schema import Column, Type, decimal
from tidegate.dialects.shared.columns import declared

PLAIN: Mapping[str, Type] = {
    "bigint": types.BIGINT,
    "byte": types.BINARY,
    "byteint": types.INT,
    "char": types.TEXT,
    "character": types.TEXT,
    "date": types.DATE,
    "double precision": types.DOUBLE,
    "float": types.DOUBLE,
    "integer": types.INT,
    "real": types.DOUBLE,
    "smallint": types.INT,
    "time": types.TIME,
    "timestamp": types.TIMESTAMP,
    "timestamp with time zone": types.TIMESTAMPTZ,
    "varbyte": types.BINARY,
    "varchar": types.TEXT,
}
DECIMAL = re.compile(r"(?:decimal|number|numeric)\((\d+)(?:,(\d+))?\)")
LENGTH = re.compile(r"\(\d+\)")
OF_TEXTS = re.compile(r" character set (?:latin|unicode)$| (?:not )?casespecific$")


def column_of(name: str, native: tuple[str, bool], override: str | None) -> Column | str:
    """The column, exactly; Teradata's word for its type where none keeps every value; see `declared`."""
    return declared(name, native, override, type_of, "Teradata")


def type_of(native: str) -> Type | None:
    """The type that such a text stands for; None for one that is not kept.

    Example:
        >>> str(type_of("DECIMAL(12,4)")), str(type_of("VARCHAR(50) CHARACTER SET UNICODE")), type_of("CLOB(10)")
        ('decimal(12,4)', 'string', None)
    """
    words = native.lower()
    while (shorter := OF_TEXTS.sub("", words)) != words:
        words = shorter
    digits = DECIMAL.fullmatch(words)
    if digits:
        return decimal(int(digits[1]), int(digits[2] or 0))
    return PLAIN.get(LENGTH.sub("", words))
