"""A small Kafka Connect for tests: its REST API over connectors that are only remembered."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import unquote

from support.http_server import serving


@dataclass(kw_only=True)
class ConnectApi:
    """What was put, and the answers that a test wants.

    Args:
        configs: of each connector.
        refuses: the message of a refusal; `{password}` is replaced by the password that was put.
        states: of the connector and its task.
    """

    url: str = ""
    configs: dict[str, dict[str, str]] = field(default_factory=dict)
    refuses: str | None = None
    states: tuple[str, str] = ("RUNNING", "RUNNING")
    puts: int = 0

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        """Status and document."""
        _, _, name, what = (unquote(part) for part in path.split("/"))
        if method == "PUT":
            self.puts += 1
            if self.refuses is not None:
                return 400, {"error_code": 400, "message": self.refuses.format(password=body.get("database.password"))}
            self.configs[name] = body
            return 200, {"name": name, "config": body, "tasks": []}
        if name not in self.configs:
            return 404, {"error_code": 404, "message": f"Connector {name} not found"}
        if what == "config":
            return 200, self.configs[name]
        task = {"id": 0, "state": self.states[1]}
        task |= {"trace": "org.Failure: the slot is in use\n\tat X"} if self.states[1] == "FAILED" else {}
        return 200, {"name": name, "connector": {"state": self.states[0]}, "tasks": [task]}


@contextmanager
def connect_api() -> Iterator[ConnectApi]:
    """One that answers until the block ends."""
    api = ConnectApi()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(None)

        def do_PUT(self) -> None:
            self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def _answer(self, body: Any) -> None:
            status, document = api.answer(self.command, self.path, body)
            content = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            pass

    with serving(Handler) as port:
        api.url = f"http://127.0.0.1:{port}"
        yield api
