"""The servers of the platform, each on a free port of the loopback: started in order, ended in reverse, by process."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from parking.api import Api
from support import object_store, trino
from support.lake_servers import REST_S3, free_port, rest_running, running, wait_for
from support.postgres import PostgresServer
from tidegate.spark import jars

DATABASES = ("lake", "registry", "office")
OFFICE = """CREATE TABLE tickets (ticket_id bigint PRIMARY KEY, garage_id int NOT NULL, entered_at timestamp NOT NULL,
  left_at timestamp, paid numeric(8,2));
INSERT INTO tickets SELECT n, 1 + n % 15, t, t + interval '1 minute' * (20 + n * 7 % 400), (n % 90) / 2.0
  FROM (SELECT n, date_trunc('day', localtimestamp) - interval '9 days' + interval '1 minute' * n AS t
        FROM generate_series(1, 11520) AS n) AS entered"""


class Receiver(ThreadingHTTPServer):
    """A webhook that keeps what it was sent, as the chat of the operators would."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Webhook)
        self.taken: list[Mapping[str, Any]] = []


class Webhook(BaseHTTPRequestHandler):
    """Takes a message."""

    server: Receiver

    def do_POST(self) -> None:
        """Keeps the message."""
        self.server.taken.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Quiet."""


def start_api(stack: contextlib.ExitStack) -> Api:
    """The city's API."""
    return stack.enter_context(served(Api()))


def start_receiver(stack: contextlib.ExitStack) -> Receiver:
    """The operators' webhook."""
    return stack.enter_context(served(Receiver()))


def start_postgres(stack: contextlib.ExitStack) -> PostgresServer:
    """PostgreSQL with the lake's catalog, Tidegate's registry, and the office's tickets of the last nine days."""
    server = PostgresServer.new()
    stack.callback(server.drop)
    for name in DATABASES:
        server.create_database(name)
    with server.connect("office") as office:
        office.execute(OFFICE)
    return server


def start_s3(stack: contextlib.ExitStack, folder: Path) -> str:
    """The S3 server with its two buckets; its endpoint. The login stands in the environment, as for all its clients."""
    for bucket in ("parking", "sensors"):
        (folder / "s3" / bucket).mkdir(parents=True)
    port = free_port()
    command = [str(object_store.program()), "--port", f"127.0.0.1:{port}", "--region", object_store.REGION]
    login = {"ROOT_ACCESS_KEY": os.environ["AWS_ACCESS_KEY_ID"], "ROOT_SECRET_KEY": os.environ["AWS_SECRET_ACCESS_KEY"]}
    stack.enter_context(running([*command, "posix", str(folder / "s3")], log_folder(folder, "s3"), login, port))
    return f"http://127.0.0.1:{port}"


def start_rest_catalog(stack: contextlib.ExitStack, folder: Path, endpoint: str) -> str:
    """The Iceberg project's own REST catalog, over S3; its URL."""
    store = {
        "CATALOG_IO__IMPL": "org.apache.iceberg.aws.s3.S3FileIO",
        "CATALOG_S3_ENDPOINT": endpoint,
        "CATALOG_S3_PATH__STYLE__ACCESS": "true",
    }
    own = log_folder(folder, "catalog")
    return stack.enter_context(rest_running(own, "s3://parking/city", jars.resolve(REST_S3), store))


def start_trino(stack: contextlib.ExitStack, catalogs: Path) -> trino.TrinoServer:
    """Trino with the catalogs whose properties are in a folder."""
    texts = {path.stem: path.read_text() for path in catalogs.glob("*.properties")}
    return stack.enter_context(trino.running(texts))


def start_service(stack: contextlib.ExitStack, folder: Path) -> int:
    """`tidegate serve`, whose schedule is Dagster's matter; the port of its dashboard and metrics."""
    token, port = secrets.token_urlsafe(16), free_port()
    os.environ["TIDEGATE_DASHBOARD_TOKEN"] = token
    (folder / "metrics-token").write_text(token)
    start_program(stack, ["tidegate", "serve", "--no-schedule", "--port", str(port)], folder, "tidegate", port)
    return port


def start_prometheus(stack: contextlib.ExitStack, folder: Path, web: int) -> str | None:
    """Prometheus with the rules of the docs, over the metrics of `tidegate serve`; None where it is not installed."""
    program = shutil.which("prometheus")
    if program is None:
        return None
    settings = folder / "prometheus.yml"
    settings.write_text(settings.read_text().replace("${TIDEGATE_ADDRESS}", f"127.0.0.1:{web}"))
    port, own = free_port(), log_folder(folder, "prometheus")
    command = [program, f"--config.file={settings}", f"--storage.tsdb.path={own / 'data'}"]
    stack.enter_context(running([*command, f"--web.listen-address=127.0.0.1:{port}"], own, {}, port))
    return f"http://127.0.0.1:{port}"


def start_dagster(stack: contextlib.ExitStack, folder: Path, port: int) -> None:
    """Dagster's web server and its daemon, which runs schedules and sensors."""
    command = ["dagster", "dev", "-f", "definitions.py", "-h", "127.0.0.1", "-p", str(port)]
    start_program(stack, command, folder, "dagster", port)


def start_program(stack: contextlib.ExitStack, command: list[str], folder: Path, name: str, port: int) -> None:
    """A program in the project's folder, from the moment its port answers."""
    own = log_folder(folder, name)
    with (own / "output").open("w+") as output:
        # A session of its own: its end is that of every process that it has started, too.
        process = subprocess.Popen(command, cwd=folder, stdout=output, stderr=output, start_new_session=True)
    stack.callback(end, process)
    wait_for(port, process, own / "output")


def end(process: subprocess.Popen[bytes]) -> None:
    """Ends a program and what it has started, and waits for it."""
    os.killpg(process.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=30)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def log_folder(folder: Path, name: str) -> Path:
    """The folder of one server, with its `output`."""
    own = folder / "servers" / name
    own.mkdir(parents=True)
    return own


@contextlib.contextmanager
def served(server: Any) -> Iterator[Any]:
    """A server of this process, in a thread of its own until the block ends."""
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
