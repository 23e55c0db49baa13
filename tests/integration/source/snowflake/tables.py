"""Tables of the server as sources."""

from __future__ import annotations

from tidegate.core.ids import Connection
from tidegate.sources.database import Database


def connection(server) -> Connection:
    """The server, as a project names it."""
    return Connection(name="snow", url=server.url)


def source(server, table: str, **options) -> Database:
    """A table as a source."""
    return Database(connection=connection(server), table=table, **options)
