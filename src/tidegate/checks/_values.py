"""Turns a value in the project file into a Spark SQL literal that compares exactly with a column.

Refuses a value that the column's type cannot represent.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation

from tidegate.core.schema import Column, Kind, Type
from tidegate.dialects.spark import Spark
from tidegate.errors import ConfigError

Value = bool | int | float | str
MOST_DIGITS = 38


def literals(column: Column, values: Sequence[Value]) -> list[str]:
    """Spark SQL of each value, to compare with the column, also in one list.

    Raises:
        ConfigError: no value of the column's type, or digits that no number of Spark holds beside the column's own.
    """
    if column.type.stored.kind in (Kind.INTEGER, Kind.DECIMAL):
        return _numbers(column, values)
    return [literal(column, value) for value in values]


def literal(column: Column, value: Value) -> str:
    """Spark SQL of the value, to compare with the column. Raises like `literals`.

    Example:
        >>> from tidegate.core.schema import DATE, INT
        >>> literal(Column(name="a", type=INT), 0.5), literal(Column(name="d", type=DATE), "2025-01-31")
        ("CAST('0.5' AS decimal(2,1))", "DATE '2025-01-31'")
    """
    kind = column.type.stored.kind
    try:
        match kind:
            case Kind.INTEGER | Kind.DECIMAL:
                return _numbers(column, [value])[0]
            case Kind.FLOAT if not isinstance(value, bool):
                return f"CAST('{float(value)!r}' AS double)"
            case Kind.DATE if isinstance(value, str):
                return Spark().literal(column.type, date.fromisoformat(value).isoformat())
            case Kind.TIMESTAMP | Kind.TIMESTAMPTZ if isinstance(value, str):
                return Spark().literal(column.type, _time(value, zoned=kind is Kind.TIMESTAMPTZ))
            case Kind.TEXT if isinstance(value, str):
                return Spark().string(value)
            case Kind.BOOLEAN if isinstance(value, bool):
                return "true" if value else "false"
    except (ValueError, InvalidOperation) as error:
        raise _refused(column, value) from error
    raise _refused(column, value)


def above(column: Column, low: Value, high: Value) -> bool:
    """Whether one value of the column's type comes after another. Raises like `literal`."""
    match column.type.stored.kind:
        case Kind.INTEGER | Kind.DECIMAL | Kind.FLOAT:
            return Decimal(str(low)) > Decimal(str(high))
        case Kind.TEXT:
            return str(low).encode() > str(high).encode()
        case _:
            return literal(column, low) > literal(column, high)


def _numbers(column: Column, values: Sequence[Value]) -> list[str]:
    """Each with no more digits than it has.

    Spark compares two decimals in a type with the digits of both. Where these are more than 38 it rounds, and 10.01
    would equal 10.
    """
    stored, found = column.type.stored, []
    most = (len(str(2**stored.bits)), 0) if stored.kind is Kind.INTEGER else _digits(stored)
    for value in values:
        try:
            number = Decimal(str(value))  # of true and false, too, there is none
            if not number.is_finite():
                raise _refused(column, value)
        except InvalidOperation as error:
            raise _refused(column, value) from error
        scale = max(0, -int(number.as_tuple().exponent))
        whole = max(number.adjusted() + 1, 1)
        most = (max(most[0], whole), max(most[1], scale))
        if sum(most) > MOST_DIGITS:
            raise _refused(column, value)
        found.append(f"CAST('{number:f}' AS decimal({whole + scale},{scale}))")
    return found


def _digits(stored: Type) -> tuple[int, int]:
    return stored.precision - stored.scale, stored.scale


def _time(text: str, *, zoned: bool) -> str:
    """The canonical text; of a column with zone in UTC, which is also the zone of a text without one."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is not None:
        if not zoned:
            raise ValueError
        moment = moment.astimezone(UTC).replace(tzinfo=None)
    return moment.isoformat(sep=" ", timespec="microseconds")


def _refused(column: Column, value: Value) -> ConfigError:
    return ConfigError(
        f"{value!r} is not a valid value for column {column.name!r} of type {column.type.stored}",
        hint="Correct `checks:` in tidegate.yaml, then run `tidegate check`.",
        column=column.name,
    )
