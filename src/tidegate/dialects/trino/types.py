"""Maps Trino types to exact types.

A type whose values could change is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tidegate.core import schema as types
from tidegate.core.schema import Column, Type, array, decimal
from tidegate.dialects.shared.columns import declared

PLAIN: Mapping[str, Type] = {
    "bigint": types.BIGINT,
    "boolean": types.BOOLEAN,
    "char": types.TEXT,
    "date": types.DATE,
    "double": types.DOUBLE,
    "integer": types.INT,
    "ipaddress": types.TEXT,
    "json": types.JSON,
    "real": types.REAL,
    "smallint": types.INT,
    "time": types.TIME,
    "timestamp": types.TIMESTAMP,
    "timestamp with time zone": types.TIMESTAMPTZ,
    "tinyint": types.INT,
    "uuid": types.UUID,
    "varbinary": types.BINARY,
    "varchar": types.TEXT,
}
# Of the others JSON does not keep every value.
IN_ARRAYS = frozenset({"bigint", "boolean", "integer", "smallint", "tinyint", "varchar"})
ARRAY = re.compile(r"array\((\w+)(?:\(\d+\))?\)")
DECIMAL = re.compile(r"decimal\((\d+), ?(\d+)\)")
LENGTH = re.compile(r"\(\d+\)")


def column_of(name: str, native: tuple[str, bool], override: str | None) -> Column | str:
    """The column, exactly; Trino's word for its type where none keeps every value; see `declared`."""
    return declared(name, native, override, type_of, "Trino")


def type_of(native: str) -> Type | None:
    """The type that such a text stands for; None for one that is not kept.

    Example:
        >>> str(type_of("timestamp(9) with time zone")), str(type_of("decimal(12, 4)"))
        ('timestamp', 'decimal(12,4)')
    """
    words = native.lower()
    digits = DECIMAL.fullmatch(words)
    if digits:
        return decimal(int(digits[1]), int(digits[2]))
    element = ARRAY.fullmatch(words)
    if element:
        return array(PLAIN[element[1]]) if element[1] in IN_ARRAYS else None
    return PLAIN.get(LENGTH.sub("", words))
