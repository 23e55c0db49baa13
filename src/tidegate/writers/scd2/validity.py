"""The columns and types that can date a version, and the format of their values.

Only types whose values have a next value are accepted.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from tidegate.core.schema import TIMESTAMPTZ, Column, Kind, Schema, Type
from tidegate.errors import ColumnMissing, ConfigError, SchemaRefused

DATING = frozenset({Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.INTEGER})


def parsed(text: str) -> datetime:
    """A date, with a time or without; without a zone it is UTC.

    Raises:
        ConfigError: it is none.

    Example:
        >>> parsed("9999-12-31").year
        9999
    """
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigError(
            f"far_date {text!r} is not a date", hint="Use a form such as `9999-12-31` or `9999-12-31T00:00:00`."
        ) from error
    return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)


def moment(at: datetime, kind: Type) -> str | None:
    """A time as canonical text of a type, in UTC; None where the type counts no time.

    Example:
        >>> from tidegate.core.schema import BIGINT, DATE
        >>> moment(parsed("2025-01-02T03:04:05+01:00"), DATE), moment(parsed("2025-01-02"), BIGINT)
        ('2025-01-02', None)
    """
    plain = at.astimezone(UTC).replace(tzinfo=None)
    if kind.kind is Kind.DATE:
        return plain.date().isoformat()
    return plain.isoformat(" ", "microseconds") if kind.kind in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ) else None


def from_time(sql: str, kind: Type) -> str:
    """A timestamp as a moment of a type, in UTC, as SQL; NULL where the type counts no time."""
    plain = f"convert_timezone(current_timezone(), 'UTC', CAST({sql} AS timestamp_ntz))"
    if kind.kind is Kind.TIMESTAMPTZ:
        return f"CAST({sql} AS timestamp)"
    return f"CAST({plain if kind.kind in (Kind.DATE, Kind.TIMESTAMP) else 'NULL'} AS {kind.stored.spark})"


def later(sql: str, kind: Type) -> str:
    """The next moment of a type that counts time, as SQL."""
    return f"date_add({sql}, 1)" if kind.kind is Kind.DATE else f"timestampadd(MICROSECOND, 1, {sql})"


def needed(columns: Schema, name: str, option: str) -> Column:
    found = columns.find(name)
    if found is None:
        raise ColumnMissing(
            f"write: scd2 has {option}: {name!r}, which the source does not have; it has: {', '.join(columns.names)}",
            column=name,
        )
    return found


def type_of(columns: Schema, sequence: Sequence[str], *, far: str | None) -> Type:
    """The type of the moments of a history: that of its sequence; without one the load dates every change.

    Raises:
        ColumnMissing: a column that the source does not have.
        SchemaRefused: a type that cannot date a version, or that no `far_date` belongs to.
    """
    if not sequence:
        return TIMESTAMPTZ
    found = [needed(columns, name, "sequence_by") for name in sequence]
    first = found[0].type
    if first.kind not in DATING or any(each.type != first for each in found):
        listed = ", ".join(f"{each.name} is {each.label}" for each in found)
        raise SchemaRefused(
            f"write: scd2 cannot date versions by {listed}",
            hint="Use columns of one type, a timestamp, a date or an integer: `write: {kind: scd2, sequence_by: …}`.",
            column=found[0].name,
        )
    if far is not None and first.kind is Kind.INTEGER:
        raise SchemaRefused(
            f"write: scd2 has far_date: {far}, and its versions are dated by {found[0].name}, which is {first}",
            hint="Remove `far_date:`.",
            column=found[0].name,
        )
    return first
