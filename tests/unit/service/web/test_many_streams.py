"""However many streams there are: a page asks as many questions, and each of them goes by an index."""

from __future__ import annotations

import re
from contextlib import contextmanager
from cProfile import Profile

import pytest
from sqlalchemy import event

from support.dashboard import project, seeded
from tidegate.telemetry.metrics import Metrics
from unit.service.web.conftest import TOKEN, client_of

FEW, MANY = 14, 42
LARGE = ("runs", "tasks", "positions", "plans", "status_change_log", "run_logs", "checksums")
PAGES = (
    "/",
    "/?q=orders&sort=freshness",
    "/streams/orders_000",
    "/streams/orders_003",
    "RUN",
    "/proof",
    "/proof/report.html",
    "/lakes",
    "/api/v1/status",
    "/api/v1/proof",
    "/api/v1/savings",
    "/api/v1/streams/orders_000/history",
    "/api/v1/streams/orders_000/tasks",
    "/api/v1/streams/orders_000/intervals",
    "/api/v1/streams/orders_000/backfills",
)


@pytest.fixture(scope="module")
def services(tmp_path_factory):
    """Two of them, of few and of many streams."""
    made = [seeded(project(tmp_path_factory.mktemp("project"), many), runs_each=3) for many in (FEW, MANY)]
    yield made
    for each in made:
        each.close()


def asked(service, path):
    """The statements that a page sends to the registry."""
    client = client_of(service)
    client.headers["Authorization"] = f"Bearer {TOKEN}"
    if path == "RUN":
        path = re.search(r'href="(/runs/\w+/\w+)"', client.get("/streams/orders_000").text)[1]
    with questions(service.registry._database) as found:
        assert client.get(path).status_code == 200
    return found


@contextmanager
def questions(database):
    """What the block asks of it."""
    found = []

    def listen(_connection, _cursor, statement, parameters, *_):
        if statement.startswith("SELECT"):
            found.append((statement, parameters))

    event.listen(database._engine, "before_cursor_execute", listen)
    yield found
    event.remove(database._engine, "before_cursor_execute", listen)


@pytest.mark.parametrize("path", PAGES)
def test_a_page_asks_no_more_of_many_streams_than_of_few(services, path):
    few, many = (asked(service, path) for service in services)
    assert len(few) == len(many) <= 30
    assert few, "a page that asks nothing proves nothing"


@pytest.mark.parametrize("path", PAGES)
def test_no_question_reads_a_large_table_through(services, path):
    few, _ = services
    with few.registry._database.read() as connection:
        for text, values in asked(few, path):
            steps = [row[3] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}", values)]
            through = [step for step in steps if re.fullmatch(rf"SCAN ({'|'.join(LARGE)})", step)]
            assert not through, f"{text}\n{steps}"


def test_the_plan_of_a_question_that_reads_a_large_table_through_is_found(services):
    with services[0].registry._database.read() as connection:
        steps = [row[3] for row in connection.exec_driver_sql("EXPLAIN QUERY PLAN SELECT * FROM runs")]
    assert steps == ["SCAN runs"]


def test_metrics_ask_no_more_of_many_streams_than_of_few(services):
    """And what they do with the answers grows with the streams, not with their pairs."""
    found, calls = [], []
    for service in services:
        metrics = Metrics(config=service.project.config, lakes=service.project.lakes)
        metrics.render()
        metrics._made = None
        with questions(metrics._registry._database) as asked_, Profile() as profile:
            metrics.render()
        metrics.close()
        found.append(len(asked_))
        calls.append(sum(each.callcount for each in profile.getstats()))
    assert 0 < found[0] == found[1] <= 25
    assert calls[1] <= calls[0] * MANY / FEW
