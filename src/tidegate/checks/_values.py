"""Turns a value in the project file into a Spark SQL literal that compares exactly with a column.

Refuses a value that the column's type cannot represent.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation

from tidegate.core.schema import Column, Kind
from tidegate.dialects.spark import Spark
from tidegate.errors import ConfigError

Value = bool | int | float | str
MOST_DIGITS = 38


def literal(column: Column, value: Value) -> str:
    """Spark SQL of the value, to compare with the column.

    Raises:
        ConfigError: no value of the column's type.

    Example:
        >>> from tidegate.core.schema import DATE, INT
        >>> literal(Column(name="a", type=INT), 0.5), literal(Column(name="d", type=DATE), "2025-01-31")
        ("CAST('0.5' AS decimal(38,1))", "DATE '2025-01-31'")
    """
    kind = column.type.stored.kind
    try:
        match kind:
            case Kind.INTEGER | Kind.DECIMAL:
                return _number(value)
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


def _number(value: Value) -> str:
    number = Decimal(str(value))  # of true and false, too, there is none
    if not number.is_finite():
        raise ValueError
    scale = max(0, -int(number.as_tuple().exponent))
    if max(number.adjusted() + 1, 1) + scale > MOST_DIGITS:
        raise ValueError
    return f"CAST('{number:f}' AS decimal({MOST_DIGITS},{scale}))"


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
