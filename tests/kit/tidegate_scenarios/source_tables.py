"""Tables that the kit creates in a database, each with the rows that it should have, as Python's values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidegate.core.ids import join_name
from tidegate.core.ports.dialect import Dialect
from tidegate_scenarios.certification import Certification, Scratch

PREFIX = "tidegate_"
"""What every name that the kit creates begins with."""

Value = tuple[str, Any]
"""How SQL writes a value, and the value."""


@dataclass(slots=True, kw_only=True)
class SourceTable:
    """One table and its rows by their key; every change is made in both.

    Args:
        columns: by name the declaration; the first one is the key.
        key: the column by which rows are told apart, if it is not the first one, which the database then counts up.
        clock: a column that each insert and update sets to the server's time; no row holds it here.
    """

    name: str
    kit: Certification
    dialect: Dialect
    scratch: Scratch
    columns: Mapping[str, str]
    key: str = "id"
    clock: str | None = None
    rows: dict[Any, dict[str, Any]] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """As streams name it."""
        return join_name(self.scratch.parts(self.name))

    @property
    def sql(self) -> str:
        """As statements name it."""
        return self.dialect.relation(*self.scratch.parts(self.name)).sql

    def create(self) -> None:
        """The empty table."""
        quoted = {self.dialect.quote(name): declaration for name, declaration in self.columns.items()}
        self.scratch.execute(self.kit.create_table(self.sql, quoted))

    def insert(self, *rows: Mapping[str, Value], through: Scratch | None = None) -> None:
        """Rows of the same columns, by another connection if one is given."""
        names = [*rows[0], *([self.clock] if self.clock else [])]
        now = [self.kit.now] if self.clock else []
        values = [[*(sql for sql, _ in row.values()), *now] for row in rows]
        statement = self.kit.insert(self.sql, [self.dialect.quote(name) for name in names], values)
        (through or self.scratch).execute(statement)
        for row in rows:
            self.rows[row[self.key][1]] = {name: value for name, (_, value) in row.items()}

    def update(self, key: Value, column: str, value: Value) -> None:
        """One value of a row."""
        sets = {column: value[0], **({self.clock: self.kit.now} if self.clock else {})}
        listed = ", ".join(f"{self.dialect.quote(name)} = {sql}" for name, sql in sets.items())
        self.scratch.execute(f"UPDATE {self.sql} SET {listed} WHERE {self._is(key)}")
        self.rows[key[1]][column] = value[1]

    def delete(self, key: Value) -> None:
        """One row."""
        self.scratch.execute(f"DELETE FROM {self.sql} WHERE {self._is(key)}")
        del self.rows[key[1]]

    def _is(self, key: Value) -> str:
        return f"{self.dialect.quote(self.key)} = {key[0]}"
