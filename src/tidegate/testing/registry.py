"""The registry itself, on a database in memory."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import datetime
from typing import Any, cast

from sqlalchemy import delete

from tidegate.registry.database import Database
from tidegate.registry.migrate import ensure_schema
from tidegate.registry.store import Registry
from tidegate.registry.tables import leases


class MemoryRegistry(Registry):
    """A registry that is gone when it is closed; everything else is the real one's.

    Args:
        clock: the time of its records, aware.
    """

    def __init__(self, clock: Callable[[], datetime]) -> None:
        # SQLite's own VFS for this: connections of one process share it, with the locks of a file.
        self._held = Database(f"sqlite:///file:/tidegate-{uuid.uuid4().hex}?vfs=memdb&uri=true")
        self._time = clock
        super().__init__(self._held, clock=clock)

    @classmethod
    def new(cls, clock: Callable[[], datetime]) -> MemoryRegistry:
        """An empty registry."""
        made = cls(clock)
        ensure_schema(made._held)
        return made

    def copy(self) -> MemoryRegistry:
        """What another process finds after this one was killed: everything committed, and nobody who holds a lease."""
        other = MemoryRegistry(self._time)
        with self._held.read() as source, other._held.read() as target:
            here, there = (cast("Any", each.connection.driver_connection) for each in (source, target))
            source.rollback()
            target.rollback()
            here.backup(there)
        with other._held.write() as connection:
            connection.execute(delete(leases))
        return other
