"""The canonical text of Python and Arrow values, to compute fingerprints without a SQL engine.

Used where few rows are read back. Never rounds a value, and refuses values that do not fit their type.
"""

from __future__ import annotations

import hashlib
import sys
from array import array
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Context, Decimal, Inexact
from typing import TYPE_CHECKING, Any

from tidegate.core.fingerprint import Fingerprint
from tidegate.core.schema import TEXT, Column, Kind, Type

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

EXACTLY = Context(prec=38, traps=[Inexact])
PLAIN_SCALE = 6
"""Up to so many digits behind the point Arrow writes a decimal without an exponent, however small it is."""


def of_table(columns: Sequence[Column], rows: pa.Table) -> Fingerprint:
    """Of the rows of a table that has these columns, with their stored types, which a fingerprint must cover.

    Raises:
        ValueError, ArithmeticError: a value that its column's type cannot hold, or a type that no fingerprint covers.
    """
    return sums(digests(columns, rows))


def row_texts(columns: Sequence[Column], rows: pa.Table) -> list[str]:
    """The text of each row over these columns, see `core/fingerprint`. Raises as `of_table`."""
    import pyarrow.compute as pc  # type: ignore[import-untyped] # noqa: PLC0415 - its import takes a tenth of a second

    fields = [pc.fill_null(_column(rows[column.name], column.type), "~N") for column in columns]
    found: list[str] = pc.binary_join_element_wise(*fields, "|").to_pylist() if fields else [""] * rows.num_rows
    return found


def digests(columns: Sequence[Column], rows: pa.Table) -> array[int]:
    """Four 32-bit numbers a row, one row after the other: the quarters of the md5 of its text."""
    texts = row_texts(columns, rows)
    numbers = array("I", b"".join(hashlib.md5(text.encode(), usedforsecurity=False).digest() for text in texts))
    if sys.byteorder == "little":
        numbers.byteswap()
    return numbers


def sums(numbers: array[int]) -> Fingerprint:
    """The fingerprint of the rows that have these `digests`."""
    return Fingerprint.of_sums([len(numbers) // 4, *(sum(numbers[quarter::4]) for quarter in range(4))])


def _column(values: pa.ChunkedArray, kind: Type) -> pa.ChunkedArray:
    """The fields of a column, NULL where its values are."""
    import pyarrow as pa  # noqa: PLC0415 - as above
    import pyarrow.compute as pc  # noqa: PLC0415 - as above

    stored, has = kind.stored, values.type
    match stored.kind:
        case Kind.TEXT if pa.types.is_string(has) or pa.types.is_large_string(has):
            found = pc.replace_substring(pc.replace_substring(values, "~", "~0"), "|", "~1")
        case Kind.BOOLEAN if pa.types.is_boolean(has):
            found = pc.if_else(values, "1", "0")
        case Kind.TIMESTAMP if has == pa.timestamp("us"):
            found = values
        case Kind.TIMESTAMPTZ if pa.types.is_timestamp(has) and (has.unit, has.tz is None) == ("us", False):
            found = pc.cast(values, pa.timestamp("us"))
        case Kind.INTEGER if pa.types.is_integer(has):
            found = values
        case Kind.DATE if pa.types.is_date32(has):
            found = values
        case Kind.DECIMAL if pa.types.is_decimal(has) and has.scale == (stored.scale or 0) <= PLAIN_SCALE:
            found = values
        case _:
            text = text_of(kind)
            found = pa.array([None if value is None else text(value) for value in values.to_pylist()], pa.string())
            return _column(found, TEXT)
    return pc.cast(found, pa.string())


def text_of(kind: Type) -> Callable[[Any], str]:
    """The function from a value to its text.

    Values: as Arrow gives them to Python, of the stored type: `int`, `bool`, `Decimal`, `date`, `datetime`, `bytes`,
    `str`.

    Raises:
        ValueError: a type that no fingerprint covers.

    Example:
        >>> from tidegate.core.schema import decimal
        >>> text_of(decimal(10, 2))(Decimal("-7.5"))
        '-7.50'
    """
    stored = kind.stored
    if stored.kind is Kind.DECIMAL:
        step = Decimal(1).scaleb(-(stored.scale or 0))
        return lambda value: format(value.quantize(step, context=EXACTLY), "f")
    if stored.kind not in TEXTS:
        raise ValueError(f"a column of type {stored} has no canonical text")
    return TEXTS[stored.kind]


def _timestamp(value: datetime) -> str:
    return value.isoformat(" ", "microseconds")


TEXTS: Mapping[Kind, Callable[[Any], str]] = {
    Kind.TEXT: str,
    Kind.INTEGER: str,
    Kind.BOOLEAN: lambda value: "1" if value else "0",
    Kind.BINARY: bytes.hex,
    Kind.DATE: date.isoformat,
    Kind.TIMESTAMP: _timestamp,
    Kind.TIMESTAMPTZ: lambda value: _timestamp(value.astimezone(UTC).replace(tzinfo=None)),
}
