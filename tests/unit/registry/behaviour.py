"""What every registry does, whichever database keeps it; each suite brings a fixture `url` of an empty one."""

from __future__ import annotations

import json
import re
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from sqlalchemy import text, update

import tidegate.registry.migrations
from tidegate.core.changes import Action, ChangeSet, Part
from tidegate.core.fingerprint import Fingerprint
from tidegate.core.ledger import Entry, Ledger
from tidegate.core.manifest import File, Manifest
from tidegate.core.outcome import Result
from tidegate.core.position import Position
from tidegate.core.slices import Everything, Files, Meaning
from tidegate.errors import InternalError, PositionMoved, RegistryError
from tidegate.registry.database import Database
from tidegate.registry.owner import myself
from tidegate.registry.store import Registry
from tidegate.registry.tables import METADATA, VERSION_TABLE, positions, tasks
from tidegate.registry.values import PlanStatus, Status
from unit.registry.loads import UID, load, outcome, publish

# Streams


def test_register_gives_one_number_and_follows_the_texts(registry):
    first = registry.register(uid=UID, name="orders", source="shop: public.orders", target="lake.shop.orders")
    assert registry.register(uid=UID, name="bestellungen", source="b", target="c") == first
    assert registry.register(uid="other", name="other", source="b", target="c") != first
    assert {(s.stream, s.source, s.target) for s in registry.status()} == {
        ("bestellungen", "b", "c"),
        ("other", "b", "c"),
    }


def test_names_are_kept_as_they_are(registry):
    name = """o'r"d.e;rs -- 🚀 {x} %s :y"""
    registry.register(uid="odd", name=name, source=name, target=name)
    found = next(s for s in registry.status() if s.uid == "odd")
    assert (found.stream, found.source, found.target) == (name, name, name)


def test_a_stream_that_was_never_registered_is_a_bug_of_ours(registry):
    with pytest.raises(InternalError, match="never registered"):
        registry.save_plan(load(uid="unknown"), "run-1")
    assert registry.position("unknown") is None
    assert registry.last_sequence("unknown") == 0


# Plans and positions


def test_a_saved_plan_comes_back_whole(registry, url):
    plan = load()
    registry.save_plan(plan, "run-1")
    with Registry.open(url) as again:
        (saved,) = again.open_plans(UID)
    assert (saved.load_id, saved.uid, saved.run_id, saved.status) == (plan.load_id, UID, "run-1", PlanStatus.PLANNED)
    assert saved.plan == json.loads(json.dumps(plan.to_dict()))
    assert saved.position == plan.position
    assert saved.since is None
    assert saved.created_at.tzinfo is UTC
    assert saved.to_dict()["created_at"].endswith("+00:00")


def test_advance_moves_position_plan_and_log_together(registry):
    plan = load(through="42")
    before = datetime.now(UTC)
    publish(registry, plan, verified=True)
    stands = registry.position(UID)
    assert stands is not None
    assert stands.position == plan.position
    assert (stands.sequence, stands.snapshot, stands.table_uuid, stands.verified) == (1, "77", "t-1", True)
    assert before <= stands.recorded_at <= datetime.now(UTC)
    assert registry.plan_status(plan.load_id) is PlanStatus.PUBLISHED
    assert registry.open_plans(UID) == []
    (status,) = registry.status()
    assert (status.loaded_through, status.verified_through, status.sequence) == ("42", "42", 1)
    (change,) = registry.changes(UID)
    assert (change.old_status, change.new_status) == ("POSITION none", "POSITION 1")
    assert change.changed_by == str(myself())


def test_an_unverified_load_moves_only_loaded_through(registry):
    first = publish(registry, load(through="10"), verified=True)
    publish(registry, load(first, through="20"), verified=False)
    (status,) = registry.status()
    assert (status.loaded_through, status.verified_through, status.verified) == ("20", "10", False)


def test_a_verification_that_comes_later_is_recorded(registry):
    plan = load(through="10")
    publish(registry, plan, verified=False)
    registry.advance(plan, snapshot="77", table_uuid="t-1", verified=True)
    registry.advance(plan, snapshot="77", table_uuid="t-1", verified=None)
    (status,) = registry.status()
    assert (status.verified, status.verified_through) == (True, "10")
    assert len(registry.positions(UID)) == 1


def test_advancing_twice_is_advancing_once(registry):
    first = load()
    publish(registry, first)
    second = load(first.position, through="20")
    publish(registry, second)
    for again in (second, first):
        registry.advance(again, snapshot="77", table_uuid="t-1", verified=None)
    assert [p.position for p in registry.positions(UID)] == [second.position, first.position]
    assert len(registry.changes(UID)) == 2


def test_a_load_from_elsewhere_is_refused_and_changes_nothing(registry):
    first = publish(registry, load())
    stale = load(None, through="99")
    registry.save_plan(stale, "run-2")
    with pytest.raises(PositionMoved, match="stands at sequence 1"):
        registry.advance(stale, snapshot="88", table_uuid="t-1", verified=True)
    sibling = Position(sequence=1, load_id="somebody-else", kind="watermark")
    with pytest.raises(PositionMoved):
        registry.advance(load(sibling), snapshot="88", table_uuid="t-1", verified=True)
    assert [p.position for p in registry.positions(UID)] == [first]
    assert registry.plan_status(stale.load_id) is PlanStatus.PLANNED
    assert registry.status()[0].loaded_through == "10"


def test_a_load_that_does_not_raise_the_sequence_is_a_bug_of_ours(registry):
    first = publish(registry, load())
    with pytest.raises(InternalError, match="does not raise the sequence"):
        registry.advance(load(first, sequence=1), snapshot="88", table_uuid="t-1", verified=None)


def test_a_saved_plan_can_be_advanced_after_a_crash(registry, url):
    plan = load()
    registry.save_plan(plan, "run-1")
    with Registry.open(url) as after:
        (saved,) = after.open_plans(UID)
        after.advance(saved, snapshot="77", table_uuid="t-1", verified=True)
    stands = registry.position(UID)
    assert stands is not None
    assert stands.position == plan.position
    assert registry.plan_status(plan.load_id) is PlanStatus.PUBLISHED


def test_published_is_final(registry):
    plan = load()
    publish(registry, plan)
    registry.finish_plan(plan.load_id, PlanStatus.PUBLISHED)
    with pytest.raises(RegistryError, match="published"):
        registry.finish_plan(plan.load_id, PlanStatus.DROPPED)
    other = load(plan.position)
    registry.save_plan(other, "run-1")
    registry.finish_plan(other.load_id, PlanStatus.FAILED)
    registry.finish_plan(other.load_id, PlanStatus.DROPPED)
    assert registry.plan_status(other.load_id) is PlanStatus.DROPPED
    with pytest.raises(InternalError, match="never planned"):
        registry.finish_plan("unknown", PlanStatus.DROPPED)
    assert registry.plan_status("unknown") is None


def test_a_failed_plan_that_landed_after_all_is_published(registry):
    plan = load()
    registry.save_plan(plan, "run-1")
    registry.finish_plan(plan.load_id, PlanStatus.FAILED)
    registry.advance(plan, snapshot="77", table_uuid="t-1", verified=None)
    assert registry.plan_status(plan.load_id) is PlanStatus.PUBLISHED


def test_set_position_is_recorded_with_its_reason_and_the_sequence_stays(registry):
    first = publish(registry, load(through="10"), verified=True)
    second = publish(registry, load(first, through="20"), verified=True)
    registry.set_position(UID, first, snapshot="66", table_uuid="t-1", reason="table restored", changed_by="anna")
    stands = registry.position(UID)
    assert stands is not None
    assert (stands.position, stands.sequence, stands.verified) == (first, 2, None)
    (change, *_) = registry.changes(UID)
    assert (change.old_status, change.new_status) == ("POSITION 2", "POSITION 1")
    assert (change.reason, change.changed_by) == ("table restored", "anna")
    (status,) = registry.status()
    assert (status.loaded_through, status.verified_through) == ("10", None)
    registry.set_position(UID, None, snapshot=None, table_uuid=None, reason="table dropped")
    assert registry.position(UID) is None
    assert registry.last_sequence(UID) == 2
    assert [p.position for p in registry.positions(UID)] == [first, second, first]


def test_the_same_position_again_keeps_its_verification(registry):
    first = publish(registry, load(through="10"), verified=True)
    registry.set_position(UID, first, snapshot="78", table_uuid="t-1", reason="after maintenance")
    stands = registry.position(UID)
    assert stands is not None
    assert (stands.verified, stands.snapshot) == (True, "78")
    assert registry.status()[0].verified_through == "10"


def test_a_published_load_can_be_caught_up_with_after_its_position_was_taken_back(registry):
    first = publish(registry, load(through="10"))
    plan = load(first, through="20")
    publish(registry, plan)
    registry.set_position(UID, first, snapshot="66", table_uuid="t-1", reason="repair")
    registry.advance(plan, snapshot="77", table_uuid="t-1", verified=None)
    stands = registry.position(UID)
    assert stands is not None
    assert stands.position == plan.position


@pytest.mark.parametrize("expected", [0, 2])
def test_set_position_refuses_when_it_stands_elsewhere(registry, expected):
    first = publish(registry, load())
    with pytest.raises(PositionMoved, match="not at sequence"):
        registry.set_position(UID, None, snapshot=None, table_uuid=None, expected_sequence=expected, reason="x")
    registry.set_position(UID, first, snapshot=None, table_uuid=None, expected_sequence=1, reason="x")


def test_an_unreadable_position_says_how_to_repair_it_and_can_be(registry, raw):
    first = publish(registry, load())
    with raw.begin() as connection:
        connection.execute(update(positions).values(position='{"version": 99}'))
    with pytest.raises(RegistryError, match="cannot be read") as caught:
        registry.position(UID)
    assert "tidegate state repair" in caught.value.hint
    registry.set_position(UID, first, snapshot="77", table_uuid="t-1", reason="the table's word")
    stands = registry.position(UID)
    assert stands is not None
    assert stands.position == first


# Runs and tasks


def test_a_run_from_start_to_end(registry):
    registry.start_run("run-1", UID)
    assert registry.status()[0].status == "RUNNING"
    assert registry.history(UID)[0].outcome == "running"
    registry.finish_run("run-1", outcome())
    registry.start_run("run-2", UID)
    registry.finish_run("run-2", outcome(Result.FAILED))
    last, first = registry.history(UID)
    assert (first.outcome, first.details, first.error) == ("loaded", outcome().to_dict(), None)
    assert (last.outcome, last.error) == ("failed", {"code": "write", "message": "refused", "hint": "again"})
    assert first.finished_at is not None
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
    assert done.finish_ts is not None
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
    assert ours.result_payload is not None
    assert ours.result_payload["rows"] == 7
    assert ours.result_payload["error"]["code"] == "position_moved"
    assert "secret-4711" not in json.dumps(foreign.to_dict())
    assert interrupted.result_payload is not None
    assert interrupted.result_payload["error"]["message"] == "KeyboardInterrupt"
    assert len(registry.tasks(limit=2)) == 2
    with pytest.raises(InternalError, match="never started"):
        registry.finish_task(999_999, Status.OK)


def test_what_a_crash_left_running_is_closed(registry):
    registry.register(uid="b", name="customers", source="s", target="t")
    for uid, run_id in ((UID, "dead"), (UID, "mine"), ("b", "mine")):
        registry.start_run(run_id, uid)
        registry.start_task(uid, "read", run_id=run_id, extract_group_id="g")
    registry.start_task(UID, "adopt")
    assert registry.close_crashed(UID, keep_run="mine") == 3
    assert {r.run_id: r.outcome for r in registry.history(UID)} == {"dead": "failed", "mine": "running"}
    dead = next(r for r in registry.history(UID) if r.run_id == "dead")
    assert dead.error is not None
    assert dead.error["message"] == "ended without finishing"
    assert {(t.run_id, t.status_cd) for t in registry.tasks(UID)} == {
        ("dead", Status.ERROR),
        ("mine", Status.RUNNING),
        (None, Status.ERROR),
    }
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


# Partitions


def ledger(**rows):
    return Ledger(
        entries={label: Entry(fingerprint=Fingerprint(rows=count, s0=count)) for label, count in rows.items()}
    )


def kept(raw):
    columns = "extract_group_id, partition_row_count, created_ts = updated_ts"
    with raw.connect() as connection:
        found = connection.execute(text(f"SELECT {columns} FROM checksums ORDER BY 1")).all()
    return [(label, rows, bool(untouched)) for label, rows, untouched in found]


def test_partitions_that_are_kept_as_they_were_are_not_touched(registry, raw):
    by_day = {"type": "by_date", "column_name": "day", "period": "day"}
    registry.keep_ledger(UID, by_day, ledger(a=1, b=2, c=3))
    time.sleep(0.002)
    registry.keep_ledger(UID, by_day, ledger(a=1, b=5, d=4))
    assert kept(raw) == [("a", 1, True), ("b", 5, False), ("d", 4, True)]
    assert registry.ledger(UID) == ledger(a=1, b=5, d=4)
    with raw.connect() as connection:
        method = connection.execute(text("SELECT checksum_method FROM object_info")).scalar()
    assert (json.loads(method) if isinstance(method, str) else method) == by_day


def test_partitions_of_another_method_do_not_stay(registry, raw):
    registry.keep_ledger(UID, {"type": "by_date", "column_name": "day", "period": "day"}, ledger(a=1, b=2))
    registry.keep_ledger(UID, {"type": "whole_table"}, ledger(a=1))
    assert kept(raw) == [("a", 1, True)]
    plan = load()
    part = Part(slice=Everything(), action=Action.LOAD, fingerprint=Fingerprint(rows=3))
    method = {"type": "by_integer", "column_name": "id", "modulus": 9}
    publish(registry, replace(plan, changes=replace(plan.changes, parts=(part,), state={"method": method})))
    assert kept(raw) == [("everything", 3, True)]


def test_a_stream_that_is_not_loaded_by_partitions_any_more_has_none(registry):
    registry.keep_ledger(UID, {"type": "whole_table"}, ledger(a=1))
    publish(registry, load())
    assert registry.ledger(UID) is None


def test_the_status_of_many_slices_is_that_of_each_alone(registry):
    labels = [str(number) for number in range(30)]
    for groups in (labels[:2], labels, labels[:25], labels[3:4]):
        with registry.task(UID, "load_partition", groups=groups):
            pass
    of_one = [(c.old_status, c.new_status) for c in reversed(registry.changes(UID, 1000)) if c.extract_group_id == "3"]
    assert of_one == [("NEW", "RUNNING"), ("RUNNING", "OK"), *[("OK", "RUNNING"), ("RUNNING", "OK")] * 2]


def test_each_group_ends_with_facts_of_its_own(registry):
    facts = {"a": {"rows": 1, "action": "LOAD"}, "b": {"rows": 2, "action": "RELOAD"}}
    with registry.task(UID, "load_partition", groups=["a", "b"], facts=facts) as payload:
        payload["snapshot"] = "77"
    assert {task.extract_group_id: task.result_payload for task in registry.tasks(UID)} == {
        "a": {"rows": 1, "action": "LOAD", "snapshot": "77"},
        "b": {"rows": 2, "action": "RELOAD", "snapshot": "77"},
    }


@pytest.mark.parametrize(
    ("source", "origin"),
    [
        ("shop: public.orders", ("shop", "public", "orders")),
        ("shop: orders", ("shop", None, "orders")),
        ("trino: lake.raw.`odd.name`", ("trino", "lake.raw", "odd.name")),
        ("shop: a query", ("shop", None, "a query")),
        ("files/*..csv", (None, None, "files/*..csv")),
    ],
)
def test_where_a_stream_comes_from(registry, raw, source, origin):
    registry.register(uid=UID, name="orders", source=source, target="t")
    with raw.connect() as connection:
        found = connection.execute(text("SELECT system_name, schema_name, source_object_name FROM object_info")).one()
    assert tuple(found) == origin


def test_an_error_of_the_work_is_not_hidden_by_one_of_the_registry(registry, raw):
    with pytest.raises(PositionMoved), registry.task(UID, "write"):  # noqa: PT012 - the table goes while it runs
        with raw.begin() as connection:
            connection.execute(tasks.delete())
            connection.execute(text("ALTER TABLE tasks RENAME TO elsewhere"))
        raise PositionMoved("moved")


# Schema


@pytest.mark.usefixtures("registry")
def test_the_migrations_make_the_tables_that_the_code_names(raw):
    with raw.connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
        assert compare_metadata(context, METADATA) == []


@pytest.mark.parametrize("version", ["0001", "0002", "0005"])
def test_a_registry_of_an_earlier_version_is_upgraded(url, tmp_path, version):
    (tmp_path / "state").mkdir(exist_ok=True)
    config = Config()
    config.set_main_option("script_location", str(Path(tidegate.registry.migrations.__file__).parent))
    database = Database(url)
    with database.write() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, version)
        columns = (
            "uid, object_name, source, target, status_cd, loaded_through, verified_through, created_ts, updated_ts"
        )
        stream = f"'{UID}', 'orders', 's: a.b', 't', 'OK', '10', '9'"
        connection.execute(
            text(f"INSERT INTO object_info ({columns}) VALUES ({stream}, :at, :at)"),
            {"at": datetime.now(UTC).isoformat(timespec="microseconds")},
        )
    database.close()
    with Registry.open(url) as registry:
        assert [known.stream for known in registry.status()] == ["orders"]
        assert [(part.label, part.known) for part in registry.intervals(UID).parts] == [("(-inf, 10]", "unverified")]
        assert registry.register(uid=UID, name="orders", source="s: a.b", target="t") == 1
        publish(registry, load())


def test_a_registry_of_a_newer_version_is_left_alone(registry, url, raw):
    registry.close()
    with raw.begin() as connection:
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '9999'"))
    with pytest.raises(RegistryError, match="newer Tidegate") as caught:
        Registry.open(url)
    assert "--upgrade" in caught.value.hint
    with raw.connect() as connection:
        assert connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar() == "9999"


def test_a_table_of_somebody_else_is_left_alone(url, raw, tmp_path):
    (tmp_path / "state").mkdir()
    with raw.begin() as connection:
        connection.execute(text("CREATE TABLE plans (mine int)"))
    with pytest.raises(RegistryError) as caught:
        Registry.open(url)
    assert "of its own" in caught.value.hint
    with raw.begin() as connection:
        connection.execute(text("INSERT INTO plans VALUES (1)"))


# Files


def listed(**contents):
    return Manifest.of(File(path=path, size=len(tag), tag=tag, stamp="1:2") for path, tag in contents.items())


def of_files(manifest, *, since=None, read=(), gone=()):
    """A load after which the position vouches for a manifest."""
    parts = [(Action.LOAD, manifest.files[path]) for path in read]
    parts += [(Action.DELETE, File(path=path, size=1, tag="x")) for path in gone]
    changes = ChangeSet(
        slices=(Files(paths=tuple(file.path for _, file in parts)),),
        meaning=Meaning.NEW,
        state=manifest.voucher(),
        parts=tuple(Part(slice=Files(paths=(file.path,)), action=action, file=file) for action, file in parts),
    )
    plan = load(since)
    return replace(plan, changes=changes, position=replace(plan.position, kind="files", state=changes.state))


def test_a_load_of_files_leaves_what_its_position_vouches_for(registry):
    first, second = listed(a="1", b="2"), listed(b="2", c="3")
    position = publish(registry, of_files(first, read="ab"))
    assert registry.manifest(UID) == first
    position = publish(registry, of_files(second, since=position, read="c", gone="a"))
    assert registry.manifest(UID) == second
    # Loaded anew: what was there before counts no more.
    position = publish(registry, of_files(listed(b="2"), since=position, read="b"))
    assert registry.manifest(UID) == listed(b="2")
    publish(registry, load(position))
    assert registry.manifest(UID) == Manifest()


def test_files_that_no_way_vouches_for_are_not_kept(registry):
    position = publish(registry, of_files(listed(a="1"), read="a"))
    publish(registry, replace(of_files(listed(a="1", b="2", z="9"), since=position, read="b")))
    assert registry.manifest(UID) == Manifest()


def test_the_stamp_of_a_file_is_remembered_alone(registry):
    registry.keep_manifest(UID, listed(a="1", b="2"))
    touched = replace(listed(a="1").files["a"], stamp="9:9")
    registry.stamp_files(UID, [touched, replace(touched, path="unknown")])
    assert registry.manifest(UID).files == {**listed(a="1", b="2").files, "a": touched}
    registry.keep_manifest(UID, listed(b="3"))
    assert registry.manifest(UID) == listed(b="3")
