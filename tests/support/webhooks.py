"""A receiver of webhooks, on loopback."""

import json
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any, NamedTuple

from support.http_server import serving


class Request(NamedTuple):
    """A webhook as it arrived."""

    path: str
    headers: dict[str, str]
    body: Any


@contextmanager
def receiver(*answers, location=None, hang=0.0):
    """A server that answers with these codes one after the other, the last for ever.

    Yields its URL, the requests that it got, and the codes that are left, which may be replaced.
    """
    got, left = [], list(answers)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got.append(Request(self.path, dict(self.headers), json.loads(body)))
            time.sleep(hang)
            self.send_response(left.pop(0) if len(left) > 1 else left[0])
            if location:
                self.send_header("Location", location)
            self.end_headers()

        def log_message(self, *_):
            """Nothing."""

    with serving(Handler) as port:
        yield f"http://127.0.0.1:{port}/hook/T0KEN-in-the-path", got, left
