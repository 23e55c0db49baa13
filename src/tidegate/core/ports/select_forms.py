"""The parts of a SELECT that databases write differently: text only, as part of a dialect."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol


class SelectForms(Protocol):
    """What most databases write; a dialect overrides what its database writes otherwise."""

    def named(self, subquery: str, name: str) -> str:
        """A subquery as it stands behind FROM."""
        return f"({subquery}) AS {name}"

    def descending(self, sql: str) -> str:
        """In ORDER BY: the greatest value first, NULL last."""
        return f"{sql} DESC NULLS LAST"

    def limited(self, columns: str, rest: str, rows: int, *, distinct: bool = False) -> str:
        """A SELECT of these columns that gives at most so many rows; `rest` begins with FROM."""
        return f"SELECT {'DISTINCT ' if distinct else ''}{columns} {rest} LIMIT {rows}"

    def every(self, columns: Sequence[str]) -> str:  # noqa: ARG002 - few know no star there
        """All columns of a relation, given by their quoted names, before another expression."""
        return "*"

    def is_among(self, values: Sequence[str], rest: str) -> str:
        """Whether the values of a row are those of any row of a SELECT of the same ones; `rest` begins with FROM."""
        one = values[0] if len(values) == 1 else f"({', '.join(values)})"
        return f"{one} IN (SELECT {', '.join(values)} {rest})"

    def tiles(self, count: int, order: str) -> str:
        """The number of the part that a row lies in, of so many parts with equally many rows in that order."""
        return f"ntile({count}) OVER (ORDER BY {order})"

    def remainder(self, sql: str, divisor: int) -> str:
        """Of a whole number's division, with the sign of the dividend."""
        return f"({sql} % {divisor})"

    def by_characters(self, text: str) -> tuple[str, Callable[[str], str]]:
        """A text in a form of which equal ones have the same characters, blanks at the end included; and its inverse.

        `left` and `string` are compared and grouped by it.
        """
        return text, str
