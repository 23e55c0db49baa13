"""A schema registry that knows a few schemas, and ends with the process."""

import json
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


def registry_of(schemas: Mapping[int, Any]) -> str:
    """The URL of a registry that has these Avro schemas, by number, and no other."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            schema = schemas.get(int(self.path.rpartition("/")[2]))
            body = json.dumps({"schema": json.dumps(schema)}).encode()
            self.send_response(200 if schema is not None else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"
