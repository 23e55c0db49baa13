"""Maps SQL Server types to exact types.

A type whose values could change is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tidegate.core import schema as types
from tidegate.core.schema import Column, Type, decimal
from tidegate.dialects.shared.columns import declared

ROW_VERSION = "timestamp"
"""The type of a number that grows with every change in the database, as the server calls it."""
PLAIN: Mapping[str, Type] = {
    "bigint": types.BIGINT,
    "binary": types.BINARY,
    "bit": types.BOOLEAN,
    "char": types.TEXT,
    "date": types.DATE,
    "datetime": types.TIMESTAMP,
    "datetime2": types.TIMESTAMP,
    "datetimeoffset": types.TIMESTAMPTZ,
    "float": types.DOUBLE,
    "image": types.BINARY,
    "int": types.INT,
    "money": decimal(19, 4),
    "nchar": types.TEXT,
    "ntext": types.TEXT,
    "nvarchar": types.TEXT,
    "real": types.REAL,
    "rowversion": types.BIGINT,
    "smalldatetime": types.TIMESTAMP,
    "smallint": types.INT,
    "smallmoney": decimal(10, 4),
    "text": types.TEXT,
    "time": types.TIME,
    ROW_VERSION: types.BIGINT,
    "tinyint": types.INT,
    "uniqueidentifier": types.UUID,
    "varbinary": types.BINARY,
    "varchar": types.TEXT,
    "xml": types.TEXT,
}
DECIMAL = re.compile(r"(?:decimal|numeric)\((\d+),(\d+)\)")


def word_of(column: Column) -> str:
    """The server's word for a column's type, without a length; empty where none is known.

    Example:
        >>> word_of(Column(name="x", type=types.TEXT, native="nvarchar(max)"))
        'nvarchar'
    """
    return (column.native or "").split("(", maxsplit=1)[0].lower()


def column_of(name: str, native: tuple[str, bool], override: str | None) -> Column | str:
    """The column, exactly; the server's word for its type where none keeps every value; see `declared`."""
    return declared(name, native, override, type_of, "SQL Server")


def type_of(native: str) -> Type | None:
    """The type that such a text stands for; None for one that is not kept.

    Example:
        >>> str(type_of("decimal(12,4)")), str(type_of("nvarchar(max)")), type_of("sql_variant")
        ('decimal(12,4)', 'string', None)
    """
    words = native.lower()
    digits = DECIMAL.fullmatch(words)
    if digits:
        return decimal(int(digits[1]), int(digits[2]))
    return PLAIN.get(words.split("(", maxsplit=1)[0])
