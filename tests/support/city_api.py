"""An API of readings that behaves as real ones do: pages, cursors, ETags, and whatever fault a test asks for."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

PAGE = 3


class CityApi(ThreadingHTTPServer):
    """`/readings?since=…&page=…` (`{"data": […], "next": …}`), `/garages` (a list, with an ETag).

    `order` says how cursors are compared. `faults` are answered one by one before anything else:
    `(status, headers, body)`, `"cut"` for half a body, or `"endless"` for one that does not end. `answer` answers
    everything instead, by the parameters of a request, with a document or as a fault.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.readings: list[dict[str, Any]] = []
        self.order: Callable[[Any], Any] = str
        self.garages: list[dict[str, Any]] = []
        self.faults: list[Any] = []
        self.answer: Callable[[dict[str, str]], Any] | None = None
        self.asked: list[str] = []
        self.headers_seen: list[dict[str, str]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: CityApi

    def log_message(self, *_: Any) -> None:
        """Quiet."""

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        self.server.headers_seen.append(dict(self.headers))
        if self.server.faults:
            return self._fail(self.server.faults.pop(0))
        parts = urlsplit(self.path)
        params = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if self.server.answer is not None:
            found = self.server.answer(params)
            return self._fail((200, {}, json.dumps(found).encode()) if isinstance(found, dict) else found)
        if parts.path == "/garages":
            return self._whole(json.dumps(self.server.garages).encode())
        return self._page(params)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()

    def _fail(self, fault: Any) -> None:
        if fault == "cut":
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b'{"data": [{"id": 1')
            self.close_connection = True
            return
        if fault == "endless":
            self.send_response(200)
            self.end_headers()
            self.close_connection = True
            with suppress(OSError):
                while True:
                    self.wfile.write(b" ")
                    time.sleep(0.05)
            return
        status, headers, body = fault
        self._send(status, headers, body)

    def _whole(self, body: bytes) -> None:
        etag = f'"{hashlib.md5(body).hexdigest()}"'
        if self.headers.get("If-None-Match") == etag:
            return self._send(304, {"ETag": etag}, b"")
        return self._send(200, {"ETag": etag}, body)

    def _page(self, params: dict[str, str]) -> None:
        number = int(params.get("page", 1))
        since = params.get("since", "")
        order = self.server.order
        found = [each for each in self.server.readings if not since or order(each["at"]) >= order(since)]
        rows = found[(number - 1) * PAGE : number * PAGE]
        body = {"data": rows, "total": -(-len(found) // PAGE) or 1}
        self._send(200, {}, json.dumps(body).encode())

    def _send(self, status: int, headers: dict[str, str | None], body: bytes) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            if value is not None:
                self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
