"""Servers of tests, in a thread of their own for as long as a test lasts."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from typing import Any


def served(server: socketserver.BaseServer) -> Iterator[Any]:
    """Serves until the fixture ends; what handlers take is in `taken`."""
    server.taken = []  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()
