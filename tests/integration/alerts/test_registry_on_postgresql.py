"""Incidents and their messages in a registry on PostgreSQL, which several machines share."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from tidegate.core.outcome import Result
from tidegate.registry.store import Registry
from unit.alerts.test_check import address, begun, end, hook, look, project  # noqa: F401 - a fixture

pytestmark = [pytest.mark.postgres, pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


def test_of_many_processes_one_sends_what_begins_repeats_and_ends(tmp_path, hook, pg_url):  # noqa: F811 - the fixture
    with project(tmp_path, {"all": {"url": address(hook, "all")}}, registry=pg_url) as opened:
        for stream in ("orders", "items", "people"):
            end(opened, stream, Result.FAILED)
        registries = [Registry.open(opened.config.registry) for _ in range(6)]
        with ThreadPoolExecutor(6) as pool:
            found = list(pool.map(lambda each: look(opened, registry=each), registries))
        for each in registries:
            each.close()
        assert (sum(len(each.opened) for each in found), sum(each.sent for each in found), len(hook.taken)) == (3, 3, 3)
        assert look(opened).opened == ()
        assert [each.rule for each in opened.registry.incidents.open()] == ["run_failed"] * 3
        assert len(look(opened, timedelta(hours=5)).repeated) == 3
        end(opened, "orders", Result.LOADED)
        assert len(look(opened).recovered) == 1
    titles = [title for _, title, _ in hook.taken if title.startswith("orders")]
    assert titles == ["orders: run failed", "orders: still: run failed", "orders: recovered: run failed"]


def test_when_it_began_is_in_the_registry(tmp_path, pg_url):
    with project(tmp_path, {}, registry=pg_url) as opened:
        begun(opened)
