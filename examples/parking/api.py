"""The city's parking API over HTTP: `python api.py --port 8080`.

    GET  /garages                     every garage as it is now, with an ETag
    GET  /readings?since=…&page=1     what was reported from then on: {"data": […], "page": 1, "pages": 3}
    POST /step?minutes=10             the city's clock moves on
    POST /cars?garage=3&number=80     so many cars enter at once
    POST /outage?on=1                 every answer is 503, until `on=0`

It listens on 127.0.0.1 alone: whoever reaches it may move the city's clock.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Mapping
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from parking.city import BEGIN, HISTORY, City, stamp

PAGE = 2000


class Api(ThreadingHTTPServer):
    """The server of one city. Port 0 takes a free one."""

    daemon_threads = True

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.city, self.out, self.lock = City(), False, Lock()

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: Api

    def do_GET(self) -> None:
        """The two lists of records."""
        path, params = self._asked()
        with self.server.lock:
            if self.server.out:
                return self._send(503, {"error": "the city's API is out of order"})
            if path == "/garages":
                return self._send(200, self.server.city.garages())
            if path == "/readings":
                return self._send(*page_of(self.server.city, params))
        return self._send(404, {"error": f"there is no {path}"})

    def do_POST(self) -> None:
        """What happens in the city."""
        path, params = self._asked()
        numbers = {name: int(text) for name, text in params.items()}
        with self.server.lock:
            match path:
                case "/step":
                    self.server.city.step(numbers.get("minutes", 1))
                case "/cars":
                    self.server.city.arrive(numbers["garage"], numbers["number"])
                case "/outage":
                    self.server.out = bool(numbers["on"])
                case _:
                    return self._send(404, {"error": f"there is no {path}"})
        return self._send(200, {"now": stamp(self.server.city.now)})

    def log_message(self, *_: Any) -> None:
        """Quiet."""

    def _asked(self) -> tuple[str, dict[str, str]]:
        parts = urlsplit(self.path)
        return parts.path, dict(parse_qsl(parts.query))

    def _send(self, status: int, document: object) -> None:
        body = json.dumps(document).encode()
        etag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
        if status == 200 and self.headers.get("If-None-Match") == etag:
            status, body = 304, b""
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", etag)
        self.end_headers()
        self.wfile.write(body)


def page_of(city: City, params: Mapping[str, str]) -> tuple[int, object]:
    """Status and document of one page of readings; 400 for a time or a page that is none."""
    try:
        since = datetime.fromisoformat(params.get("since", stamp(BEGIN - HISTORY)))
        number = int(params.get("page", "1"))
    except ValueError as error:
        return 400, {"error": str(error)}
    found = city.readings(since)
    pages = max(1, -(-len(found) // PAGE))
    return 200, {"data": found[(number - 1) * PAGE : number * PAGE], "page": number, "pages": pages}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8080)
    with Api(parser.parse_args().port) as api:
        sys.stdout.write(f"{api.url}\n")
        sys.stdout.flush()
        api.serve_forever()
