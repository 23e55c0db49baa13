"""Answers of APIs reach the table exactly once, and what an API does wrong reaches nobody."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

import pytest

pytest.importorskip("dlt")

from integration.files.landing import good, idle, run
from support.city_api import CityApi
from support.kills import kill_at
from support.served import served
from support.workspace import Workspace
from tidegate.core.outcome import Result
from tidegate.engine.events import Moment, Stage

pytestmark = pytest.mark.spark

PAGES = {"type": "page_number", "base_page": 1, "page_param": "page", "total_path": "total"}
NEW = {"cursor_path": "at", "start_param": "since", "initial_value": "2020"}


@pytest.fixture
def workspace(tmp_path) -> Workspace:
    return Workspace(folder=tmp_path)


@pytest.fixture
def api():
    yield from served(CityApi())


def readings(api, **changes):
    request = {"url": f"{api.url}/readings", "records": "$.data", "paginator": PAGES, "incremental": NEW, "retries": 0}
    source = {"http": request, "columns": {"at": "timestamptz", "price": "decimal(9,2)"}, **changes.pop("source", {})}
    return {"source": source, "target": "lake.s.readings", "strategy": "files", "write": "append", **changes}


def garages(api, strategy, table, **changes):
    source = {"http": {"url": f"{api.url}/garages", "paginator": "single_page", "retries": 0}}
    return {
        "source": source,
        "target": f"lake.s.{table}",
        "key": ["id"],
        "strategy": strategy,
        "write": "merge",
        **changes,
    }


def reading(number, price="1.10"):
    return {"id": number, "at": f"2025-01-01T00:{number:02}:00Z", "price": price, "where": {"x": [number]}}


def ids(workspace):
    return sorted(row["id"] for row in workspace.rows("s.readings"))


def test_new_readings_are_appended_once(workspace, api, spark):
    """Pages, a cursor, rows at the very edge of it, an outage, a lost registry, a rollback and a full refresh."""
    workspace.write({"readings": readings(api)}, connections={})
    api.readings = [reading(number) for number in range(8)]
    assert good(workspace, "readings", spark).rows_inserted == 8
    idle(workspace, "readings")
    api.readings.append({**reading(8), "at": "2099-01-01T00:00:00Z"})
    ahead = idle(workspace, "readings")
    with workspace.project(spark) as project:
        known = [ahead, *project.status("readings"), *project.verify("readings").streams]
    assert [each.rows_ahead for each in known] == [1, 1, 1]
    api.readings.pop()
    assert workspace.rows("s.readings")[0] | {"at": None} == {
        "id": 0,
        "at": None,
        "price": Decimal("1.10"),
        "where": '{"x":[0]}',
    }
    api.readings += [{**reading(7), "id": 70}, reading(9)]
    api.faults = ["cut"] * 9
    failed = run(workspace, "readings", spark)
    assert (failed.error.code, ids(workspace)) == ("source_unavailable", list(range(8)))
    api.faults.clear()
    with workspace.project() as project:
        assert project.plan("readings").streams[0].outcome == "changed"
    api.readings.append(reading(10))
    assert good(workspace, "readings", spark).rows_inserted == 3, "what the plan has fetched, and what came since"
    workspace.forget_registry()
    api.readings.append(reading(11))
    assert good(workspace, "readings", spark).rows_inserted == 1
    with workspace.project(spark) as project:
        assert project.verify("readings").streams[0].equal is True
    everything = [*range(8), 9, 10, 11, 70]
    assert ids(workspace) == everything
    asked = len(api.asked)
    assert good(workspace, "readings", spark, full_refresh=True).rows_inserted == len(everything)
    assert ids(workspace) == everything
    assert all("since=2025" in path for path in api.asked[asked:])  # the answers that are kept are loaded again
    idle(workspace, "readings")


@pytest.mark.parametrize(
    ("initial", "cursors", "order"),
    [
        ("2020-01-01T00:00:00Z", ["2025-01-01T00:07:00Z", "2025-01-01T00:07:00.5Z"], datetime.fromisoformat),
        ("0", ["9", "10"], int),
    ],
)
def test_a_later_reading_is_loaded_however_its_cursor_is_written(workspace, api, spark, initial, cursors, order):
    incremental = {**NEW, "initial_value": initial}
    request = {"url": f"{api.url}/readings", "records": "$.data", "paginator": PAGES, "incremental": incremental}
    workspace.write({"readings": readings(api, source={"http": request, "columns": {}})}, connections={})
    api.order = order
    for number, cursor in enumerate(cursors):
        api.readings.append({"id": number, "at": cursor})
        assert good(workspace, "readings", spark).rows_inserted == 1
    assert ids(workspace) == [0, 1]
    idle(workspace, "readings")


def test_a_table_that_is_rolled_back_goes_on_from_its_own_position(workspace, api, spark):
    workspace.write({"readings": readings(api, source={"keep_raw": "0s"})}, connections={})
    for number in (1, 2, 3):
        api.readings.append(reading(number))
        good(workspace, "readings", spark)
    (workspace.folder / ".tidegate/staging/readings/batch-0000000002.parquet").unlink(missing_ok=True)
    with workspace.project(spark) as project:
        project.rollback("readings", to=str(workspace.table("s.readings").history()[0].snapshot_id))
    assert ids(workspace) == [1]
    assert good(workspace, "readings", spark).rows_inserted == 2
    assert ids(workspace) == [1, 2, 3]


@pytest.mark.parametrize("strategy", ["snapshot_diff", "checksum"])
def test_a_whole_answer_is_the_table(workspace, api, spark, strategy):
    """Changed, new and deleted records, and columns that come and go; nothing to do starts no Spark."""
    workspace.write({"g": garages(api, strategy, "g")}, connections={})
    api.garages = [{"id": 1, "free": 10, "note": "a"}, {"id": 2, "free": 20}]
    good(workspace, "g", spark)
    idle(workspace, "g")
    api.garages = [{"id": 1, "free": 11}, {"id": 3, "free": 30}]
    good(workspace, "g", spark, allow_deletes=True)
    assert workspace.rows("s.g") == [{"id": 1, "free": 11, "note": None}, {"id": 3, "free": 30, "note": None}]
    idle(workspace, "g")
    with workspace.project(spark) as project:
        assert project.verify("g").streams[0].equal is True
        assert "If-None-Match" not in api.headers_seen[-1], "what is compared is not what the API says is unchanged"
        api.garages[0]["free"] = 12
        assert project.verify("g").streams[0].equal is False
    api.garages = []
    assert run(workspace, "g", spark).error.code == "delete_fuse"
    api.faults = [(200, {}, b'{"error": "sorry"}')] * 9
    assert run(workspace, "g", spark).error.code == "source"
    assert len(workspace.rows("s.g")) == 2


def test_small_changes_of_a_polled_api_cause_no_load(workspace, api, spark):
    significant = {"kind": "smart", "significant_change": {"columns": ["free"], "relative": 0.1}}
    workspace.write({"g": garages(api, significant, "g")}, connections={})
    api.garages = [{"id": 1, "free": 100}, {"id": 2, "free": 100}]
    good(workspace, "g", spark)
    api.garages[0]["free"] = 105
    assert run(workspace, "g", spark).outcome is Result.UNCHANGED
    api.garages[0]["free"] = 111
    assert good(workspace, "g", spark).outcome is Result.LOADED
    assert workspace.rows("s.g") == [{"id": 1, "free": 111}, {"id": 2, "free": 100}]


MODULE = """
import dlt
from pathlib import Path

@dlt.source
def city(prefix):
    @dlt.resource(primary_key="id")
    def cars(at=dlt.sources.incremental("at", initial_value=0)):
        rows = [{"id": f"{prefix}{n}", "at": n} for n in range(int(Path("many").read_text()))]
        yield [row for row in rows if row["at"] >= at.last_value]

    @dlt.resource
    def bikes():
        yield {"id": 1}

    return cars, bikes
"""


def test_a_source_of_dlt_keeps_its_cursor_in_the_table(workspace, spark, monkeypatch):
    """Also where the staging folder and the registry are lost; nothing of dlt's own is written."""
    (workspace.folder / "city_source.py").write_text(MODULE)
    monkeypatch.chdir(workspace.folder)
    monkeypatch.setenv("TIDEGATE_TRUST_PROJECT", "1")
    many = workspace.folder / "many"
    many.write_text("3")
    source = {"dlt": "city_source:city", "args": {"prefix": "c"}}
    stream = {"source": source, "target": "lake.s.cars", "strategy": "files", "key": ["id"], "write": "merge"}
    workspace.write({"cars": stream}, connections={})
    assert "2 resources (cars, bikes)" in run(workspace, "cars", spark).error.message
    workspace.write({"cars": {**stream, "source": {**source, "resource": "cars"}}}, connections={})
    assert good(workspace, "cars", spark).rows_inserted == 3
    idle(workspace, "cars")
    for path in (workspace.folder / ".tidegate/staging/cars").iterdir():
        path.unlink()
    many.write_text("5")
    assert good(workspace, "cars", spark).rows_inserted == 2
    assert [row["id"] for row in workspace.rows("s.cars")] == ["c0", "c1", "c2", "c3", "c4"]
    assert not (workspace.folder / ".dlt").exists()


def test_a_killed_run_neither_loses_nor_doubles_an_answer(workspace, api, spark):
    workspace.write({"readings": readings(api)}, connections={})
    api.readings = [reading(1), reading(2)]
    good(workspace, "readings", spark)
    wanted = [1, 2]
    boundaries = [(Stage.DETECT, Moment.DONE), (Stage.WRITE, Moment.DONE), (Stage.ADVANCE, Moment.PUBLISHED)]
    for number, boundary in zip((3, 5, 7), boundaries, strict=True):
        api.readings += [reading(number), reading(number)]
        kill_at(workspace, "readings", *boundary)
        api.readings.append(reading(number + 1))
        good(workspace, "readings", spark)
        wanted += [number, number, number + 1]
        assert ids(workspace) == wanted
    idle(workspace, "readings")
