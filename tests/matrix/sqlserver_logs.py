"""SQL Server's own logs of a table, of a simulated server that the real drivers speak to."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from matrix.histories import TYPES
from matrix.model import KEY, Event, Row
from support import simulated_changes
from support.simulated_changes import ChangeServer, Column
from support.tds_server import listening

NATIVES = {
    "bigint": ("bigint", "BIGINT"),
    "uuid": ("uniqueidentifier", "TEXT"),
    "text": ("nvarchar(200)", "TEXT"),
    "int": ("int", "INTEGER"),
    "decimal(10,2)": ("decimal(10,2)", "DECIMAL(10,2)"),
    "date": ("date", "DATE"),
    "timestamp": ("datetime2(6)", "TIMESTAMP"),
}
"""None so large that an update that leaves it alone does not say its value, of which a history makes no version."""


@dataclass(kw_only=True)
class LogServers:
    """Servers that listen until all of them end, by their URL."""

    held: contextlib.ExitStack
    found: dict[str, ChangeServer] = field(default_factory=dict)

    def create(self) -> str:
        """A new one with a table without rows; its URL."""
        columns = {name: Column(native=NATIVES[kind][0], type=NATIVES[kind][1]) for name, kind in TYPES.items()}
        server = simulated_changes.server(columns=columns)
        url: str = self.held.enter_context(listening(server)).url
        self.found[url] = server
        return url


@contextlib.contextmanager
def log_servers() -> Iterator[LogServers]:
    """None yet."""
    with contextlib.ExitStack() as held:
        yield LogServers(held=held)


@pytest.fixture(scope="session")
def sqlserver_logs() -> Iterator[LogServers]:
    with log_servers() as found:
        yield found


@dataclass(kw_only=True)
class LoggedTable:
    """One table; each event is a transaction, and the capture job comes to them at the end of a phase."""

    server: ChangeServer
    url: str
    log: dict[str, Any]

    def connections(self) -> dict[str, Any]:
        return {"shop": {"url": self.url}}

    def lakes(self) -> dict[str, Any]:
        return {}

    def source(self, name: str) -> dict[str, Any]:
        return {"connection": "shop", "table": "dbo.orders", **self.log}

    def make(self) -> None:
        self.server.capture_table()

    def change(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.row is not None or event.key in self.server.rows:  # fewer steps than were played may not add it
                self.server.commit(self._statement(event.key, event.row))
        self.server.capture()
        self.server.tick(5)
        self.server.idle()

    def _statement(self, key: int, row: Row | None) -> list[Any]:
        if row is None:
            return self.server.delete(key)
        values = {name: row[name] for name in TYPES}
        if key in self.server.rows:
            return self.server.update(key, **{name: value for name, value in values.items() if name != KEY})
        return self.server.insert(values)
