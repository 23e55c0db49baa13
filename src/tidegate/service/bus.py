"""The events of every command of a service, for those who follow them."""

from __future__ import annotations

import json
import socket
from contextlib import suppress
from dataclasses import dataclass, field

from tidegate.service import wire


@dataclass(kw_only=True)
class Bus:
    """Passes on what processes of the service tell. Nobody waits for a follower: one that is slow misses events."""

    tellers: list[socket.socket] = field(default_factory=list)
    followers: list[socket.socket] = field(default_factory=list)

    @property
    def connections(self) -> tuple[socket.socket, ...]:
        """Of all of them."""
        return (*self.tellers, *self.followers)

    def forward(self, connection: socket.socket) -> bool:
        """Passes on the next event of a teller; False at the end of the connection."""
        message = wire.receive(connection)
        if message is None:
            return False
        data = json.dumps(message[0]).encode()
        for follower in self.followers:
            with suppress(OSError):
                follower.send(data, socket.MSG_DONTWAIT)
        return True

    def left(self, connection: socket.socket) -> None:
        """Closes the connection of one who has ended."""
        for each in (self.tellers, self.followers):
            if connection in each:
                each.remove(connection)
        connection.close()
