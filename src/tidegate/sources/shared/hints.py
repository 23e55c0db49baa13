"""What helps where a value of a typed file does not fit: the same words, whichever reader finds it first."""

from __future__ import annotations

from tidegate.core.schema import Kind, Type


def of_nanoseconds(name: str) -> str:
    """For a time with digits beyond microseconds."""
    return (
        f"`source: {{options: {{round: true}}}}` truncates them, and `source: {{columns: {{{name}: bigint}}}}` loads "
        "the nanoseconds as a number, into a table of its own (`target:`)."
    )


def of_number(name: str, types: tuple[Type, Type]) -> str:
    """For a number that is not one of the column's type."""
    wide = "double" if any(each.kind is Kind.FLOAT for each in types) else "decimal(38,9)"
    return (
        f"State a type that holds the values of all files, such as `source: {{columns: {{{name}: {wide}}}}}`; a table "
        "that was loaded before gets it by `tidegate run STREAM --full-refresh --yes`."
    )
