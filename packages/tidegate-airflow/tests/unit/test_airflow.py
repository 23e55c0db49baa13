"""What a task of Airflow makes of what the program prints."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import threading
import time
from collections import defaultdict
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

os.environ.setdefault("AIRFLOW_HOME", tempfile.mkdtemp(prefix="airflow"))  # else its import writes to the user's home

from airflow.sdk.exceptions import AirflowException, AirflowFailException, TaskDeferred

from tidegate_airflow import served
from tidegate_airflow.assets import stream_names, tidegate_asset
from tidegate_airflow.operators import TidegateRunOperator, TidegateVerifyOperator
from tidegate_airflow.provider import get_provider_info
from tidegate_airflow.sensors import TidegateFreshSensor
from tidegate_airflow.triggers import ServiceTrigger

pytestmark = pytest.mark.filterwarnings("ignore")  # Airflow's own
SCRIPT = """\
#!{python}
import json, sys, time
words = sys.argv[1:]
answer = json.load(open({answers!r})).get(words[0])
try:
    with open({asked!r}, "a") as file:
        print(json.dumps(words), file=file)
    print("orders: read 0.1 s", file=sys.stderr)
    if answer == "wait":
        time.sleep(60)
except KeyboardInterrupt:
    answer = {{"error": {{"code": "interrupted", "message": "interrupted", "hint": ""}}, "exit_code": 130}}
if answer is not None:
    print(json.dumps(answer))
"""
COUNTS = dict.fromkeys(("rows_read", "rows_inserted", "rows_updated", "rows_deleted", "rows_quarantined"), 0)
DUE = datetime(2026, 1, 1, 12, tzinfo=UTC)


def outcome(stream, kind="loaded", *, verified=True, code=None):
    error = {"code": code, "message": "said why", "hint": "do this"} if code else None
    return {**COUNTS, "stream": stream, "outcome": kind, "verified": verified, "snapshot": "7", "error": error}


@pytest.fixture
def program(tmp_path):
    """A program that answers each command by what the test sets, and keeps what it was asked."""

    class Fake:
        path = str(tmp_path / "tidegate")

        def answer(self, **documents):
            (tmp_path / "answers").write_text(json.dumps(documents))

        def asked(self):
            return [json.loads(line) for line in (tmp_path / "asked").read_text().splitlines()]

    made = {"python": sys.executable, "asked": str(tmp_path / "asked"), "answers": str(tmp_path / "answers")}
    (tmp_path / "tidegate").write_text(SCRIPT.format(**made))
    (tmp_path / "tidegate").chmod(0o755)
    return Fake()


class Events:
    """As much of Airflow's context as an operator uses; `added` are the events of its assets."""

    def __init__(self, try_number=1):
        self.added = []
        alias = SimpleNamespace(add=lambda asset, extra: self.added.append((asset.uri, extra)))
        self.context = {
            "ti": SimpleNamespace(try_number=try_number),
            "dag_run": SimpleNamespace(run_after=DUE),
            "outlet_events": defaultdict(lambda: alias),
        }


@pytest.fixture(autouse=True)
def no_lineage(monkeypatch):
    monkeypatch.setitem(sys.modules, "airflow.providers.openlineage.plugins.macros", None)


def loading(program, tmp_path, **more):
    return TidegateRunOperator(task_id="load", project_dir=str(tmp_path), executable=program.path, **more)


def test_only_what_was_loaded_and_not_found_different_is_an_event(program, tmp_path):
    streams = [
        outcome("loaded"),
        outcome("unasked", verified=None),
        outcome("unchanged", "unchanged", verified=None),
        outcome("doubtful", verified=False),
    ]
    program.answer(run={"streams": streams}, show={"target": "lake.shop.orders", "location": "/lake/shop/orders"})
    events = Events()
    task = loading(program, tmp_path, streams=["loaded", "unasked"], options={"window": "1d"}, parallel=2)
    found = task.execute(events.context)
    assert [each["stream"] for each in found] == ["loaded", "unasked", "unchanged", "doubtful"]
    assert [(uri, extra["tidegate/stream"]) for uri, extra in events.added] == [
        ("tidegate://lake/shop/orders", "loaded"),
        ("tidegate://lake/shop/orders", "unasked"),
    ]
    run = ["run", "loaded", "unasked", "--parallel", "2", "--set", 'window="1d"', "--json", "--project", str(tmp_path)]
    assert program.asked()[0] == run
    assert task.locations == ["/lake/shop/orders"] * 2


@pytest.mark.parametrize(
    ("codes", "kind"),
    [
        (["source_unavailable"], AirflowException),
        (["lease_held", "source_unavailable"], AirflowException),
        (["source_unavailable", "schema_refused"], AirflowFailException),
        (["check_failed"], AirflowFailException),
    ],
)
def test_airflow_tries_again_only_what_may_pass(program, tmp_path, codes, kind):
    streams = [outcome(f"s{number}", "failed", code=code) for number, code in enumerate(codes)]
    program.answer(run={"streams": [outcome("loaded"), *streams]}, show={"target": "lake.a.b", "location": None})
    events = Events()
    with pytest.raises(AirflowException, match="said why\n  hint: do this") as raised:
        loading(program, tmp_path).execute(events.context)
    assert type(raised.value) is kind
    assert len(events.added) == 1


def test_a_program_that_did_nothing_fails_as_its_error_says(program, tmp_path):
    program.answer(run={"error": {"code": "config", "message": "no such stream", "hint": "name one"}, "exit_code": 2})
    with pytest.raises(AirflowFailException, match="config: no such stream"):
        loading(program, tmp_path).execute(Events().context)
    program.answer()
    with pytest.raises(AirflowException, match="without its document") as raised:
        loading(program, tmp_path).execute(Events().context)
    assert type(raised.value) is AirflowException


def test_another_try_tells_what_the_one_before_it_has_loaded(program, tmp_path):
    runs = [
        {"outcome": "unchanged", "started_at": "2026-01-01T12:30:00+00:00"},
        {"outcome": "loaded", "started_at": "2026-01-01T12:10:00+00:00"},
    ]
    program.answer(
        run={"streams": [outcome("orders", "unchanged", verified=None)]},
        history={"runs": runs},
        show={"target": "lake.shop.orders", "location": None},
    )
    first, second = Events(), Events(try_number=2)
    loading(program, tmp_path).execute(first.context)
    loading(program, tmp_path).execute(second.context)
    assert (len(first.added), len(second.added)) == (0, 1)
    runs[1]["started_at"] = "2026-01-01T11:59:59+00:00"
    program.answer(run={"streams": [outcome("orders", "unchanged", verified=None)]}, history={"runs": runs})
    earlier = Events(try_number=2)
    loading(program, tmp_path).execute(earlier.context)
    assert earlier.added == []


def test_a_task_that_is_killed_ends_its_program(program, tmp_path):
    program.answer(run="wait")
    task, raised = loading(program, tmp_path), []

    def run():
        try:
            task.execute(Events().context)
        except AirflowException as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    until = time.monotonic() + 20
    while not (tmp_path / "asked").exists() and time.monotonic() < until:
        time.sleep(0.05)
    task.on_kill()
    thread.join(20)
    assert "interrupted" in str(raised[0])


def test_tables_that_differ_fail_for_good(program, tmp_path):
    equal = {"stream": "orders", "equal": True, "error": None}
    task = TidegateVerifyOperator(task_id="v", project_dir=str(tmp_path), executable=program.path, level="rows")
    program.answer(verify={"streams": [equal]})
    assert task.execute({"ti": None}) == [equal]
    assert program.asked()[-1][:3] == ["verify", "--level", "rows"]
    for doubt in (False, None):
        program.answer(verify={"streams": [equal, {"stream": "customers", "equal": doubt, "error": None}]})
        with pytest.raises(AirflowFailException, match="verify customers --level rows"):
            task.execute({"ti": None})


def test_a_deferred_task_leaves_the_command_to_a_service_that_is_there(program, tmp_path, monkeypatch):
    program.answer(run={"streams": [outcome("orders", "unchanged", verified=None)]})
    task = loading(program, tmp_path, deferrable=True, profile="prod")
    assert task.execute(Events().context)[0]["outcome"] == "unchanged", "no service runs"
    monkeypatch.setattr(task, "_served", lambda: True)
    with pytest.raises(TaskDeferred) as deferred:
        task.execute(Events().context)
    path, kept = deferred.value.trigger.serialize()
    assert path == "tidegate_airflow.triggers.ServiceTrigger"
    assert kept["arguments"] == ["run", "--parallel", "1", "--json", "--project", str(tmp_path), "--env", "prod"]
    assert ServiceTrigger(**kept).serialize() == (path, kept)
    printed = json.dumps({"streams": [outcome("orders", "failed", code="check_failed")]})
    with pytest.raises(AirflowFailException, match="check_failed"):
        task.execute_complete(Events().context, {"served": True, "printed": printed, "remarks": ""})
    asked = len(program.asked())
    task.execute_complete(Events().context, {"served": False, "printed": "", "remarks": "gone"})
    assert len(program.asked()) == asked + 1


def test_what_the_service_cannot_be_told_runs_here(program, tmp_path):
    program.answer(run={"streams": []})
    loading(program, tmp_path, environment={"A": "1"}, full_refresh=True).execute(Events().context)
    loading(program, tmp_path, local=True).execute(Events().context)
    first, second = program.asked()
    assert first[:6] == ["run", "--parallel", "1", "--full-refresh", "--yes", "--local"]
    assert second[:4] == ["run", "--parallel", "1", "--local"]


def test_the_triggerer_never_runs_a_command_itself(tmp_path):
    trigger = ServiceTrigger(["run", "--project", str(tmp_path), "--json"])

    async def first():
        return await anext(trigger.run())

    payload = asyncio.run(first()).payload
    assert (payload["served"], payload["printed"]) == (False, "")
    assert served.NO_SERVICE not in (0, 1, 2, 3, 4, 5, 130)


def test_a_sensor_waits_for_a_run_that_ended_since(program, tmp_path):
    def ready(last, *, proven=True, **more):
        known = {"stream": "orders", "last_success_at": last, "verified": proven}
        program.answer(status={"streams": [known]})
        asked = {"task_id": "s", "project_dir": str(tmp_path), "executable": program.path, "stream": "orders"}
        return TidegateFreshSensor(**{**asked, "since": DUE.isoformat(), **more}).poke({}).is_done

    assert not ready(None)
    assert not ready("2026-01-01T11:59:59+00:00")
    assert ready("2026-01-01T12:00:00+00:00")
    assert ready("2026-01-01T13:00:00+01:00")
    assert ready("2026-01-01T13:00:00+00:00", since=DUE)
    assert ready("2026-01-01T13:00:00+00:00", proven=None)
    assert not ready("2026-01-01T13:00:00+00:00", proven=None, verified=True)
    assert ready("2026-01-01T13:00:00+00:00", verified=True)
    with pytest.raises(AirflowFailException, match="no stream 'order'; the project has orders"):
        ready(None, stream="order")


def test_streams_and_assets_have_the_names_of_the_project(tmp_path):
    (tmp_path / "tidegate.yaml").write_text(
        """\
connections: {shop: "sqlite:///shop.db"}
streams:
  orders:
    {source: {connection: shop, table: orders}, target: lake.a.orders, strategy: full, write: replace, tags: [nightly]}
  customers: {source: {connection: shop, table: customers}, target: lake.shop.customers, strategy: full, write: replace}
"""
    )
    assert stream_names(str(tmp_path)) == ["orders", "customers"]
    assert stream_names(str(tmp_path), select="tag:nightly") == ["orders"]
    asset = tidegate_asset("lake.shop.orders")
    assert (asset.name, asset.uri) == ("lake.shop.orders", "tidegate://lake/shop/orders")
    assert get_provider_info()["package-name"] == "tidegate-airflow"


def test_the_tables_of_a_task_are_its_outputs_in_openlineage(program, tmp_path):
    task = loading(program, tmp_path)
    task.locations = ["s3a://lake/shop/orders", None]
    (found,) = task.get_openlineage_facets_on_complete(SimpleNamespace(task=task)).outputs
    assert (found.namespace, found.name) == ("s3://lake", "shop/orders")
