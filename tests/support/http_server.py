"""A server of HTTP in this process, on a free port of loopback."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from support.served import served


@contextlib.contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[int]:
    """The port on which it is asked until the block ends."""
    with contextlib.contextmanager(served)(ThreadingHTTPServer(("127.0.0.1", 0), handler)) as server:
        yield server.server_port
