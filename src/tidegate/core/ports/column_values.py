"""What a dialect knows of the values of a column, beside the SQL that reads them."""

from __future__ import annotations

from typing import Protocol

from tidegate.core.schema import Column, Kind

EXACT = frozenset({Kind.BINARY, Kind.BOOLEAN, Kind.DATE, Kind.DECIMAL, Kind.INTEGER, Kind.TEXT, Kind.UUID})


class ColumnValues(Protocol):
    """What holds for most databases; a dialect overrides what its database keeps otherwise."""

    def tells_apart(self, column: Column) -> bool:
        """Whether values that a unique index tells apart have canonical texts that differ.

        Not of times with digits that a canonical text leaves out, nor of texts in several spellings of one value.
        """
        return column.type.kind in EXACT
