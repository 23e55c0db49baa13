"""What dialects share whose fingerprint SQL people print, to run it on a connection of their own.

Never opens a connection.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tidegate.core.grouping import Grouping
from tidegate.core.ports.dialect import Dialect
from tidegate.core.schema import Column, Schema
from tidegate.core.slices import Everything, Slice
from tidegate.dialects.shared.statements import Statements
from tidegate.errors import ConfigError

DIGITS = 38


class PrintsFingerprint(Dialect, Protocol):
    """A dialect that prints the fingerprint of a table as a statement."""

    def fingerprint(
        self,
        table: Sequence[str],
        columns: Sequence[Column],
        *,
        by: Grouping | None = None,
        parts: Sequence[Slice] = (),
    ) -> str:
        """The statement whose row is the fingerprint of a table; with `by` one row a partition, its bucket first.

        Raises:
            ConfigError: several parts without a grouping to distinguish them.
        """
        made = statements(self, table, columns)
        if by is not None:
            return made.grouped(made.bucket(by), parts or (Everything(),))
        if len(parts) > 1:
            raise ConfigError("several parts need a grouping to distinguish them", hint="Give `by=`.")
        return made.fingerprint(parts[0] if parts else Everything(), None)


def statements(dialect: Dialect, table: Sequence[str], columns: Sequence[Column]) -> Statements:
    """The statements over a table given by its parts."""
    return Statements(dialect=dialect, relation=dialect.relation(*table), schema=Schema(columns=tuple(columns)))


def mask(scale: int) -> str:
    """The format of a decimal of 38 digits: no blanks, a digit before the point, all digits behind it.

    Example:
        >>> mask(2)
        'FM999999999999999999999999999999999990.00'
    """
    return f"FM{'9' * max(0, DIGITS - scale - 1)}0{'.' + '0' * scale if scale else ''}"
