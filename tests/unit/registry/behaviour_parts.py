"""What every registry keeps of partitions and files."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import replace

import pytest
from sqlalchemy import text

from tidegate.core.changes import Action, ChangeSet, Part
from tidegate.core.effects import Insert
from tidegate.core.fingerprint import Fingerprint
from tidegate.core.intervals import IntervalState
from tidegate.core.manifest import File, Manifest
from tidegate.core.slices import Everything, Files
from tidegate.errors import PositionMoved, WriteError
from tidegate.registry import recent
from tidegate.registry.tables import files, plans, tasks
from unit.registry.loads import UID, ledger, load, publish

# Partitions


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


def test_partitions_are_shown_as_their_last_load_and_comparison_left_them(registry):
    registry.keep_ledger(UID, {"type": "by_date", "column_name": "day", "period": "day"}, ledger(a=1, b=2, c=3))
    with registry.task(UID, "load_partition", groups=["a"]) as payload:
        payload["verified"] = True
    with registry.task(UID, "load_partition", groups=["b"]):
        pass
    with suppress(WriteError), registry.task(UID, "load_partition", groups=["c", "z"]):
        raise WriteError("full")

    def shown(limit=10):
        return registry.ask(lambda connection: recent.partitions(connection, UID, limit))

    done, unverified = IntervalState.DONE, IntervalState.UNVERIFIED
    lost = [("c", 3, IntervalState.STALE), ("z", None, IntervalState.FAILED)]
    assert shown() == [("a", 1, done), ("b", 2, unverified), *lost]
    assert shown(2) == [("b", 2, unverified), *lost], "the last ones"
    for level, equal, state in [("counts", True, unverified), ("rows", False, unverified), ("rows", True, done)]:
        with registry.task(UID, "measure_partition") as payload:
            payload |= {"level": level, "equal": equal}
        assert shown() == [("a", 1, done), ("b", 2, state), *lost]
    with registry.task(UID, "measure_partition") as payload:
        payload |= {"level": "rows", "equal": True, "load_id": "of a version that was rolled back"}
    assert shown()[1] == ("b", 2, unverified)
    time.sleep(0.002)
    registry.keep_ledger(UID, {"type": "by_date", "column_name": "day", "period": "day"}, ledger(a=1, b=5, c=3))
    assert shown()[1] == ("b", 5, unverified), "it was loaded since"
    assert registry.ask(lambda connection: recent.partitions(connection, "another", 10)) == []


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


# Files


def listed(**contents):
    return Manifest.of(File(path=path, size=len(tag), tag=tag, stamp="1:2") for path, tag in contents.items())


def of_files(manifest, *, since=None, read=(), gone=()):
    """A load after which the position vouches for a manifest."""
    parts = [(Action.LOAD, manifest.files[path]) for path in read]
    parts += [(Action.DELETE, File(path=path, size=1, tag="x")) for path in gone]
    changes = ChangeSet(
        slices=(Files(paths=tuple(file.path for _, file in parts)),),
        effect=Insert(),
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


def test_files_go_back_with_the_position(registry):
    """As they were then: also those that a later load read again or whose rows it removed, and each with its load."""

    def back(position):
        registry.set_position(UID, position, snapshot="77", table_uuid="t-1", reason="rollback")
        return registry.manifest(UID)

    def numbered(**loads):
        return Manifest.of(replace(listed(**{name: name}).files[name], loaded=at) for name, at in loads.items())

    first = publish(registry, of_files(numbered(a=1, b=1), read="ab"))
    second = publish(registry, of_files(numbered(a=1, b=1, c=2), since=first, read="c"))
    third = publish(registry, of_files(numbered(a=3, c=2), since=second, read="a", gone="b"))
    assert back(second) == numbered(a=1, b=1, c=2)
    other = publish(registry, of_files(numbered(a=1, b=1, c=2, d=3), since=second, read="d"))
    last = publish(registry, of_files(numbered(a=1, b=1, c=4, d=3), since=other, read="c"))
    assert back(third) == numbered(a=3, c=2)
    assert back(other) == numbered(a=1, b=1, c=2, d=3)
    assert back(last) == numbered(a=1, b=1, c=4, d=3)
    assert back(first) == numbered(a=1, b=1)
    registry.set_files_back(UID, third)
    assert registry.manifest(UID) == numbered(a=3, c=2)
    # An adopted table has no load that names its files.
    adopted = replace(first, load_id="1" * 32)
    registry.set_position(UID, adopted, snapshot="77", table_uuid="t-1", reason="adopt")
    registry.keep_manifest(UID, numbered(a=1, b=1))
    publish(registry, of_files(numbered(a=1, b=1, c=2), since=adopted, read="c"))
    assert back(adopted) == numbered(a=1, b=1)
    # What nothing tells is left as it is, and not believed.
    unknown = replace(last, load_id="0" * 32, state=listed(z="9").voucher())
    assert back(unknown) == numbered(a=1, b=1)
    assert not registry.manifest(UID).vouched(unknown.state)


def test_files_that_no_way_vouches_for_are_not_kept(registry):
    position = publish(registry, of_files(listed(a="1"), read="a"))
    publish(registry, replace(of_files(listed(a="1", b="2", z="9"), since=position, read="b")))
    assert registry.manifest(UID) == Manifest()


def test_an_empty_stamp_of_an_older_version_is_none(registry, raw):
    stampless = replace(listed(a="1").files["a"], stamp=None)
    old = replace(of_files(Manifest.of([stampless]), read="a"))
    document = old.to_dict()
    document["changes"]["parts"][0]["file"]["stamp"] = ""
    registry.save_plan(old, "run-1")
    with raw.begin() as connection:
        connection.execute(plans.update().values(plan=document))
    registry.advance(registry.plan(old.load_id), snapshot="77", table_uuid="t-1", verified=None)
    with raw.begin() as connection:
        assert connection.scalar(files.select().with_only_columns(files.c.stamp)) is None
        connection.execute(files.update().values(stamp=""))
    assert registry.manifest(UID).files == {"a": stampless}


def test_the_stamp_of_a_file_is_remembered_alone(registry):
    registry.keep_manifest(UID, listed(a="1", b="2"))
    touched = replace(listed(a="1").files["a"], stamp="9:9")
    registry.stamp_files(UID, [touched, replace(touched, path="unknown")])
    assert registry.manifest(UID).files == {**listed(a="1", b="2").files, "a": touched}
    registry.keep_manifest(UID, listed(b="3"))
    assert registry.manifest(UID) == listed(b="3")
