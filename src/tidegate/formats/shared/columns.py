"""Parses column types from the JSON of a table format's metadata.

A column whose type cannot be loaded is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidegate.core.schema import Kind, Type, array
from tidegate.errors import SchemaRefused


def type_of(native: Any, column: str, *, scalar: Callable[[str], Type | None], listed: tuple[str, str]) -> Type:
    """The type of a column.

    Args:
        native: as the format writes it: a text, or an object for what is nested.
        scalar: the type that a text stands for; None for one that is not loaded.
        listed: what the format calls a list, and the key of its elements.

    Raises:
        SchemaRefused: of a type that Tidegate does not load.
    """
    word, inside = listed
    if isinstance(native, str):
        if found := scalar(native):
            return found
    elif native.get("type") == word:
        element = type_of(native[inside], column, scalar=scalar, listed=listed)
        if element.kind is not Kind.ARRAY:
            return array(element)
    raise SchemaRefused(
        f"column {column!r} of the table has type {shown(native)}, which Tidegate cannot load",
        hint="Use another target, or drop the column from the table.",
        column=column,
    )


def shown(native: Any) -> str | None:
    """The type's own word."""
    return native if isinstance(native, str) else native.get("type")
