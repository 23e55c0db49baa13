"""What set-up fetches is pinned by a checksum, and the audit finds what nobody has judged, also without a network."""

from __future__ import annotations

import http.server
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.served import served
from tidegate.spark import jars

ROOT = Path(__file__).parents[3]
COORDINATE = re.compile(r'"([a-z][\w.-]+:[\w.-]+:\d[\w.]*)"')


def test_uv_is_pinned_by_checksums():
    lines = (ROOT / "scripts/uv.txt").read_text().splitlines()
    assert [line.split()[0] for line in lines if line.startswith("uv")] == ["uv==0.13.9"]
    assert (
        len([line for line in lines if re.fullmatch(r"    --hash=sha256:[0-9a-f]{64}( \\)?", line)]) == len(lines) - 2
    )
    for file in ("scripts/setup.sh", "Dockerfile"):
        text = (ROOT / file).read_text()
        assert "--require-hashes" in text
        assert "scripts/uv.txt" in text


def test_every_jar_is_pinned_by_a_checksum():
    texts = (path.read_text() for path in (ROOT / "src").rglob("*.py"))
    named = {found for text in texts for found in COORDINATE.findall(text)}
    assert jars.POSTGRESQL in named
    assert named - jars.SHA256.keys() == jars.BUNDLED.keys()


class Osv(http.server.BaseHTTPRequestHandler):
    """Knows one advisory that is judged, and one that is not."""

    def do_POST(self):
        queries = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["queries"]
        purls = [each["package"]["purl"] for each in queries]
        known = {"org.lz4/lz4-java": "GHSA-lz4", "pkg:pypi/requests@": "GHSA-new"}
        found = [[{"id": name} for part, name in known.items() if part in purl] for purl in purls]
        self._answer({"results": [{"vulns": each} if each else {} for each in found]})

    def do_GET(self):
        self._answer({"aliases": ["CVE-2025-12183"] if self.path.endswith("GHSA-lz4") else []})

    def _answer(self, document):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(document).encode())

    def log_message(self, *_):
        pass


def audited(*words, url="http://127.0.0.1:9"):
    environ = {**os.environ, "OSV_URL": url, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.run(
        [sys.executable, str(ROOT / "scripts/audit.py"), *words],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )


@pytest.mark.slow
def test_without_a_network_the_pinned_advisories_count():
    done = audited()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "OSV cannot be asked" in done.stdout
    assert all(each["judgement"] for each in json.loads((ROOT / "scripts/advisories.json").read_text())["advisories"])


@pytest.mark.slow
def test_an_advisory_that_nobody_has_judged_fails():
    for server in served(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Osv)):
        done = audited(url=f"http://127.0.0.1:{server.server_address[1]}")
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.findall("not judged: (.*)", done.stdout) == [f"GHSA-new: requests {requested()}"]


@pytest.mark.slow
def test_the_page_says_what_the_audit_knows():
    page = ROOT / "docs/advisories.md"
    before = page.read_text()
    assert audited("--page").returncode == 0
    assert page.read_text() == before


def requested():
    text = (ROOT / "uv.lock").read_text()
    return re.search(r'name = "requests"\nversion = "([^"]+)"', text)[1]
