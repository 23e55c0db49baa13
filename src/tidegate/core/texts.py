"""Decides the canonical text of a value that Python holds, and so the fingerprint of rows that no engine reads.

Called where few rows are read back. Pure; must never round a value, nor give a text for one that its type cannot hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Context, Decimal, Inexact
from typing import Any, Protocol, runtime_checkable

from tidegate.core.fingerprint import Fingerprint, row_text
from tidegate.core.schema import Column, Kind, Type

EXACTLY = Context(prec=38, traps=[Inexact])


@runtime_checkable
class ReadsBack(Protocol):
    """A staging whose few rows can be read again without Spark."""

    def written(self) -> Iterable[Sequence[Any]] | None:
        """The rows that an append or a merge added, as committed: values of the plan's covered columns.

        None where there are too many, or where they may not be all that the version holds of their keys.
        """


def fingerprint(columns: Sequence[Column], rows: Iterable[Sequence[Any]]) -> Fingerprint:
    """Of rows with a value for each of the columns, which a fingerprint must cover.

    Raises:
        ValueError, ArithmeticError: a value that its column's type cannot hold, or a type that no fingerprint covers.
    """
    texts = [text_of(column.type) for column in columns]

    def fields(row: Sequence[Any]) -> Iterable[str | None]:
        return (None if value is None else text(value) for text, value in zip(texts, row, strict=True))

    return Fingerprint.of_texts(row_text(fields(row)) for row in rows)


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
