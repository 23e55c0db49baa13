"""Tables in memory: versions are tuples of rows, and each carries the position of the load that made it."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from tidegate.core.ids import Target
from tidegate.core.ports.format import Receipt
from tidegate.core.schema import Column
from tidegate.errors import WriteError
from tidegate.testing.rows import Row


class Seen(StrEnum):
    """When readers see what a load writes to a table."""

    PUBLISHED = "published"
    """Once it is published: until then it is a branch, as on Iceberg."""

    WRITTEN = "written"
    """At once: the write is the commit, as on Delta."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """One commit: the rows of the table after it.

    Args:
        parent: the version before it; None for the first one.
        rows: values in the order of the table's fields; a row may be shorter than they are, the rest is NULL.
        written: those that the commit inserted or updated.
        marks: the positions that it carries, as JSON, by the uid of their stream.
    """

    id: str
    parent: str | None
    rows: tuple[tuple[Any, ...], ...] = ()
    written: tuple[tuple[Any, ...], ...] = ()
    marks: Mapping[str, str] = field(default_factory=dict)
    receipt: Receipt = field(default_factory=lambda: Receipt(snapshot=None))


@dataclass(slots=True, kw_only=True)
class Table:
    """A table: its versions by id, the visible one, and branches that no reader sees.

    Args:
        fields: columns by the place of their values in a row; only ever appended to, so a rename moves no value.
    """

    uuid: str
    fields: tuple[Column, ...]
    head: str | None = None
    versions: dict[str, Version] = field(default_factory=dict)
    branches: dict[str, str | None] = field(default_factory=dict)

    def rows(self, version: str | None) -> list[dict[str, Any]]:
        """The rows of a version by name, every field."""
        return [] if version is None else self.named(self.versions[version].rows)

    def named(self, rows: Iterable[tuple[Any, ...]]) -> list[dict[str, Any]]:
        """Rows by name."""
        names = [column.name for column in self.fields]
        return [dict.fromkeys(names) | dict(zip(names, row, strict=False)) for row in rows]

    def placed(self, row: Row) -> tuple[Any, ...]:
        """A row's values in the order of the fields."""
        return tuple(row.get(column.name) for column in self.fields)

    def ancestors(self, version: str | None) -> Iterator[Version]:
        """The version and all before it, newest first."""
        while version is not None:
            found = self.versions[version]
            yield found
            version = found.parent


class Tables:
    """The tables of a lake; whoever looks at one or changes it holds `lock`."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.known: dict[Target, Table] = {}

    def copy(self) -> Tables:
        """The same tables as of now, independent from now on."""
        other = Tables()
        with self.lock:
            for target, table in self.known.items():
                other.known[target] = replace(table, versions=dict(table.versions), branches=dict(table.branches))
        return other

    def table(self, target: Target) -> Table:
        """The table. Raises WriteError where there is none."""
        found = self.known.get(target)
        if found is None:
            raise WriteError(f"table {target} no longer exists", hint="Run again.")
        return found

    def commit(self, table: Table, version: Version) -> str:
        """Keeps a version under an id of its own, which is returned; nobody sees it yet."""
        number = str(len(table.versions) + 1)
        receipt = replace(version.receipt, snapshot=number)
        table.versions[number] = replace(version, id=number, receipt=receipt)
        return number

    def drop_branches(self, target: Target, branches: Sequence[str]) -> None:
        """Drops branches that are there."""
        with self.lock:
            table = self.table(target)
            for branch in branches:
                table.branches.pop(branch, None)
