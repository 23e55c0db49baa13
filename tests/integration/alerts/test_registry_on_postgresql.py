"""Incidents and their messages in a registry on PostgreSQL, which several machines share."""

from __future__ import annotations

import http.server
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from support.served import served
from tidegate.core.outcome import Result
from tidegate.registry.store import Registry
from unit.alerts.test_check import Hook, address, begun, end, look, project

pytestmark = [pytest.mark.postgres, pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


@pytest.fixture
def hook():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    server.status = 200
    yield from served(server)


@pytest.fixture
def opened(tmp_path, hook, pg_url):
    with project(tmp_path, {"all": {"url": address(hook, "all")}}, registry=pg_url) as found:
        yield found


def test_an_incident_is_one_message_then_repeats_and_one_at_its_end(opened, hook):
    end(opened, "orders", Result.FAILED)
    assert [len(look(opened).opened) for _ in range(3)] == [1, 0, 0]
    assert [each.rule for each in opened.registry.incidents.open()] == ["run_failed"]
    assert len(look(opened, timedelta(hours=5)).repeated) == 1
    end(opened, "orders", Result.LOADED)
    assert len(look(opened).recovered) == 1
    assert (opened.registry.incidents.open(), look(opened).undelivered) == ([], ())
    titles = [title for _, title, _ in hook.taken]
    assert titles == ["orders: run failed", "orders: still: run failed", "orders: recovered: run failed"]


def test_of_many_processes_one_sends(opened, hook):
    for stream in ("orders", "items", "people"):
        end(opened, stream, Result.FAILED)
    registries = [Registry.open(opened.config.registry) for _ in range(6)]
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda each: look(opened, registry=each), registries))
    for each in registries:
        each.close()
    assert sum(len(each.opened) for each in found) == 3
    assert sum(each.sent for each in found) == 3
    assert len(hook.taken) == 3


def test_what_was_not_taken_is_told(opened, hook):
    hook.status = 500
    end(opened, "orders", Result.FAILED)
    ((notice, _),) = look(opened).undelivered
    assert (notice.channel, notice.attempts) == ("all", 1)
    ((again, _),) = look(opened).undelivered
    assert again.attempts == 1, "not before five minutes"


def test_a_difference_is_over_once_all_of_the_source_was_loaded(opened):
    end(opened, "orders", Result.LOADED)
    with opened.registry.task(opened.registry.status()[0].uid, "measure_partition") as payload:
        payload |= {"level": "rows", "equal": False, "source_rows": 1, "target_rows": 2}
    assert [each.rule for each in look(opened).opened] == ["verification_differs"]
    end(opened, "orders", Result.LOADED, whole=True)
    assert [each.rule for each in look(opened).recovered] == ["verification_differs"]


def test_when_it_began_is_in_the_registry(opened):
    begun(opened)
