"""Tables of a Trino server as sources."""

from __future__ import annotations

from tidegate.core.ids import Connection
from tidegate.sources.database import Database


def source(server, table: str, *, catalog: str = "memory", schema: str = "default", **options) -> Database:
    """A source on that server."""
    return Database(connection=Connection(name="tree", url=server.url(catalog, schema)), table=table, **options)
