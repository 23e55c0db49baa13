"""Pages of 1,000 streams and 100,000 runs cost less than 200 ms on both databases, and ask as much as of few."""

from __future__ import annotations

import os
import re
import time
from datetime import timedelta
from pathlib import Path

import pytest

from support.dashboard import project, seeded
from tidegate.telemetry.metrics import Metrics
from unit.service.web.conftest import TOKEN, client_of
from unit.service.web.test_many_streams import FEW, MANY, PAGES, asked

pytestmark = [pytest.mark.postgres, pytest.mark.slow]
LONGEST = 0.2
"""Seconds of a core, the database's included: how long a page takes while others use the machine says nothing of it."""
REQUESTS = 7
OF_ALL = 2 * LONGEST
"""Of a document that says everything of every stream: some megabytes."""


@pytest.fixture(scope="module")
def of_postgresql(tmp_path_factory, postgres):
    made = [
        seeded(project(tmp_path_factory.mktemp("project"), many, registry=postgres.create_database()), runs_each=3)
        for many in (FEW, MANY)
    ]
    yield made
    for each in made:
        each.close()


@pytest.mark.parametrize("path", PAGES)
def test_a_page_asks_postgresql_no_more_of_many_streams_than_of_few(of_postgresql, path):
    few, many = (asked(service, path) for service in of_postgresql)
    assert 0 < len(few) == len(many) <= 30


@pytest.mark.exhaustive
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_every_page_is_quick_with_a_thousand_streams_and_a_hundred_thousand_runs(tmp_path, postgres, kind):
    registry = postgres.create_database() if kind == "postgresql" else None
    service = seeded(
        project(tmp_path, 1000, registry=registry), runs_each=117, live=False, spaced=timedelta(hours=3)
    )  # of seven streams one never ran
    client = client_of(service)
    client.headers["Authorization"] = f"Bearer {TOKEN}"
    run = re.search(r'href="(/runs/\w+/\w+)"', client.get("/streams/orders_000").text)[1]
    metrics = Metrics(config=service.project.config, lakes=service.project.lakes)

    def scrape():
        metrics._made = None
        metrics.render()

    def page(path):
        client.app.state.tidegate.facts.forget()
        assert client.get(path).status_code == 200

    took = {path: _cost(lambda path=path: page(run if path == "RUN" else path), postgres) for path in PAGES}
    took["/metrics"] = _cost(scrape, postgres)
    metrics.close()
    service.close()
    slow = {path: f"{seconds:.3f} s" for path, seconds in took.items() if seconds >= _limit(path)}
    assert not slow, took


def _limit(path):
    return OF_ALL if path.startswith(("/api/", "/metrics", "/proof/report")) else LONGEST


def _cost(work, server):
    """Of several requests the cheapest here, and the database's average, which is told in hundredths of a second."""
    times, before = [], _ticks(server)
    for _ in range(REQUESTS):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return min(times) + (_ticks(server) - before) / os.sysconf("SC_CLK_TCK") / REQUESTS


def _ticks(server):
    """What the processes of the server have used so far, those that have ended included."""
    main = (server.data / "postmaster.pid").read_text(encoding="ascii").split()[0]
    stats = [each.read_text(encoding="utf-8").rpartition(")")[2].split() for each in Path("/proc").glob("[0-9]*/stat")]
    own = Path(f"/proc/{main}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    used = [sum(map(int, own[11:15])), *(sum(map(int, each[11:13])) for each in stats if each[1] == main)]
    return sum(used)
