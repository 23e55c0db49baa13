"""Converts text written by PostgreSQL's output functions to the stored value that a query would have read.

Used for events of a replication slot. A value that the stored type cannot represent becomes NULL here, and the caller
refuses it.
"""

from __future__ import annotations

import json

from tidegate.core.schema import Column, Kind, Type
from tidegate.dialects.postgresql.dialect import PADDED
from tidegate.dialects.spark import LONG_STRINGS, Spark
from tidegate.errors import InternalError

SETTINGS = (
    "SET client_encoding = 'UTF8'; SET datestyle = 'ISO, YMD'; SET timezone = 'UTC'; SET extra_float_digits = 1; "
    "SET bytea_output = 'hex'; SET intervalstyle = 'postgres'; SET lc_monetary = 'C'"
)
"""Of the session whose output functions write; the expressions below are right for these alone."""


def stored(sql: str, column: Column) -> str:  # noqa: C901, PLR0911 - one answer a type
    """Spark's expression of the stored value; NULL for NULL and for what the type cannot keep.

    Args:
        sql: the text; of an array what `array_json` makes of it.
    """
    kind, spark = column.type, Spark()
    match kind.kind:
        case Kind.INTEGER | Kind.FLOAT:
            return f"try_cast({sql} AS {kind.spark})"
        case Kind.DECIMAL:
            exact = spark.string(f"^-?[0-9]+([.][0-9]{{0,{kind.scale}}}0*)?$")  # a cast would round
            return f"CASE WHEN {sql} RLIKE {exact} THEN try_cast({sql} AS {kind.spark}) END"
        case Kind.BOOLEAN:
            return f"CASE {sql} WHEN 't' THEN true WHEN 'f' THEN false END"
        case Kind.DATE:
            return f"CASE WHEN length({sql}) = 10 THEN try_cast({sql} AS date) END"  # else BC, or of five digits
        case Kind.TIMESTAMP:
            return f"CASE WHEN substr({sql}, 5, 1) = '-' THEN try_cast({sql} AS timestamp_ntz) END"
        case Kind.TIMESTAMPTZ:
            moment = f"concat(left({sql}, length({sql}) - 3), '+00:00')"
            return f"CASE WHEN substr({sql}, 5, 1) = '-' THEN try_cast({moment} AS timestamp) END"
        case Kind.TIME:
            return f"rpad(concat({sql}, CASE length({sql}) WHEN 8 THEN '.' ELSE '' END), 15, '0')"
        case Kind.BINARY:
            return f"try_to_binary(substr({sql}, 3), 'hex')"
        case Kind.TEXT:
            return _text(sql, (column.native or "").split("(", 1)[0].strip())
        case Kind.UUID | Kind.JSON:
            return sql
        case Kind.ARRAY:
            return f"from_json({sql}, {spark.string(kind.spark)}, map('mode', 'FAILFAST', {LONG_STRINGS}))"
        case _:
            raise InternalError(f"column {column.name!r} of type {kind} has no PostgreSQL text form")


def _text(sql: str, native: str) -> str:
    """What a cast to text writes, which differs from what the output function of a boolean does."""
    if native == "bool":
        return f"CASE {sql} WHEN 't' THEN 'true' WHEN 'f' THEN 'false' END"
    return f"rtrim({sql})" if native in PADDED else sql


def array_json(text: str, element: Type) -> str:
    r"""The JSON text of a one-dimensional array of that element, as `array_to_json` would write its values.

    Raises:
        ValueError: more dimensions than one, or a first element that is not number 1.

    Example:
        >>> from tidegate.core.schema import BOOLEAN, TEXT
        >>> array_json('{a,"b \\"c\\"",NULL,"NULL"}', TEXT), array_json("{t,f,NULL}", BOOLEAN)
        ('["a","b \\"c\\"",null,"NULL"]', '[true,false,null]')
    """
    if text[:1] != "{" or text[-1:] != "}":
        raise ValueError("an array whose lower bound is not 1")
    found: list[object] = []
    at, end = 1, len(text) - 1
    while at < end:
        item, quoted, at = _item(text, at)
        found.append(None if item == "NULL" and not quoted else _plain(item, element))
        at += 1  # the comma, or the closing brace
    return json.dumps(found, ensure_ascii=False, separators=(",", ":"))


def _item(text: str, at: int) -> tuple[str, bool, int]:
    """One element, whether it was quoted, and where what follows it stands."""
    if text[at] == "{":
        raise ValueError("a multidimensional array")
    if text[at] != '"':
        end = min(place for place in (text.find(",", at), len(text) - 1) if place >= 0)
        return text[at:end], False, end
    piece: list[str] = []
    at += 1
    while text[at] != '"':
        at += text[at] == "\\"
        piece.append(text[at])
        at += 1
    return "".join(piece), True, at + 1


def _plain(item: str, element: Type) -> object:
    if element.kind is Kind.BOOLEAN:
        return item == "t"
    return int(item) if element.kind is Kind.INTEGER else item
