"""What every registry does with runs and tasks, and how its views tell of them."""

from __future__ import annotations

import json
import re
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import text

from tidegate.core.outcome import Result
from tidegate.errors import InternalError, PositionMoved
from tidegate.registry.values import Status
from unit.registry.loads import UID, ledger, outcome

# Runs and tasks


def test_a_run_from_start_to_end(registry):
    registry.start_run("run-1", UID)
    with registry.lease(UID):
        assert registry.status()[0].status == "RUNNING"
        assert registry.history(UID)[0].outcome == "running"
    registry.finish_run("run-1", outcome())
    registry.start_run("run-2", UID)
    registry.finish_run("run-2", outcome(Result.FAILED))
    last, first = registry.history(UID)
    assert (first.outcome, first.details, first.error) == ("loaded", outcome().to_dict(), None)
    assert (last.outcome, last.error) == ("failed", {"code": "write", "message": "refused", "hint": "again"})
    assert first.started_at <= first.finished_at <= last.started_at
    (status,) = registry.status()
    assert (status.status, status.last_run_id, status.last_outcome) == ("ERROR", "run-2", "failed")
    assert status.last_success_at == first.finished_at
    assert status.last_error == last.error
    assert [(c.old_status, c.new_status) for c in reversed(registry.changes(UID))] == [
        ("NEW", "RUNNING"),
        ("RUNNING", "OK"),
        ("OK", "RUNNING"),
        ("RUNNING", "ERROR"),
    ]
    json.dumps([status.to_dict(), first.to_dict(), *(c.to_dict() for c in registry.changes(UID))])
    assert len(registry.history(UID, limit=1)) == 1


def test_one_run_of_many_streams(registry):
    registry.register(uid="b", name="customers", source="s", target="t")
    for uid in (UID, "b"):
        registry.start_run("run-1", uid)
    registry.finish_run("run-1", outcome(Result.UNCHANGED, stream="customers"))
    with registry.lease(UID):
        assert registry.history(UID)[0].outcome == "running"
    assert registry.history("b")[0].outcome == "unchanged"
    with pytest.raises(InternalError, match="never started"):
        registry.finish_run("run-2", outcome())


def test_a_held_run_says_nothing_of_the_stream(registry):
    registry.start_run("working", UID)
    registry.start_run("polite", UID)
    registry.finish_run("polite", outcome(Result.HELD))
    assert registry.status()[0].status == "RUNNING"


def test_a_task_as_long_as_its_block(registry):
    with registry.task(UID, "read_slice", run_id="run-1", groups=["(1, 2]"]) as payload:
        (running,) = registry.tasks(status=Status.RUNNING)
        payload["rows"] = 7
    (done,) = registry.tasks(UID)
    assert running.finish_ts is None
    assert (done.task_id, done.status_cd, done.result_payload) == (running.task_id, Status.OK, {"rows": 7})
    assert (done.run_id, done.task_type, done.extract_group_id) == ("run-1", "read_slice", "(1, 2]")
    assert done.finish_ts >= done.start_ts
    slices = [(c.extract_group_id, c.old_status, c.new_status) for c in reversed(registry.changes(UID))]
    assert slices == [("(1, 2]", "NEW", "RUNNING"), ("(1, 2]", "RUNNING", "OK")]
    assert registry.status()[0].status == "NEW"


def test_a_task_that_raises_is_an_error_without_foreign_texts(registry):
    with pytest.raises(PositionMoved), registry.task(UID, "write") as payload:
        raise PositionMoved("moved", rows=payload.setdefault("rows", 7))
    with pytest.raises(ValueError, match="row value"), registry.task(UID, "write"):
        raise ValueError("row value secret-4711")
    with pytest.raises(KeyboardInterrupt), registry.task(UID, "write"):
        raise KeyboardInterrupt
    interrupted, foreign, ours = registry.tasks(UID, Status.ERROR)
    assert ours.result_payload["rows"] == 7
    assert ours.result_payload["error"]["code"] == "position_moved"
    assert "secret-4711" not in json.dumps(foreign.to_dict())
    assert interrupted.result_payload["error"]["code"] == "interrupted"
    assert len(registry.tasks(limit=2)) == 2
    with pytest.raises(InternalError, match="never started"):
        registry.finish_task(999_999, Status.OK)


def test_an_interrupted_run_is_no_good_one_and_says_what_it_was(registry):
    registry.start_run("run-1", UID)
    registry.finish_run("run-1", outcome(Result.INTERRUPTED))
    (status,), (run,) = registry.status(), registry.history(UID)
    assert (status.last_outcome, status.status, status.last_success_at) == ("interrupted", "ERROR", None)
    assert (run.outcome, run.finished_at is not None) == ("interrupted", True)


def test_a_run_that_nobody_works_on_has_crashed(registry):
    registry.start_run("run-1", UID)
    with registry.lease(UID):
        assert (registry.status()[0].last_outcome, registry.history(UID)[0].outcome) == ("running", "running")
    (status,), (run,) = registry.status(), registry.history(UID)
    assert (status.last_outcome, status.last_error["code"]) == ("failed", "crashed")
    assert (run.outcome, run.error) == ("failed", status.last_error)


def test_what_a_crash_left_running_is_closed(registry):
    registry.register(uid="b", name="customers", source="s", target="t")
    for uid, run_id in ((UID, "dead"), (UID, "mine"), ("b", "mine")):
        registry.start_run(run_id, uid)
        registry.start_task(uid, "read", run_id=run_id, extract_group_id="g")
    registry.start_task(UID, "adopt")
    assert registry.close_crashed(UID, keep_run="mine") == 3
    with registry.lease(UID):
        assert {r.run_id: r.outcome for r in registry.history(UID)} == {"dead": "failed", "mine": "running"}
    dead = next(r for r in registry.history(UID) if r.run_id == "dead")
    assert dead.error["message"] == "ended without finishing"
    assert {(t.run_id, t.status_cd) for t in registry.tasks(UID)} == {
        ("dead", Status.ERROR),
        ("mine", Status.RUNNING),
        (None, Status.ERROR),
    }
    with registry.lease("b"):
        assert registry.history("b")[0].outcome == "running"
    assert registry.close_crashed(UID) == 2
    assert registry.status()[1].status == "ERROR"
    assert registry.close_crashed(UID) == 0


# Views


def test_the_views_answer(registry, raw):
    with registry.task(UID, "read", groups=["g"]):
        time.sleep(0.05)
    registry.start_task(UID, "write", extract_group_id="g")
    with raw.connect() as connection:
        active = connection.execute(text("SELECT object_name, task_type FROM tasks_active")).all()
        totals = connection.execute(text("SELECT status_cd, stream_count FROM status_results_total")).all()
        detail = connection.execute(text("SELECT task_type, status_cd FROM status_results_detail ORDER BY 1")).all()
        stats = connection.execute(
            text("SELECT start_date, average_seconds FROM task_stats_by_date WHERE task_type = 'read'")
        ).one()
    assert active == [("orders", "write")]
    assert totals == [("NEW", 1)]
    assert detail == [("read", "OK"), ("write", "RUNNING")]
    assert str(stats.start_date) == datetime.now(UTC).date().isoformat()
    assert 0.05 <= float(stats.average_seconds) < 60


def test_the_total_tells_partitions_and_rows(registry, raw):
    registry.keep_ledger(UID, {"type": "whole_table"}, ledger(a=3, b=4))
    registry.register(uid="b", name="customers", source="s", target="t")
    registry.start_run("run-1", "b")
    with raw.connect() as connection:
        totals = connection.execute(text("SELECT * FROM status_results_total ORDER BY status_cd")).all()
    assert totals == [("NEW", 1, 2, 7), ("RUNNING", 1, 0, 0)]


def test_a_failed_load_is_an_alert_until_the_same_slice_is_loaded(registry, raw):
    def alerts():
        query = "SELECT task_type, extract_group_id, error_code, resolved_ts IS NULL FROM alerts_failed_loads"
        with raw.connect() as connection:
            return sorted((*row[:3], bool(row[3])) for row in connection.execute(text(query)))

    with pytest.raises(PositionMoved), registry.task(UID, "load_partition", run_id="r", groups=["a", "b"]):
        raise PositionMoved("moved")
    with pytest.raises(PositionMoved), registry.task(UID, "measure_partition"):
        raise PositionMoved("moved")
    with registry.task(UID, "load_partition", groups=["b"]):
        pass
    assert alerts() == [
        ("load_partition", "a", "position_moved", True),
        ("load_partition", "b", "position_moved", False),
    ]
    registry.start_run("good", UID)
    registry.finish_run("good", outcome(Result.UNCHANGED))
    assert {open_still for *_, open_still in alerts()} == {False}


def test_a_run_that_failed_before_any_load_is_an_alert_too(registry, raw):
    for run, result in (("dead", None), ("refused", Result.STOPPED), ("polite", Result.HELD), ("good", Result.LOADED)):
        registry.start_run(run, UID)
        if result is not None:
            registry.finish_run(run, outcome(result))
    registry.start_task(UID, "load", run_id="dead")
    registry.close_crashed(UID)
    with raw.connect() as connection:
        found = connection.execute(text("SELECT run_id, task_type, error_code FROM alerts_failed_loads")).all()
    assert sorted(found) == [("dead", "load", "crashed"), ("refused", "run", "write")]


def queries(page, *kinds):
    blocks = re.findall(r"^```(sql[^\n]*)\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    return [query for kind, block in blocks if kind in kinds for query in block.split(";")[:-1]]


@pytest.mark.usefixtures("registry")
def test_the_queries_of_the_docs_run(raw):
    page = (Path(__file__).parents[3] / "docs" / "registry.md").read_text()
    found = queries(page, "sql", f"sql {raw.dialect.name}")
    assert len(found) >= 5
    with raw.connect() as connection:
        for query in found:
            connection.execute(text(query)).all()


# What people said


def ended(registry, run_id, result):
    registry.start_run(run_id, UID)
    registry.finish_run(run_id, outcome(result))


def test_a_paused_stream_says_who_paused_it_and_when(registry):
    registry.pause(UID, "ann")
    registry.pause(UID, "bob")
    (stream,) = registry.status()
    assert (stream.paused_by, registry.is_paused(UID), stream.paused_at is None) == ("ann", True, False)
    registry.resume(UID, "bob")
    registry.resume(UID, "bob")
    (stream,) = registry.status()
    assert (stream.paused_by, stream.paused_at, registry.is_paused(UID)) == (None, None, False)
    said = [(each.old_status, each.new_status, each.changed_by) for each in registry.changes(UID)]
    assert said == [("PAUSED", "ACTIVE", "bob"), ("ACTIVE", "PAUSED", "ann")]


def test_an_error_that_was_seen_is_that_of_one_run(registry):
    registry.acknowledge(UID, "ann")
    ended(registry, "first", Result.LOADED)
    registry.acknowledge(UID, "ann")
    assert registry.status()[0].acknowledged_by is None
    ended(registry, "second", Result.FAILED)
    registry.acknowledge(UID, "ann")
    assert registry.status()[0].acknowledged_by == "ann"
    ended(registry, "third", Result.FAILED)
    assert registry.status()[0].acknowledged_by is None
    registry.acknowledge(UID, "bob")
    assert registry.status()[0].acknowledged_by == "bob"


def test_the_last_success_is_the_last_run_that_loaded_or_found_nothing_new(registry):
    ended(registry, "first", Result.LOADED)
    ended(registry, "second", Result.UNCHANGED)
    ended(registry, "third", Result.FAILED)
    (stream,) = registry.status()
    assert (stream.last_run_id, stream.last_outcome) == ("third", "failed")
    assert stream.last_success_at == registry.history(UID)[1].finished_at


def test_a_clock_that_was_set_back_hides_no_later_run(registry):
    """What the last run was, how it ended, and since when, follow from the order of the runs."""
    now = datetime.now(UTC)
    for day, run_id, result in [(2, "ahead", "LOADED"), (1, "good", "UNCHANGED"), (0, "bad", "FAILED")]:
        registry._clock = lambda day=day: now + timedelta(days=day)
        ended(registry, run_id, Result[result])
    (stream,) = registry.status()
    assert (stream.last_run_id, stream.last_outcome, stream.last_run_at) == ("bad", "failed", now)
    assert stream.last_success_at == now + timedelta(days=1)
    assert [run.run_id for run in registry.history(UID)] == ["bad", "good", "ahead"]
    registry.acknowledge(UID, "ann")
    assert registry.status()[0].acknowledged_by == "ann"
    recent, facts = registry.recent_history(queries=True, quarantines=[UID])[UID], registry.facts()[UID]
    assert (recent.failing, recent.failed_at) == ({"write": now}, now)
    assert facts.last == outcome(Result.UNCHANGED).to_dict()
    ended(registry, "well", Result.LOADED)
    recent = registry.recent_history(queries=False, quarantines=[])[UID]
    assert (recent.failing, registry.status()[0].last_success_at) == ({}, now)
