"""Extreme values that every database can hold, with how SQL writes them.

Plain values of Python: none is computed by a dialect.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal

from tidegate_scenarios.certification import Sample

Values = tuple[tuple[str, object], ...]

NINES = "9" * 38
BYTES = (b"", bytes(range(256)), b"\x00")
TEXTS = ("", "\U0010ffff\U0001f600", " \r\n\t", "it's | ~N \\ \x01", "é e\u0301", "a ")
UUIDS = ("00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff")
DAYS = (date(1, 1, 1), date(9999, 12, 31), date(1582, 10, 10), date(1969, 12, 31))
MOMENTS = (
    datetime(1, 1, 1),  # noqa: DTZ001 - a type without a zone
    datetime(9999, 12, 31, 23, 59, 59, 999999),  # noqa: DTZ001 - as above
    datetime(1582, 10, 10, 12, 34, 56, 789012),  # noqa: DTZ001 - no day of the calendar that Java once had
    datetime(1969, 12, 31, 23, 59, 59, 999999),  # noqa: DTZ001 - as above
    datetime(2025, 3, 30, 2, 30, 0, 1),  # noqa: DTZ001 - an hour that Berlin did not have
)


def plain(text: str) -> str:
    """A text literal, its quotes doubled; control characters as they are."""
    return "'" + text.replace("'", "''") + "'"


def column(name: str, declaration: str, *values: tuple[str, object], read_as: str = "") -> Sample:
    """A column of one type."""
    return Sample(name=name, declaration=declaration, values=values, read_as=read_as)


def integers(name: str, declaration: str, low: int, high: int) -> Sample:
    """A column of whole numbers, by the least and the greatest."""
    return column(name, declaration, (str(low), low), (str(high), high))


def decimals(name: str, precision: int, scale: int, *, kind: str = "decimal", form: str = "{}") -> Sample:
    """A column of decimals: the least, the greatest, the smallest above zero, and zero."""
    digits = "9" * precision
    whole, fraction = digits[: precision - scale], digits[precision - scale :]
    most = (whole or "0") + (f".{fraction}" if fraction else "")
    least = f"0.{'0' * (scale - 1)}1" if scale else "1"
    texts = (f"-{most}", most, least, f"-{least}", "0")
    return column(name, f"{kind}({precision},{scale})", *((form.format(text), Decimal(text)) for text in texts))


def days(form: str = "'{}'") -> Values:
    """The ends of the years 1 to 9999, a day that Java's calendar once had not, and one before 1970."""
    return tuple((form.format(day.isoformat()), day) for day in DAYS)


def moments(form: str = "'{}'", *, instants: bool = False) -> Values:
    """The same with times; of instants in UTC, of which `form` says that they are."""
    zone = UTC if instants else None
    return tuple((form.format(each.isoformat(" ", "microseconds")), each.replace(tzinfo=zone)) for each in MOMENTS)


def times(form: str = "'{}'") -> Values:
    """The first and the last of a day."""
    return tuple((form.format(text), text) for text in ("00:00:00.000000", "23:59:59.999999"))


def texts(write: Callable[[str], str] = plain) -> Values:
    """Empty, beyond the first plane, blanks and control characters, quotes, an accent in both of its forms."""
    return tuple((write(text), text) for text in TEXTS)


def uuids(form: str = "'{}'") -> Values:
    """The least and the greatest."""
    return tuple((form.format(text), text) for text in UUIDS)


def blobs(form: str = "x'{}'") -> Values:
    """None, all, and one that ends a text elsewhere."""
    return tuple((form.format(each.hex()), each) for each in BYTES)
