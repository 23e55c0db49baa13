"""Errors that the expressions of several dialects share."""

from __future__ import annotations

from tidegate.core.refusals import marked
from tidegate.core.schema import Column, Type
from tidegate.errors import InternalError


def type_mismatch(column: Column) -> str:
    """What an expression raises for a value that the column's type does not allow; never shows the value."""
    return marked(f"column {column.name!r} holds a value that does not fit {column.type}")


def uncovered(column: Column) -> InternalError:
    """The error for code that needs the canonical text of a type without one."""
    return InternalError(f"column {column.name!r} of type {column.type} has no canonical text")


def no_literal(kind: Type) -> InternalError:
    """The error for code that needs a literal of a type without literals."""
    return InternalError(f"no literal for a column of type {kind}")
