"""A Prometheus server reads the metrics of a project, and promtool accepts the rules."""

from __future__ import annotations

import http.server
import json
import shutil
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from pathlib import Path

import pytest

from support.http_server import serving
from tidegate.api import Project
from tidegate.core.outcome import Outcome, Problem, Result
from tidegate.engine.assemble import assemble
from tidegate.telemetry.metrics import CONTENT_TYPE, Metrics

ROOT = Path(__file__).parents[3]
ODD = 'a "b"\\c\nd'
pytestmark = [
    pytest.mark.servers,
    pytest.mark.slow,
    pytest.mark.skipif(not shutil.which("prometheus"), reason="needs Debian's package prometheus"),
]


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@pytest.fixture
def project(tmp_path):
    stream = {
        "source": {"connection": "shop", "table": "t"},
        "target": "lake.shop.t",
        "strategy": "full",
        "write": "replace",
        "schedule": {"every": "1h"},
    }
    values = {"connections": {"shop": {"url": "sqlite:///s.db"}}, "streams": {ODD: stream}}
    with Project.from_dict(values, folder=tmp_path) as opened:
        yield opened


def end(project, run, **changed):
    place = assemble.place_of(project.config.streams[0], project.lakes)
    registry = project.registry
    registry.register(uid=place.uid, name=place.name, source="s", target=str(place.target))
    registry.start_run(run, place.uid)
    registry.finish_run(run, Outcome(stream=ODD, strategy="full", **changed))


@pytest.fixture
def scraped(project):
    metrics = Metrics(config=project.config, lakes=project.lakes)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            text = metrics.render()
            self.send_response(200)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_):
            pass

    with serving(Handler) as port:
        yield port
    metrics.close()


@pytest.fixture
def prometheus(tmp_path, scraped):
    port = free_port()
    rules = ROOT / "docs/prometheus/rules.yml"
    (tmp_path / "prometheus.yml").write_text(
        "global: {scrape_interval: 1s, evaluation_interval: 1s}\n"
        f"rule_files: [{rules}]\n"
        f"scrape_configs: [{{job_name: tidegate, static_configs: [{{targets: ['127.0.0.1:{scraped}']}}]}}]\n"
    )
    command = [
        "prometheus",
        f"--config.file={tmp_path}/prometheus.yml",
        f"--storage.tsdb.path={tmp_path}/data",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (tmp_path / "log").open("w") as log, subprocess.Popen(command, stdout=log, stderr=log) as server:
        yield f"http://127.0.0.1:{port}"
        server.terminate()


def ask(url, path, **query):
    with urllib.request.urlopen(f"{url}/api/v1/{path}?{urllib.parse.urlencode(query)}", timeout=5) as answer:
        return json.load(answer)["data"]


def until(found, seconds=60):
    last = None
    for _ in range(seconds * 2):
        try:
            if last := found():
                return last
        except OSError:
            pass
        time.sleep(0.5)
    raise AssertionError(f"not within {seconds} s: {last}")


def test_a_prometheus_server_reads_what_was_measured_and_its_rules_fire(project, prometheus):
    end(project, "r1", outcome=Result.LOADED, rows_inserted=7, table_rows=14)
    end(project, "r2", outcome=Result.FAILED, error=Problem(code="source", message="m", hint="h"))
    result = until(lambda: ask(prometheus, "query", query='tidegate_rows_total{kind="inserted"}')["result"])
    (only,) = result
    assert (only["metric"]["stream"], only["metric"]["target"], only["value"][1]) == (ODD, "lake.shop.t", "7")
    percent = ask(prometheus, "query", query="tidegate_changed_records_percent")["result"]
    assert [each["value"][1] for each in percent] == ["50"]
    kinds = ask(prometheus, "metadata", metric="tidegate_rows")["tidegate_rows"]
    assert kinds[0]["type"] == "counter"
    fired = until(
        lambda: [a for a in ask(prometheus, "alerts")["alerts"] if a["labels"]["alertname"] == "TidegateRunFailed"]
    )
    assert fired[0]["labels"]["stream"] == ODD
    targets = ask(prometheus, "targets")["activeTargets"]
    assert [(each["health"], each["lastError"]) for each in targets] == [("up", "")]


def test_promtool_accepts_the_rules_and_their_test():
    folder = ROOT / "docs/prometheus"
    for words in (["check", "rules", "rules.yml"], ["test", "rules", "rules_test.yml"]):
        done = subprocess.run(["promtool", *words], cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
