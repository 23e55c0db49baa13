"""Tables that are changed by statements with their values in them: one DELETE and one INSERT a phase."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from matrix.histories import ADDED, HELD, HIDDEN, TYPES
from matrix.model import KEY, Event


@dataclass(kw_only=True)
class StatementTable(ABC):
    """One table in a schema of its own.

    Unless it is read by a query, it has a column more, which changes with every row and is not to be read.
    """

    url: str
    query: bool = False
    phases: int = 0
    columns: tuple[str, ...] = tuple(TYPES)
    kinds: ClassVar[Mapping[str, str]]
    quote: ClassVar[str] = ""
    needed: ClassVar[Sequence[str]] = (KEY,)

    def connections(self) -> dict[str, Any]:
        return {"shop": {"url": self.url}}

    def lakes(self) -> dict[str, Any]:
        return {}

    def change(self, events: Sequence[Event]) -> None:
        last = {event.key: event.row for event in events}
        self.phases += 1
        hidden = {} if self.query else {HIDDEN: self.hidden}
        names = ", ".join(map(self._name, (*self.columns, *hidden)))
        rows = [
            ", ".join([*(self.literal(name, row[name]) for name in self.columns), *hidden.values()])
            for row in last.values()
            if row
        ]
        if last:
            self._run(f"DELETE FROM {self.table} WHERE {self._name(KEY)} IN ({', '.join(map(str, last))})")
        if rows:
            self._run(f"INSERT INTO {self.table} ({names}) {self.several(rows)}")

    def widen(self) -> None:
        self.columns = tuple(HELD)
        self._run(f"ALTER TABLE {self.table} ADD COLUMN {self._name(ADDED)} {self.kinds[HELD[ADDED]]}")

    def declared(self, hidden: str) -> str:
        """The columns of a new table.

        Args:
            hidden: the type of the column that is not to be read.
        """
        kinds = {name: f"{self.kinds[kind]}{' NOT NULL' * (name in self.needed)}" for name, kind in TYPES.items()}
        kinds |= {} if self.query else {HIDDEN: hidden}
        return ", ".join(f"{self._name(name)} {kind}" for name, kind in kinds.items())

    def _name(self, name: str) -> str:
        return f"{self.quote}{name}{self.quote}"

    @property
    @abstractmethod
    def table(self) -> str:
        """What statements call it."""

    @property
    @abstractmethod
    def hidden(self) -> str:
        """The value of the column that is not to be read, another one in every phase."""

    @abstractmethod
    def literal(self, name: str, value: Any) -> str:
        """A value of that column."""

    @abstractmethod
    def several(self, rows: Sequence[str]) -> str:
        """Rows as an INSERT has them behind its columns."""

    @abstractmethod
    def _run(self, *statements: str) -> None: ...
