"""The beginning of SQL Server's protocol: TLS as it is agreed upon there, and an answer that refuses each login.

As far as a driver has to verify whom it talks to. Source: MS-TDS, PRELOGIN, LOGIN7 and the token ERROR.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

REPLY, PRELOGIN, LAST = 4, 0x12, 1
REFUSED = 18456
ENCRYPTED = 1


@dataclass(kw_only=True)
class TdsServer:
    """What a test asks of it: its port, and how many logins were sent over TLS."""

    context: ssl.SSLContext
    listener: socket.socket = field(default_factory=lambda: socket.create_server(("127.0.0.1", 0)))
    logins: int = 0

    @property
    def port(self) -> int:
        return int(self.listener.getsockname()[1])

    def answer(self) -> None:
        """Every connection until the listener is closed."""
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            with client, contextlib.suppress(OSError, EOFError):
                self._speak(client)

    def _speak(self, client: socket.socket) -> None:
        _received(client)
        client.sendall(packet(_prelogin()))
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = self.context.wrap_bio(incoming, outgoing, server_side=True)
        while True:
            try:
                tls.do_handshake()
            except ssl.SSLWantReadError:
                client.sendall(packet(outgoing.read(), PRELOGIN))
                incoming.write(_received(client))
                continue
            if outgoing.pending:
                client.sendall(packet(outgoing.read(), PRELOGIN))
            break
        while True:  # from here on TLS is around the packets, no longer within them
            try:
                tls.read(65536)
                break
            except ssl.SSLWantReadError:
                incoming.write(client.recv(65536) or _ended())
        self.logins += 1
        tls.write(packet(_refusal()))
        client.sendall(outgoing.read())
        client.recv(1)


@contextlib.contextmanager
def serving(certificate: Path, key: Path) -> Iterator[TdsServer]:
    """A server with that certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate, key)
    server = TdsServer(context=context)
    thread = threading.Thread(target=server.answer, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.listener.shutdown(socket.SHUT_RDWR)
        server.listener.close()
        thread.join(10)


def packet(data: bytes, kind: int = REPLY) -> bytes:
    return struct.pack(">BBHHBB", kind, LAST, len(data) + 8, 0, 1, 0) + data


def _received(client: socket.socket) -> bytes:
    """What one message holds, of as many packets as it has."""
    found = b""
    while True:
        head = exactly(client, 8)
        found += exactly(client, struct.unpack(">H", head[2:4])[0] - 8)
        if head[1] & LAST:
            return found


def exactly(client: socket.socket, length: int) -> bytes:
    found = b""
    while len(found) < length:
        found += client.recv(length - len(found)) or _ended()
    return found


def _ended() -> bytes:
    raise EOFError


def _prelogin() -> bytes:
    """Version 16, and that everything is encrypted."""
    options = [(0, b"\x10\x00\x00\x00\x00\x00"), (ENCRYPTED, b"\x01"), (2, b"\x00"), (3, bytes(4)), (4, b"\x00")]
    heads, body = b"", b""
    for number, value in options:
        heads += struct.pack(">BHH", number, 5 * len(options) + 1 + len(body), len(value))
        body += value
    return heads + b"\xff" + body


def _refusal() -> bytes:
    text, name = "Login failed for user 'loader'.".encode("utf-16-le"), "here".encode("utf-16-le")
    error = struct.pack("<IBBH", REFUSED, 1, 14, len(text) // 2) + text
    error += bytes([len(name) // 2]) + name + b"\x00" + struct.pack("<I", 1)
    done = b"\xfd" + struct.pack("<HHQ", 2, 0, 0)
    return b"\xaa" + struct.pack("<H", len(error)) + error + done
