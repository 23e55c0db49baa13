"""SQL Server's protocol in front of a simulated server, for the real drivers: statements in, rows out.

As far as pymssql and Microsoft's JDBC driver use it here: a login without TLS, batches, and statements that are
prepared without parameters. A column's type is told from its values. Source: MS-TDS 7.4.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pymssql

from support.simulated import SimulatedConnection, SimulatedServer
from support.tds import exactly, packet

BATCH, CALL, ATTENTION, LOGIN, PRELOGIN = 1, 3, 6, 16, 18
EXECUTE, PREPARE_AND_EXECUTE, RUN_PREPARED, UNPREPARE = 10, 13, 12, 15
NOT_SUPPORTED = 2
COLLATION = b"\x09\x04\xd0\x00\x34"
MORE, COUNTED, FAILED = 1, 16, 2
UNKNOWN = 0xFFFFFFFFFFFFFFFF
USER = "loader"
UNKNOWN_LOGIN = pymssql.OperationalError((18456, b"Login failed for user."))


@dataclass(kw_only=True)
class WireServer:
    """A simulated server that listens."""

    server: SimulatedServer
    listener: socket.socket = field(default_factory=lambda: socket.create_server(("127.0.0.1", 0)))
    clients: list[socket.socket] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Without TLS, which is what it speaks."""
        return f"sqlserver://loader:s3cr3t@127.0.0.1:{self.listener.getsockname()[1]}/shop?sslmode=disable"

    def answer(self) -> None:
        """Every connection until the listener is closed."""
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            self.clients.append(client)
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError, EOFError):
            connection = self.server.connect()
            try:
                _Session(client=client, connection=connection).speak()
            finally:
                connection.close()


@contextlib.contextmanager
def listening(server: SimulatedServer) -> Iterator[WireServer]:
    """That server at a port of its own."""
    found = WireServer(server=server)
    threading.Thread(target=found.answer, daemon=True).start()
    try:
        yield found
    finally:
        found.listener.close()
        for client in found.clients:
            with contextlib.suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)


@dataclass(kw_only=True)
class _Session:
    """One client."""

    client: socket.socket
    connection: SimulatedConnection
    prepared: list[str] = field(default_factory=list)

    def speak(self) -> None:
        while True:
            kind, data = self._received()
            match kind:
                case _ if kind == PRELOGIN:
                    self._send(_prelogin())
                case _ if kind == LOGIN:
                    self._send(_logged_in() if _user(data) == USER else _failed(UNKNOWN_LOGIN))
                case _ if kind == BATCH:
                    self._send(self._batch(_behind_headers(data).decode("utf-16-le")))
                case _ if kind == CALL:
                    self._send(self._call(_behind_headers(data)))
                case _ if kind == ATTENTION:
                    self._send(_done(0x20))
                case _:
                    raise EOFError(f"a message of type {kind}")

    def _batch(self, sql: str) -> bytes:
        try:
            rows, names = self._asked(sql)
        except pymssql.Error as error:
            return _failed(error)
        return _done(0) if rows is None else _table(rows, names) + _done(COUNTED, len(rows))

    def _call(self, data: bytes) -> bytes:
        number = struct.unpack("<HH", data[:4])[1]
        parameters = list(_parameters(data[6:]))
        match number:
            case _ if number == EXECUTE:
                sql = str(parameters[0])
            case _ if number == PREPARE_AND_EXECUTE:
                sql = str(parameters[2])
                self.prepared.append(sql)
            case _ if number == RUN_PREPARED:
                sql = self.prepared[int(parameters[0]) - 1]
            case _ if number == UNPREPARE:
                return b"\x79" + struct.pack("<i", 0) + _done(0, token=b"\xfe")
            case _:
                raise EOFError(f"a call of procedure {number}")
        try:
            rows, names = self._asked(sql)
        except pymssql.Error as error:
            return _failed(error)
        found = _table(rows or [], names) + _done(MORE | COUNTED, len(rows or []), token=b"\xff")
        handle = b""
        if number == PREPARE_AND_EXECUTE:
            handle = b"\xac" + struct.pack("<HB", 0, 0) + b"\x01" + struct.pack("<IH", 0, 0) + b"\x26\x04\x04"
            handle += struct.pack("<i", len(self.prepared))
        return found + b"\x79" + struct.pack("<i", 0) + handle + _done(0, token=b"\xfe")

    def _asked(self, sql: str) -> tuple[list[tuple[Any, ...]] | None, Sequence[str]]:
        rows = self.connection.answer(sql)
        width = len(rows[0]) if rows else 0
        return rows, self.connection.names or [f"column{place}" for place in range(width)]

    def _received(self) -> tuple[int, bytes]:
        found = b""
        while True:
            head = exactly(self.client, 8)
            found += exactly(self.client, struct.unpack(">H", head[2:4])[0] - 8)
            if head[1] & 1:
                return head[0], found

    def _send(self, data: bytes) -> None:
        pieces = [data[at : at + 4000] for at in range(0, len(data), 4000)]
        for place, piece in enumerate(pieces, start=1):
            sent = bytearray(packet(piece))
            sent[1] = int(place == len(pieces))
            self.client.sendall(bytes(sent))


def _behind_headers(data: bytes) -> bytes:
    return data[struct.unpack("<I", data[:4])[0] :]


def _user(data: bytes) -> str:
    """Who logs in: the second text of LOGIN7."""
    start, length = struct.unpack("<HH", data[40:44])
    return data[start : start + 2 * length].decode("utf-16-le")


def _parameters(data: bytes) -> Iterator[str | int | None]:
    """Texts and integers, the only ones that these drivers send for a statement without parameters."""
    while data:
        name = data[0]
        data = data[2 + 2 * name :]
        kind, data = data[0], data[1:]
        if kind == 0x26:
            length = data[1]
            yield int.from_bytes(data[2 : 2 + length], "little") if length else None
            data = data[2 + length :]
        elif kind == 0xE7:
            most, data = struct.unpack("<H", data[:2])[0], data[7:]
            text, data = _long(data) if most == 0xFFFF else _short(data)
            yield None if text is None else text.decode("utf-16-le")
        elif kind == 0x63:
            length = struct.unpack("<i", data[9:13])[0]
            yield data[13 : 13 + max(0, length)].decode("utf-16-le")
            data = data[13 + max(0, length) :]
        else:
            raise EOFError(f"a parameter of type {kind:x}")


def _short(data: bytes) -> tuple[bytes | None, bytes]:
    length = struct.unpack("<H", data[:2])[0]
    return (None, data[2:]) if length == 0xFFFF else (data[2 : 2 + length], data[2 + length :])


def _long(data: bytes) -> tuple[bytes | None, bytes]:
    if struct.unpack("<Q", data[:8])[0] == UNKNOWN:
        return None, data[8:]
    data, found = data[8:], b""
    while length := struct.unpack("<I", data[:4])[0]:
        found, data = found + data[4 : 4 + length], data[4 + length :]
    return found, data[4:]


def _prelogin() -> bytes:
    """Version 16, and no encryption."""
    options = [(0, b"\x10\x00\x00\x00\x00\x00"), (1, bytes([NOT_SUPPORTED])), (2, b"\x00"), (3, b""), (4, b"\x00")]
    heads, body = b"", b""
    for number, value in options:
        heads += struct.pack(">BHH", number, 5 * len(options) + 1 + len(body), len(value))
        body += value
    return heads + b"\xff" + body


def _logged_in() -> bytes:
    size = "4096".encode("utf-16-le")
    change = b"\x04" + (bytes([4]) + size) * 2
    database = b"\x01" + bytes([4]) + "shop".encode("utf-16-le") + b"\x00"
    name = "Microsoft SQL Server".encode("utf-16-le")
    known = b"\x01\x74\x00\x00\x04" + bytes([len(name) // 2]) + name + b"\x10\x00\x00\x00"
    texts = b"\x07" + bytes([len(COLLATION)]) + COLLATION + b"\x00"
    changes = b"".join(b"\xe3" + struct.pack("<H", len(each)) + each for each in (database, texts, change))
    return changes + b"\xad" + struct.pack("<H", len(known)) + known + _done(0)


def _done(status: int, rows: int = 0, token: bytes = b"\xfd") -> bytes:
    return token + struct.pack("<HHQ", status, 0xC1 if status & COUNTED else 0, rows)


def _failed(error: pymssql.Error) -> bytes:
    number, message = error.args[0] if isinstance(error.args[0], tuple) else error.args
    text, name = message.decode().encode("utf-16-le"), "here".encode("utf-16-le")
    body = struct.pack("<IBBH", number, 1, 16, len(text) // 2) + text
    body += bytes([len(name) // 2]) + name + b"\x00" + struct.pack("<I", 1)
    return b"\xaa" + struct.pack("<H", len(body)) + body + _done(FAILED)


def _table(rows: Sequence[Sequence[Any]], names: Sequence[str]) -> bytes:
    columns = [_column([row[place] for row in rows]) for place in range(len(names))]
    head = b"\x81" + struct.pack("<H", len(names))
    for name, (declared, _) in zip(names, columns, strict=True):
        head += struct.pack("<IH", 0, 1) + declared + bytes([len(name[:128])]) + name[:128].encode("utf-16-le")
    body = [b"\xd1" + b"".join(value for value in row) for row in zip(*(values for _, values in columns), strict=True)]
    return head + b"".join(body)


def _column(values: Sequence[Any]) -> tuple[bytes, list[bytes]]:
    """How a column is declared, and its values."""
    kinds = {type(value) for value in values if value is not None}
    wide = any(isinstance(value, int) and abs(value) >= 2**63 for value in values)
    if kinds == {bool}:
        return b"\x68\x01", [b"\x00" if value is None else bytes([1, value]) for value in values]
    if kinds == {int} and not wide:
        return b"\x26\x08", [b"\x00" if value is None else b"\x08" + struct.pack("<q", value) for value in values]
    if kinds == {float}:
        return b"\x6d\x08", [b"\x00" if value is None else b"\x08" + struct.pack("<d", value) for value in values]
    if kinds in ({Decimal}, {int}):
        scale = max((-int(Decimal(value).as_tuple().exponent) for value in values if value is not None), default=0)
        return bytes([0x6A, 17, 38, scale]), [_decimal(value, scale) for value in values]
    if kinds == {bytes}:
        return b"\xa5\xff\xff", [_chunked(value) for value in values]
    texts = [None if value is None else str(value).encode("utf-16-le") for value in values]
    return b"\xe7\xff\xff" + COLLATION, [_chunked(text) for text in texts]


def _decimal(value: Any, scale: int) -> bytes:
    if value is None:
        return b"\x00"
    whole = int(Decimal(value).scaleb(scale))
    return bytes([17, int(whole >= 0)]) + abs(whole).to_bytes(16, "little")


def _chunked(data: bytes | None) -> bytes:
    if data is None:
        return struct.pack("<Q", UNKNOWN)
    chunk = struct.pack("<I", len(data)) + data if data else b""
    return struct.pack("<Q", len(data)) + chunk + struct.pack("<I", 0)
