"""Detects changes while a source is read that no snapshot holds: what was asked is asked again."""

from __future__ import annotations

from collections.abc import Callable

from tidegate.core.ports.dialect import Relation, Row
from tidegate.errors import SourceMoved

FEWER = "Run again while fewer writes happen."
"""Where reading in one slice would not help, either."""


class Answers:
    """What a database answered since reading began."""

    def __init__(self) -> None:
        self._found: dict[str, list[Row]] = {}

    def keep(self, sql: str, rows: list[Row]) -> None:
        """Remembers the first answer to a statement."""
        self._found.setdefault(sql, rows)

    def confirm(
        self, ask: Callable[[str], list[Row]], connection: str, relation: Relation, hint: str | None = None
    ) -> None:
        """Asks every statement again; the rows of a grouped one come in any order.

        Raises:
            SourceMoved: one has another answer now.
        """
        for sql, before in tuple(self._found.items()):
            if sorted(map(repr, ask(sql))) != sorted(map(repr, before)):
                raise moved(connection, relation, hint)


def moved(connection: str, relation: Relation, hint: str | None = None) -> SourceMoved:
    """The error of a relation that changed while it was read."""
    return SourceMoved(f"connection {connection!r}: {relation.label} was written to while it was being read", hint=hint)
