"""Maintenance: rows and positions stay, files go, and a load goes on as if nothing had been."""

import json
import os
from datetime import UTC, datetime, timedelta

import pytest

from tidegate.errors import RegistryUnavailable
from tidegate.registry.store import Registry

NOW = {"expire_after": "0s", "keep": 1}
pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

APPEND = {"write": "append"}


def test_loads_go_on_over_maintenance(loads):
    loads.configure(**APPEND, maintenance=NOW)
    for number in range(6):
        loads.load(number)
    before = loads.state()
    with loads.project() as project:
        looked = project.maintain("orders", dry_run=True)
        assert not project.sessions.started
    assert looked.streams[0].outcome == "due"
    assert loads.state() == before, "a dry run touches nothing"
    orphan = loads.folder / ("data" if loads.kind == "iceberg" else "") / "left-behind.parquet"
    young = orphan.with_name("at-work.parquet")
    for path in (orphan, young):
        path.write_bytes(b"nobody knows me")
    at = (datetime.now(UTC) - timedelta(days=9)).timestamp()
    os.utime(orphan, (at, at))
    done = loads.maintain()
    assert done.outcome == "maintained"
    assert "compact" in loads.steps(done)
    assert "expire" in loads.steps(done)
    data = {path for path in loads.folder.rglob("*.parquet") if path.parent.name != "_delta_log"}
    assert len(data - {young}) == 1, "one file of six, and no version needs the six"
    assert done.tables[0].saved is not None
    assert not orphan.exists()
    if loads.kind == "iceberg":
        assert young.exists(), "it may be of a writer at work"
    after = loads.state()
    assert after.position == before.position
    assert loads.rows() == loads.orders
    assert loads.run().outcome == "unchanged"
    for number in (6, 7):
        loads.load(number)
    assert loads.rows() == loads.orders
    assert loads.state().position.sequence == 8
    with loads.project() as project:
        kept = project.tasks("orders")
    payload = next(task.result_payload for task in kept if task.task_type == "maintain")
    assert payload["tables"] == json.loads(json.dumps([done.tables[0].to_dict()]))


def lost(*given, **named):
    raise RegistryUnavailable("the registry was lost")


def test_rows_and_position_go_back_together(loads, monkeypatch):
    loads.configure(**APPEND, maintenance={"expire_after": "7d"})
    held = []
    for number in range(3):
        loads.load(number)
        held.append(dict(loads.orders))
    with loads.project() as project:
        found = project.versions("orders")
        started = project.sessions.started
    assert not started, "versions are told without Spark"
    assert next(each.load for each in found if each.load) == 3
    assert [each.rows for each in found if each.load == 2] == [2]
    second = next(each for each in found if each.load == 2)

    code, told = loads.command("rollback", "orders", "--to", second.id)
    assert code == 2
    assert "--yes" in told["error"]["hint"]
    with monkeypatch.context() as broken:
        broken.setattr(Registry, "set_position", lost)
        code, told = loads.command("rollback", "orders", "--to", second.id, "--yes")
        assert (code, told["error"]["code"]) == (1, "registry_unavailable")
    assert loads.run().error.code == "position_moved", "what the registry does not know of is a mishap"
    code, told = loads.command("rollback", "orders", "--to", second.id, "--yes")
    assert (code, told["version"]["load"], told["position"]["sequence"]) == (0, 2, 2), told
    assert loads.rows() == held[1]
    with loads.project() as project:
        assert project.state.show("orders").agree
        assert next(task.task_type for task in project.tasks("orders")) == "rollback"
    again = loads.load(7)
    assert again.rows_inserted == 2, "what came after that version is read again"
    assert loads.rows() == loads.orders
    assert loads.state().position.sequence == 4, "a number is never used twice"

    with loads.project() as project:
        back = project.rollback("orders", found[0].made_at.isoformat())  # the third load, which was rolled back
        assert back.version.load == 3
    assert loads.rows() == held[2]
    loads.configure(**APPEND, maintenance=NOW)
    loads.maintain(force=True)  # of files that the table still shows, an old version of Delta would be whole
    code, told = loads.command("rollback", "orders", "--to", second.id, "--yes")
    assert (code, told["error"]["code"]) == (4, "version_gone")
    assert found[0].id in told["error"]["message"] or "the versions that can be read" in told["error"]["message"]
    assert loads.run().outcome == "loaded"
    assert loads.rows() == loads.orders
