"""The messages of the socket: one JSON document each, with the open files that travel beside it.

caller -> service   {"ask": "command", ...} with stdin, stdout and stderr; then {"signal": 2}
{"ask": "spark", ...}; then {"done": true}
{"ask": "state"}
service -> caller   {"begun": true}, then {"exit": 0}; {"refused": "..."}, {"port": 4711, "secret": "..."}, a state
"""

from __future__ import annotations

import json
import os
import socket
import struct
from collections.abc import Mapping, Sequence
from typing import Any

LONGEST = 1 << 20
CREDENTIALS = struct.Struct("3i")


def send(connection: socket.socket, document: Mapping[str, Any], files: Sequence[int] = ()) -> None:
    """Raises OSError where nobody listens any longer."""
    data = json.dumps(document).encode()
    if files:
        socket.send_fds(connection, [data], list(files))
    else:
        connection.send(data)


def receive(connection: socket.socket, files: int = 0) -> tuple[dict[str, Any], list[int]] | None:
    """The next message; None at the end, and for what is none.

    Args:
        files: how many open files may travel beside it; they are the receiver's to close.
    """
    try:
        data, opened, _, _ = socket.recv_fds(connection, LONGEST, files)
    except OSError:
        return None
    try:
        document = json.loads(data) if data else None
    except ValueError:
        document = None
    if not isinstance(document, dict):
        for each in opened:
            os.close(each)
        return None
    return document, opened


def user_of(connection: socket.socket) -> int:
    """The user of the process at the other end, as the kernel says."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    return int(CREDENTIALS.unpack(credentials)[1])
