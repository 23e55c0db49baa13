"""Which steps are worth doing and which versions can be gone back to, from metadata and logs written by hand."""

import json
import os
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest

from tidegate.core.ids import Target
from tidegate.core.plan import branch_prefix
from tidegate.core.policies.maintenance import Bytes, Maintenance, Step, Upkeep
from tidegate.core.position import Position, property_name, touched_name
from tidegate.errors import ConfigError
from tidegate.formats.delta import Delta, table
from tidegate.formats.iceberg import Iceberg, ddl, layout
from tidegate.formats.iceberg import maintenance as iceberg
from tidegate.formats.iceberg import versions as travel
from tidegate.formats.iceberg.metadata import Metadata
from unit.formats.delta_logs import write_log

UID, OTHER = "0123456789abcdef", "f" * 16
TARGET = Target(lake="lake", namespace=("shop",), table="orders")
NOW = datetime(2025, 6, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)


def upkeep(*, partition_by=(), force=False, looked_at=NOW, **rules):
    return Upkeep(
        target=TARGET,
        uid=UID,
        rules=Maintenance(**rules),
        now=NOW,
        partition_by=partition_by,
        force=force,
        looked_at=looked_at,
    )


def ms(days_ago):
    return int((NOW - DAY * days_ago).timestamp() * 1000)


def mark(sequence, uid=UID):
    return {property_name(uid): Position(sequence=sequence, load_id=str(sequence), kind="test").to_json()}


def snapshot(number, days_ago, parent=None, **summary):
    told = {"operation": "append", "total-records": "10", "total-data-files": "1", **summary}
    return {"snapshot-id": number, "parent-snapshot-id": parent, "timestamp-ms": ms(days_ago), "summary": told}


def metadata(*snapshots, refs=None, **more):
    last = snapshots[-1]["snapshot-id"] if snapshots else -1
    return Metadata(
        {
            "current-snapshot-id": last,
            "refs": {"main": {"snapshot-id": last}, **(refs or {})},
            "snapshots": list(snapshots),
            "snapshot-log": [{"snapshot-id": s["snapshot-id"], "timestamp-ms": s["timestamp-ms"]} for s in snapshots],
            "schemas": [{"schema-id": 0, "fields": [{"id": 1, "name": "id", "type": "long", "required": False}]}],
            "partition-specs": [{"spec-id": 0, "fields": []}],
            "default-spec-id": 0,
            **more,
        }
    )


def surveyed(found, asked, *, aged=True):
    return [need.step for need in iceberg.survey(found, lambda: None, asked, aged=lambda: aged)]


def chain(count, *, every=1):
    """Snapshots in a row, one a day, the newest of today."""
    return [snapshot(n, (count - n) * every, n - 1 if n > 1 else None) for n in range(1, count + 1)]


def test_what_is_old_and_what_is_among_the_newest():
    found = metadata(*chain(30))
    assert iceberg.expired(found, upkeep(keep=5)) == frozenset(range(1, 23)), "older than seven days"
    assert iceberg.expired(found, upkeep(keep=20)) == frozenset(range(1, 11)), "not one of the newest twenty"
    assert iceberg.expired(found, upkeep(keep=30)) == frozenset()
    tagged = metadata(*chain(30), refs={"audit": {"snapshot-id": 4, "type": "tag"}})
    assert 4 not in iceberg.expired(tagged, upkeep(keep=5))
    many = upkeep(keep=2, keep_at_most=3)
    assert iceberg.expired(found, many) == frozenset(range(1, 28)), "more than may stay, though younger than a week"
    assert iceberg.expired(metadata(*chain(3)), many) == frozenset()


def test_marks_are_carried_on_when_an_expiry_would_take_one_and_only_then():
    snapshots = chain(10)
    snapshots[1]["summary"] |= mark(1, OTHER)
    snapshots[2]["summary"] |= mark(1)
    snapshots[8]["summary"] |= mark(2)
    found = metadata(*snapshots)
    assert iceberg.carried(found, frozenset({1})) == {}
    assert iceberg.carried(found, frozenset({1, 3})) == {}, "a newer one says more"
    told = {**mark(2), **mark(1, OTHER)}
    touched = {touched_name(uid): "true" for uid in (UID, OTHER)}
    assert iceberg.carried(found, frozenset({1, 2, 3})) == {**told, **touched}, "of every stream of the table"
    for each in snapshots[9:]:
        each["summary"]["operation"] = "replace"
    touched.pop(touched_name(UID))
    assert iceberg.carried(metadata(*snapshots), frozenset({1, 2, 3})) == {**told, **touched}, "compaction moves no row"
    assert iceberg.carried(found, frozenset(range(1, 10))) == {**told, **touched}


def test_nothing_is_worth_doing_for_a_small_young_table():
    assert surveyed(metadata(*chain(3)), upkeep()) == []
    assert surveyed(metadata(), upkeep(force=True)) == []


def test_branches_layout_old_snapshots_and_the_look_for_orphans():
    left = f"{branch_prefix(UID)}abc"
    other = f"{branch_prefix(OTHER)}abc"
    refs = {left: {"snapshot-id": 3}, other: {"snapshot-id": 3}}
    found = metadata(*chain(30), refs=refs)
    asked = upkeep(partition_by=("bucket(4, id)",), looked_at=NOW - DAY)
    needs = {need.step: need.reason for need in iceberg.survey(found, lambda: None, asked, aged=lambda: True)}
    assert list(needs) == [Step.BRANCHES, Step.LAYOUT, Step.EXPIRE, Step.ORPHANS]
    assert needs[Step.BRANCHES] == "1 left by crashed loads"
    assert surveyed(metadata(*chain(3)), upkeep(looked_at=NOW - DAY / 2)) == []
    assert surveyed(metadata(*chain(3)), upkeep(looked_at=None)) == [Step.ORPHANS]
    young = surveyed(metadata(*chain(3)), upkeep(looked_at=None, force=True), aged=False)
    assert Step.ORPHANS not in young, "no file is old enough to be one"


@pytest.mark.parametrize(
    ("transforms", "wanted", "differs"),
    [
        ([], (), False),
        ([], ("id",), True),
        (["identity"], (), False),
        (["identity"], ("id",), False),
        (["bucket[16]"], ("bucket(16,id)",), False),
        (["bucket[16]"], ("bucket(8, id)",), True),
        (["day"], ("days(id)",), False),
        (["day"], ("day( id )",), False),
        (["day"], ("months(id)",), True),
        (["void"], ("id",), True),
        (["truncate[4]", "identity"], ("truncate(4, id)", "id"), False),
    ],
)
def test_a_layout_is_compared_with_what_the_table_has(transforms, wanted, differs):
    fields = [{"source-id": 1, "transform": each, "name": each} for each in transforms]
    raw = metadata(**{"partition-specs": [{"spec-id": 7, "fields": fields}], "default-spec-id": 7}).raw
    assert bool(layout.differs(raw, wanted)) is differs


def test_a_layout_is_applied_by_fields_that_go_and_come():
    fields = [{"source-id": 1, "transform": "bucket[4]", "name": "b"}, {"source-id": 1, "transform": "identity"}]
    found = metadata(
        **{
            "partition-specs": [{"spec-id": 0, "fields": fields}],
            "properties": {"write.merge.distribution-mode": "none", "write.delete.distribution-mode": "hash"},
        }
    )
    assert list(layout.evolve(TARGET, found, ("id", "truncate(10, id)"))) == [
        "ALTER TABLE `lake`.`shop`.`orders` DROP PARTITION FIELD bucket(4, `id`)",
        "ALTER TABLE `lake`.`shop`.`orders` ADD PARTITION FIELD truncate(10, `id`)",
        "ALTER TABLE `lake`.`shop`.`orders` UNSET TBLPROPERTIES ('write.merge.distribution-mode')",
    ]
    held = metadata(**{"partition-specs": [{"spec-id": 0, "fields": []}], "properties": dict(ddl.HALVED)})
    unset = ", ".join(f"'{name}'" for name in ddl.HALVED)
    *_, last = layout.evolve(TARGET, held, ("id",))
    assert last == f"ALTER TABLE `lake`.`shop`.`orders` UNSET TBLPROPERTIES ({unset})"
    with pytest.raises(ConfigError, match="partition_by names 'nope'"):
        list(layout.evolve(TARGET, found, ("nope",)))


def test_versions_are_those_that_were_seen_each_with_its_load():
    snapshots = [snapshot(1, 3), snapshot(2, 2, 1, **mark(1)), snapshot(3, 2, 2), snapshot(4, 1, 3, **mark(2))]
    found = metadata(*snapshots)
    half = {"snapshot-id": 3}
    raw = {**found.raw, "snapshot-log": [each for each in found.raw["snapshot-log"] if each["snapshot-id"] != 3]}
    told = list(travel.versions(Metadata(raw), UID))
    assert half["snapshot-id"] not in [int(each.id) for each in told], "what nobody saw may be half a load"
    assert [(each.id, each.load, each.current) for each in told] == [
        ("1", None, False),
        ("2", 1, False),
        ("4", 2, True),
    ]


PROTOCOL = {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7}}
MADE = {
    "metaData": {
        "id": "t",
        "schemaString": json.dumps({"type": "struct", "fields": [{"name": "id", "type": "long", "metadata": {}}]}),
        "partitionColumns": ["id"],
        "configuration": {},
    }
}


def added(path, *, rows=10, size=1000, deleted=0):
    vector = {"storageType": "i", "pathOrInlineDv": "x", "cardinality": deleted} if deleted else None
    stats = json.dumps({"numRecords": rows})
    return {"add": {"path": path, "size": size, "partitionValues": {}, "stats": stats, "deletionVector": vector}}


def commit(days_ago, *actions, sequence=None, **more):
    info = {"operation": "WRITE", "timestamp": ms(days_ago), **more}
    if sequence:
        info["userMetadata"] = table.user_metadata(UID, Position(sequence=sequence, load_id="x", kind="test"))
    return [{"commitInfo": info}, *actions]


def delta(folder, *commits, there=()):
    root = folder / "warehouse" / "shop" / "orders"
    write_log(root / "_delta_log", *commits)
    for name, days_ago in there:
        (root / name).write_bytes(b"x" * 10)
        os.utime(root / name, (ms(days_ago) / 1000, ms(days_ago) / 1000))
    return Delta(name="lake", folder=folder)


def steps(lake, asked):
    return [need.step for need in lake.survey(asked)]


def test_delta_small_files_deleted_rows_and_old_files(tmp_path):
    few = [added(f"{n}.parquet") for n in range(4)]
    lake = delta(tmp_path, commit(30, PROTOCOL, MADE, *few), commit(0))
    assert steps(lake, upkeep()) == []
    assert steps(lake, upkeep(force=True)) == [Step.COMPACT, Step.EXPIRE]
    assert steps(lake, upkeep(compact_below=Bytes(900), force=True)) == [Step.EXPIRE]
    five = [added(f"{n}.parquet", deleted=2 if n == 4 else 0) for n in range(5)]
    other = delta(tmp_path / "b", commit(30, PROTOCOL, MADE, *five), there=[("4.parquet", 30), ("old.parquet", 8)])
    assert steps(other, upkeep(keep=1)) == [Step.COMPACT, Step.EXPIRE]
    few = [added("a.parquet", size=10**9, deleted=1)]
    assert steps(delta(tmp_path / "d", commit(0, PROTOCOL, MADE, *few)), upkeep()) == [], "of ten rows one"
    much = [added("a.parquet", size=10**9, rows=90_000, deleted=10_000)]
    assert steps(delta(tmp_path / "c", commit(0, PROTOCOL, MADE, *much)), upkeep()) == [Step.DELETES]


def test_delta_keeps_files_as_long_as_one_of_the_newest_versions_needs_them(tmp_path):
    commits = [commit(30 - n, *([PROTOCOL, MADE] if n == 0 else [])) for n in range(30)]
    lake = delta(tmp_path, *commits, there=[("gone.parquet", 15)])
    assert steps(lake, upkeep(keep=20)) == []
    assert steps(lake, upkeep(keep=10)) == [Step.EXPIRE]
    assert steps(lake, upkeep(keep=10, expire_after=16 * DAY)) == []
    assert steps(lake, upkeep(keep=10, keep_at_most=12, expire_after=16 * DAY)) == [Step.EXPIRE]


def test_delta_carries_a_position_on_before_the_log_forgets_it(tmp_path):
    lake = delta(tmp_path, commit(9, PROTOCOL, MADE, sequence=3), commit(0))
    assert steps(lake, upkeep()) == [Step.POSITION]
    assert steps(delta(tmp_path / "b", commit(6, PROTOCOL, MADE, sequence=3)), upkeep()) == []


def test_delta_refuses_another_layout_and_names_the_way_out(tmp_path):
    lake = delta(tmp_path, commit(0, PROTOCOL, MADE))
    assert steps(lake, upkeep(partition_by=("id",))) == []
    with pytest.raises(ConfigError, match="Delta cannot change that") as refused:
        lake.survey(upkeep(partition_by=("name",)))
    assert "another `target:`" in refused.value.hint


def test_delta_versions_are_readable_as_long_as_their_files_are_there(tmp_path):
    lake = delta(
        tmp_path,
        commit(3, PROTOCOL, MADE, added("a.parquet"), sequence=1),
        commit(2, added("b.parquet"), {"remove": {"path": "a.parquet", "dataChange": True}}, sequence=2),
        commit(1, operation="OPTIMIZE"),
        there=[("b.parquet", 2)],
    )
    told = lake.versions(TARGET, UID)
    assert [(each.id, each.load, each.rows, each.readable, each.current) for each in told] == [
        ("0", 1, 10, False, False),
        ("1", 2, 10, True, False),
        ("2", 2, 10, True, True),
    ]


def test_versions_may_stay_for_longer_than_there_are_days():
    rules = Maintenance(expire_after=timedelta.max, orphans_after=timedelta(days=800_000))
    upkeep = Upkeep(target=TARGET, uid=UID, rules=rules, now=datetime(2025, 1, 1, tzinfo=UTC))
    assert {upkeep.expires_before, upkeep.orphaned_before} == {datetime(1, 1, 1, tzinfo=UTC)}


def test_rules_that_nobody_can_keep_are_refused():
    with pytest.raises(ValueError, match="keep must be 1 or more"):
        Maintenance(keep=0)
    with pytest.raises(ValueError, match="keep_at_most must not be less"):
        Maintenance(keep=301)
    with pytest.raises(ValueError, match="orphans_after must be 1d or more"):
        Maintenance(orphans_after=timedelta(hours=23))


def test_a_position_is_found_among_as_many_versions_as_may_stay(tmp_path):
    """Behind a hundred commits of others, in the metadata of a table just before its maintenance."""
    count = Maintenance().keep_at_most + 100
    snapshots = chain(count)
    snapshots[count - 101]["summary"] |= mark(7)
    (tmp_path / "m.json").write_text(json.dumps(dict(metadata(*snapshots).raw)))
    (tmp_path / ".tidegate").mkdir()
    with closing(sqlite3.connect(tmp_path / ".tidegate" / "catalog.db")) as catalog, catalog:
        catalog.execute("CREATE TABLE iceberg_tables (catalog_name, table_namespace, table_name, metadata_location)")
        row = ("lake", "shop", "orders", f"file://{tmp_path}/m.json")
        catalog.execute("INSERT INTO iceberg_tables VALUES (?, ?, ?, ?)", row)
    assert Iceberg(name="lake", folder=tmp_path).state(TARGET, UID).position.sequence == 7
