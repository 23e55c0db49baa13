"""Casts of a source's values to the type of a table's column that source and table can prove to be the same value.

A cast is allowed where the canonical text of each value in the table's type is its text in the source's type, and
behind it what the pair of types says alone. So the source's own engine can say what the table should hold.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.core.schema import Kind, Type

ALLOWED = (
    "integers to decimals, decimals to decimals with at least as many digits after the point, decimals without such "
    "digits and texts to integers, dates to timestamps without zone, and every type that verification covers to text"
)
"""The pairs of types that are cast, for people."""

MIDNIGHT = " 00:00:00.000000"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cast:
    """How values of a column are cast.

    Args:
        source, table: the types.
        suffix: what stands behind the text of each value, but NULL, in the table's type.
    """

    source: Type
    table: Type
    suffix: str = ""


def cast_of(source: Type, table: Type) -> Cast | None:
    """The cast from a source's type to a table's; None where texts of the same value may differ otherwise.

    Example:
        >>> from tidegate.core.schema import BIGINT, DOUBLE, TEXT, decimal
        >>> cast_of(BIGINT, decimal(20, 2)).suffix, cast_of(BIGINT, TEXT).suffix
        ('.00', '')
        >>> cast_of(decimal(20, 2), BIGINT), cast_of(DOUBLE, TEXT)
        (None, None)
    """
    match source.kind, table.stored.kind:
        case Kind.INTEGER | Kind.DECIMAL, Kind.DECIMAL if table.scale >= source.scale:
            point = "." if table.scale and not source.scale else ""
            suffix = point + "0" * (table.scale - source.scale)
        case Kind.DECIMAL, Kind.INTEGER if source.scale == 0:
            suffix = ""
        case Kind.TEXT, Kind.INTEGER:
            suffix = ""
        case Kind.DATE, Kind.TIMESTAMP:
            suffix = MIDNIGHT
        case _, Kind.TEXT if source.covered:
            suffix = ""
        case _:
            return None
    return Cast(source=source, table=table.stored, suffix=suffix)
