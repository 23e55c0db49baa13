"""Servers of tests, in a thread of their own for as long as a test lasts."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from typing import Any


def served(server: socketserver.BaseServer) -> Iterator[Any]:
    """Serves until the fixture ends, whatever ends it; what handlers take is in `taken`."""
    server.taken = []  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=240)
