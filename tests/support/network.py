"""A bad network between Tidegate and a server: a TCP proxy that delays bytes, cuts connections, or lets all vanish.

Asked for by tests of faults. Knows no protocol; a test that waits for a message of one looks for its bytes.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

SIZE = 65536


class Cut(Exception):
    """Raised by a fault: the connection ends here, both ways, after what it is given."""

    def __init__(self, last: bytes = b"") -> None:
        super().__init__("the connection was cut")
        self.last = last


@dataclass(frozen=True, kw_only=True)
class Bytes:
    """What one side sent at once.

    Args:
        before: how many bytes this side had sent in this connection.
    """

    data: bytes
    to_server: bool
    before: int


Fault = Callable[[Bytes], bytes]
"""What becomes of bytes on their way; raises Cut where the connection ends."""


def healthy(sent: Bytes) -> bytes:
    """Passes everything on."""
    return sent.data


def delayed(seconds: float) -> Fault:
    """Each message takes that long, either way."""

    def fault(sent: Bytes) -> bytes:
        time.sleep(seconds)
        return sent.data

    return fault


def cut_after(count: int) -> Fault:
    """The server's answer breaks off behind so many bytes of a connection, the last of which still arrive."""

    def fault(sent: Bytes) -> bytes:
        if sent.to_server or sent.before + len(sent.data) <= count:
            return sent.data
        raise Cut(sent.data[: max(count - sent.before, 0)])

    return fault


def lost(sent: Bytes) -> bytes:
    """A black hole: connections stay open and nothing arrives."""
    return b""


@dataclass(kw_only=True)
class CutReply:
    """The first request with these bytes reaches the server; its reply, and the connection, do not come back.

    Args:
        reply: bytes in the reply that is meant, where others come before it.
        times: how many such replies are lost.
    """

    request: bytes
    reply: bytes = b""
    times: int = 1
    lost: int = 0
    _armed: bool = False

    def __call__(self, sent: Bytes) -> bytes:
        """See `Fault`."""
        if sent.to_server:
            self._armed = self._armed or (self.lost < self.times and self.request in sent.data)
        elif self._armed and self.reply in sent.data:
            self._armed, self.lost = False, self.lost + 1
            raise Cut
        return sent.data


@dataclass(kw_only=True)
class Network:
    """Connections from a port of 127.0.0.1 to a server, healthy until a fault is set."""

    server: int
    fault: Fault = healthy
    port: int = 0
    _open: list[socket.socket] = field(default_factory=list)
    _down: bool = False

    def cut(self) -> None:
        """Ends every connection; new ones are refused until `mend`."""
        self._down = True
        self.end_connections()

    def restore(self) -> None:
        """All is well again, for connections that are open, too."""
        self._down, self.fault = False, healthy

    def end_connections(self) -> None:
        """Ends every connection; the next one is served."""
        for each in tuple(self._open):
            _end(each)

    def serve(self, listening: socket.socket) -> None:
        """Takes connections until the port is closed."""
        while True:
            try:
                client, _ = listening.accept()
            except OSError:
                return
            if self._down:
                client.close()
                continue
            try:
                server = socket.create_connection(("127.0.0.1", self.server))
            except OSError:
                client.close()
                continue
            self._open += [client, server]
            for source, target, to_server in ((client, server, True), (server, client, False)):
                threading.Thread(target=self._pass, args=(source, target, to_server), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, to_server: bool) -> None:
        before = 0
        with contextlib.suppress(OSError):
            while data := source.recv(SIZE):
                try:
                    target.sendall(self.fault(Bytes(data=data, to_server=to_server, before=before)))
                except Cut as cut:
                    target.sendall(cut.last)
                    break
                before += len(data)
        for each in (source, target):
            _end(each)
            with contextlib.suppress(ValueError):
                self._open.remove(each)


@contextlib.contextmanager
def between(server: int) -> Iterator[Network]:
    """A network to the server at that port of 127.0.0.1, until the block ends."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        network = Network(server=server, port=listening.getsockname()[1])
        threading.Thread(target=network.serve, args=(listening,), daemon=True).start()
        try:
            yield network
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            network.cut()


def _end(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
