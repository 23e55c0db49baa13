"""What the tables' own metadata says, read in the background so that no page waits for a catalog."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from tidegate.core.ports.format import SinceLoad, TableState
from tidegate.engine.table_view import TableView
from tidegate.errors import TidegateError
from tidegate.service.web.port import ServicePort

FRESH = 300.0
"""Seconds after which a table is read again when a page shows it."""


@dataclass(slots=True)
class Tables:
    """Tables by the name of their stream, as they were when they were last read; one is read at a time."""

    service: ServicePort
    _known: dict[str, tuple[float, TableView | None]] = field(default_factory=dict)
    _waiting: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _reader: threading.Thread | None = None

    def known(self, names: Sequence[str]) -> dict[str, TableView]:
        """Those that were read; the others, and those that are old, are read next."""
        now = time.monotonic()
        with self._lock:
            old = [name for name in names if name not in self._known or now - self._known[name][0] > FRESH]
            self._waiting += [name for name in old if name not in self._waiting]
            if self._waiting and (self._reader is None or not self._reader.is_alive()):
                self._reader = threading.Thread(target=self._read, name="tables", daemon=True)
                self._reader.start()
            found = {name: self._known[name][1] for name in names if name in self._known}
        return {name: view for name, view in found.items() if view is not None}

    def states(self, names: Sequence[str]) -> dict[str, TableState]:
        """Of those that were read, which version they are and whether anybody but a load has changed them."""
        return {
            name: TableState(exists=True, snapshot=view.version, since_load=SinceLoad(same_rows=view.as_loaded))
            for name, view in self.known(names).items()
        }

    def read(self, name: str) -> TableView | None:
        """One table now; None where it is not there or cannot be read."""
        try:
            found = self.service.project.show(name)
        except TidegateError:
            found = None
        with self._lock:
            self._known[name] = (time.monotonic(), found)
        return found

    def _read(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    return
                name = self._waiting.pop(0)
            self.read(name)
