"""Lower bounds of integers that a table format cannot safely use to prune files.

Used for every condition on stored rows. Pure.

Iceberg's `truncate(W)` of an integer is computed in the column's own width: the step with the smallest integers starts
below the range of the type and wraps around to one of the largest numbers. A bound within that step, projected through
the partitioning, would exclude every file. Source: Iceberg specification, "Partition Transforms"; `Truncate.java`.
"""

from __future__ import annotations

from tidegate.core.schema import Kind, Type

# W is at most 2**31 - 1. The step that wraps holds 2**31 mod W values of an int, which is less than 2**30.
_WRAPPING = {32: 2**30, 64: 2**31}


def least(kind: Type) -> int | None:
    """The least whole number of the type; None where it holds no whole numbers.

    Example:
        >>> from tidegate.core.schema import INT, decimal
        >>> least(INT), least(decimal(2, 0))
        (-2147483648, -99)
    """
    if kind.kind is Kind.INTEGER:
        return -(1 << (kind.bits - 1))
    if kind.kind is Kind.DECIMAL and kind.scale == 0:
        return 1 - int(10**kind.precision)
    return None


def may_wrap(kind: Type, text: str) -> bool:
    """Whether a value may lie in a step of `truncate` that wraps.

    Example:
        >>> from tidegate.core.schema import BIGINT, INT
        >>> may_wrap(INT, "-2147483000"), may_wrap(INT, "-1"), may_wrap(BIGINT, "-2147483000")
        (True, False, False)
    """
    lowest = least(kind) if kind.kind is Kind.INTEGER else None
    return lowest is not None and int(text) < lowest + _WRAPPING[kind.bits]
