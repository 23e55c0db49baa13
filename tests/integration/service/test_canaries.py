"""A secret of each kind through a service: its socket, log, pages, API, alerts, lineage and traces."""

import html
import http.server
import json
import os
import re
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from contextlib import closing

import pytest

from support.lineage_endpoint import endpoint
from support.process_list import Processes
from support.served import served
from support.workspace import Workspace
from tidegate.service import wire
from tidegate.service.place import Place

pytestmark = [
    pytest.mark.slow,
    pytest.mark.postgres,
    pytest.mark.spark,
    pytest.mark.timeout(500),
    pytest.mark.skipif(sys.platform != "linux", reason="the service needs Linux"),
]
TIDEGATE = [sys.executable, "-m", "tidegate"]
NAMES = ("QUERY", "CHECK", "BROKEN", "COLUMN", "KEPT", "SPARK", "DATABASE", "STATEMENT", "WEBHOOK")
CANARIES = {name: f"canary{name.lower()}5f2b" for name in NAMES}
TOKEN = "of-the-dashboard"
PAGES = (
    "/",
    "/proof",
    "/proof/report.html",
    "/lakes",
    "/metrics",
    "/api/v1/openapi.json",
    "/api/v1/status",
    "/api/v1/proof",
    "/api/v1/savings",
    "/api/v1/memory",
)
OF_STREAM = ("/streams/{}", *(f"/api/v1/streams/{{}}/{each}" for each in ("history", "tasks", "intervals", "table")))


class Hook(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.server.taken.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(302 if "canary" in self.path else 200)  # of a hook, and of an alert
        self.send_header("Location", "/elsewhere")
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def hook():
    yield from served(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hook))


@pytest.fixture
def workspace(tmp_path, pg_url) -> Workspace:
    """A stream that loads and whose hooks fail, one whose rows break a check, one with a column that is not there."""
    found = Workspace(folder=tmp_path)
    with closing(sqlite3.connect(tmp_path / "shop.db")) as shop, shop:
        shop.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)")
        shop.executemany("INSERT INTO t VALUES (?, ?)", [(n, f"n{n}") for n in range(9)])
    stream = {
        "source": {"connection": "shop", "table": "t"},
        "target": "lake.s.t",
        "key": ["id"],
        "strategy": "full",
        "write": "replace",
        "checks": [
            {"expression": "name <> '${CHECK}'"},
            {"expression": "id <> 3 or name = '${KEPT}'", "on_fail": "quarantine"},
        ],
        "schedule": {"every": "2s"},
    }
    hooks = [  # what is shown of the statement ends within its secret
        {"sql": "REFRESH MATERIALIZED VIEW of_a_name_for_marts.${STATEMENT}", "connection": "marts"},
        {"webhook": "${HOOK_URL}"},
        {"dbt": "marts"},
    ]
    hooks = [{**each, "tries": 1} for each in hooks]
    (tmp_path / "marts").mkdir()
    (tmp_path / "marts" / "dbt_project.yml").write_text("name: marts\n")
    program = tmp_path / "bin" / "dbt"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nenv\nenv >&2\nsleep 2\nexit 2\n")
    program.chmod(0o755)
    query = "SELECT id, name, ${COLUMN} FROM t WHERE name <> '${QUERY}'"
    found.write(
        {
            "t": {**stream, "after_publish": hooks},
            "broken": {**stream, "target": "lake.s.b", "checks": [{"expression": "name = '${BROKEN}'"}]},
            "named": {**stream, "source": {"connection": "shop", "query": query}, "target": "lake.s.n"},
        },
        connections={
            "shop": {"url": f"sqlite:///{tmp_path / 'shop.db'}"},
            "marts": pg_url.replace("postgres@", "postgres:${DATABASE}@"),
        },
        spark={"master": "local[1]", "conf": {"spark.driver.memory": "1g", "spark.hadoop.fs.gs.odd": "${SPARK}"}},
        alerts={"channels": {"chat": {"url": "${CHAT_URL}"}}},
    )
    return found


def until(fulfilled, seconds=200):
    deadline = time.monotonic() + seconds
    while not fulfilled():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def asked(port, path):
    """The answer, also one that says what is wrong."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers={"Authorization": f"Bearer {TOKEN}"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.read()


def follow(place, messages):
    """Everything that the socket tells its followers."""
    connection = place.connect()
    wire.send(connection, {"ask": "events"})

    def listen():
        with connection:
            while data := connection.recv(wire.LONGEST):
                messages.append(data)

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    return thread


def leaks(data: bytes) -> list[str]:
    """Those of which the data holds more than the first word."""
    return [name for name, canary in CANARIES.items() if canary[:8].encode() in data]


@pytest.mark.usefixtures("workspace")
def test_no_secret_leaves_a_service(hook, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    address = f"json://127.0.0.1:{hook.server_address[1]}/of-the-webhook"
    port, channels = free_port(), {}
    with endpoint() as got, Processes() as processes:
        environ = {**os.environ, **CANARIES, "CHAT_URL": address, "TIDEGATE_DASHBOARD_TOKEN": TOKEN}
        environ["TIDEGATE_TRUST_PROJECT"] = "1"
        environ["HOOK_URL"] = f"http://127.0.0.1:{hook.server_address[1]}/{CANARIES['WEBHOOK']}"
        environ["PATH"] = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
        environ |= {"OTEL_EXPORTER_OTLP_ENDPOINT": got.url, "OPENLINEAGE_URL": got.url}
        log = (tmp_path / "serve.log").open("wb")
        words = ["serve", "--port", str(port), "--trust-project", "--log-level", "debug"]
        service = subprocess.Popen([*TIDEGATE, *words], cwd=tmp_path, env=environ, stdout=log, stderr=log)
        try:
            place, messages = Place.of(tmp_path), []
            until(lambda: place.connect() is not None)
            following = follow(place, messages)
            until(lambda: any(b"broken" in each for each in hook.taken))
            until(lambda: any(b"named" in each for each in hook.taken))
            until(lambda: any(b"answered 302" in each for each in hook.taken))
            ended = {("t", "COMPLETE"), ("broken", "FAIL"), ("named", "FAIL")}
            until(lambda: {(event["job"]["name"], event["eventType"]) for event in got.events} >= ended)
            channels |= {page: asked(port, page) for page in PAGES}
            for name in ("t", "broken", "named"):
                channels |= {page.format(name): asked(port, page.format(name)) for page in OF_STREAM}
                runs = re.findall(r"/runs/[0-9a-f]+/\w+", channels[f"/streams/{name}"].decode())
                channels |= {run: asked(port, run) for run in set(runs)}
            with place.connect() as connection:
                wire.send(connection, {"ask": "state"})
                channels["state"] = connection.recv(wire.LONGEST)
        finally:
            service.terminate()
            assert service.wait(90) == 0
            log.close()
        following.join(20)
        channels |= {"lineage": json.dumps(got.events).encode(), "spans": repr(got.spans).encode()}
    channels["processes"] = b"\n".join(processes.seen)
    for words in (["status"], ["status", "--json"], ["history", "t", "--json"], ["plan", "t"], ["check"]):
        said = subprocess.run([*TIDEGATE, *words], cwd=tmp_path, env=environ, capture_output=True, check=False)
        channels[" ".join(words)] = said.stdout + said.stderr
    channels |= {"alerts": b"".join(hook.taken), "socket": b"".join(messages)}
    channels |= {str(path): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert {"serve.log", "spark.log", "registry.db"} <= {path.name for path in tmp_path.rglob("*")}
    said = {
        "alerts": b"check_failed",
        "lineage": b"dataQualityAssertions",
        "spans": b"check_failed",
        "socket": b"ended",
    }
    said |= {"/streams/broken": b"check_failed", "/streams/named": b"column_missing"}
    failed = (
        b"sql at marts: REFRESH MATERIALIZED VIEW of_a_name_for_marts.***[",
        b"webhook at 127.0.0.1",
        b"answered 302",
    )
    failed = (*failed, b"dbt ended with exit code 2")
    assert [text for text in failed if text not in channels["status --json"]] == []
    assert [text for text in failed if text not in html.unescape(channels["/streams/t"].decode()).encode()] == []
    said |= {"alerts": b"answered 302", "processes": str(tmp_path / "bin" / "dbt").encode()}
    for channel, word in said.items():
        assert word in channels[channel], channel
    assert {name: leaks(data) for name, data in channels.items() if leaks(data)} == {}
