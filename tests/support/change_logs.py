"""A simulated SQL Server's own logs, opened as a stream opens them, and a lake's table that is a plain dict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support import simulated_sqlserver as simulated
from support.simulated_changes import ChangeServer
from tidegate.core.column_selection import ColumnSelection
from tidegate.core.ids import Connection
from tidegate.core.log import LogSpan
from tidegate.dialects.sqlserver import SqlServer
from tidegate.dialects.sqlserver.session import SqlServerSession
from tidegate.sources.change_log.capture import capture
from tidegate.sources.change_log.capture import log as captures
from tidegate.sources.change_log.events import Event
from tidegate.sources.change_log.tracking import log as trackings
from tidegate.sources.database.probe import DatabaseProbe

CONNECTION = Connection(name="erp", url=simulated.URL)


@contextmanager
def probe_of(server: ChangeServer, **selection: Any) -> Iterator[DatabaseProbe]:
    """The table, as a stream opens it."""
    dialect = SqlServer()
    session = SqlServerSession(dialect, CONNECTION, connect=server.connect)
    try:
        yield DatabaseProbe(dialect, session, dialect.relation("dbo", "orders"), ColumnSelection(**selection))
    finally:
        session.close()


@contextmanager
def capture_log(
    server: ChangeServer, *, instance: str = "dbo_orders", key: tuple[str, ...] = ("id",), **selection: Any
) -> Iterator[captures.CaptureLog]:
    """Its capture instance."""
    options = capture.CaptureOptions(
        connection=CONNECTION, instance=instance, table="dbo.orders", key=key, folder=Path()
    )
    with probe_of(server, **selection) as table, captures.opened(options, table, server.connect) as log:
        yield log


@contextmanager
def tracking_log(server: ChangeServer, *, key: tuple[str, ...] = ("id",)) -> Iterator[trackings.TrackingLog]:
    """Its change tracking."""
    options = trackings.TrackingOptions(connection=CONNECTION, table="dbo.orders", key=key, folder=Path())
    with probe_of(server) as table, trackings.opened(options, table, server.connect) as log:
        yield log


@dataclass(kw_only=True)
class Lake:
    """A table that is loaded: its rows by key, and its position.

    Args:
        refused: events that were refused.
    """

    state: Mapping[str, Any] | None = None
    rows: dict[int, dict[str, Any]] = field(default_factory=dict)
    refused: list[Event] = field(default_factory=list)

    def load(self, server: ChangeServer, opened: Any, *, most: int | None = None, between: Any = None) -> LogSpan:
        """One load.

        Args:
            opened: `capture_log` or `tracking_log`.
            between: what happens at the source between detection and reading.
        """
        with opened(server) as log:
            span: LogSpan = log.after(self.state, most=most)
            names = log.schema().names
            if span.bulk:
                self.rows = {key: dict(row) for key, row in server.rows.items()}
            if between is not None:
                between()
            if not span.bulk:
                found = [event for part in span.slices for event in log.decoded(part, log.schema())]
                for event in sorted(found, key=lambda one: one.order):
                    self.apply(event, names)
        self.state = span.state
        return span

    def apply(self, event: Event, names: tuple[str, ...]) -> None:
        """One event, as the strategy applies it."""
        row = {name: self.stored(value) for name, value in zip(names, event.values, strict=True)}
        if event.refused is not None:
            self.refused.append(event)
        elif event.deleted:
            self.rows.pop(row["id"], None)
        else:
            known = self.rows.get(row["id"], {})
            self.rows[row["id"]] = row | {name: known.get(name) for name in event.unknown}

    def stored(self, value: Any) -> Any:
        """A text travels as its bytes."""
        return value.decode() if isinstance(value, bytes) else value
