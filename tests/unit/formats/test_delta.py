"""What a Delta table's log says, from logs written by hand: positions, checkpoints, restores, damage."""

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import fs, parquet

from tidegate.core.grouping import Steps
from tidegate.core.ids import Target
from tidegate.core.plan import Prune
from tidegate.core.ports.format import Receipt
from tidegate.core.schema import BIGINT, DATE, DOUBLE, INT, TEXT, TIMESTAMP, TIMESTAMPTZ, array, decimal
from tidegate.errors import ConfigError, SchemaRefused, WriteError
from tidegate.formats.delta import Delta, table
from tidegate.formats.delta.log import Commit, Log
from tidegate.formats.shared.storage import store_of
from tidegate.storage import ArrowFiles
from unit.formats.delta_logs import (
    MADE,
    OTHER,
    PROTOCOL,
    TARGET,
    UID,
    add,
    info,
    load,
    log_of,
    metadata,
    position,
    remove,
    txn,
    write,
)


@pytest.fixture
def lake(tmp_path: Path) -> Delta:
    return Delta(name="lake", folder=tmp_path)


def state(lake: Delta, uid: str = UID):
    return lake.state(TARGET, uid)


def test_an_empty_table_has_a_version_and_no_rows(lake):
    assert not state(lake).exists
    log_of(lake).mkdir(parents=True)
    assert not state(lake).exists, "a log without a commit is a table that nobody made yet"
    write(lake, MADE)
    found = state(lake)
    assert (found.exists, found.uuid, found.snapshot, found.rows, found.position) == (True, "t-1", "0", 0, None)
    assert [(column.name, column.type) for column in found.schema] == [("id", BIGINT), ("name", TEXT)]


def test_the_position_is_that_of_the_newest_load_whatever_came_after(lake):
    write(lake, MADE, load(1, add("a", 5)), load(7, add("b"), uid=OTHER), [info("OPTIMIZE")], [info(), add("c")])
    found = state(lake)
    assert (found.position, found.position_snapshot, found.snapshot) == (position(1), "1", "4")
    assert (found.last_sequence, found.number, found.rows) == (1, None, 7)
    assert state(lake, OTHER).position == position(7, OTHER)
    assert (state(lake, "e" * 16).position, state(lake, "e" * 16).last_sequence) == (None, 0)


def test_a_restored_table_stands_where_the_rows_that_are_back_stood_and_keeps_its_numbers(lake):
    restore = info("RESTORE", operationParameters={"version": 1, "timestamp": None})
    write(lake, MADE, load(1, add("a")), load(2, add("b")), [restore, remove("b")])
    found = state(lake)
    assert (found.position, found.last_sequence, found.rows) == (position(1), 2, 1)
    write(lake, load(3, add("c")))
    assert (state(lake).position, state(lake).last_sequence) == (position(3), 3)
    write(lake, [info("RESTORE", operationParameters={"version": 0}), remove("a"), remove("c")])  # before any load
    found = state(lake)
    assert (found.position, found.number, found.last_sequence, found.rows) == (None, None, 3, 0), (
        "before its first load"
    )


def checkpoint(lake: Delta, version: int, *actions, name: str | None = None) -> None:
    rows = [{key: value for key, value in action.items() if key != "commitInfo"} for action in actions]
    text = pa.map_(pa.string(), pa.string())
    dv = pa.struct(
        {"storageType": pa.string(), "pathOrInlineDv": pa.string(), "offset": pa.int32(), "cardinality": pa.int64()}
    )
    kinds = {
        "txn": pa.struct({"appId": pa.string(), "version": pa.int64()}),
        "metaData": pa.struct({"id": pa.string(), "schemaString": pa.string(), "configuration": text}),
        "protocol": pa.struct({"minReaderVersion": pa.int32(), "readerFeatures": pa.list_(pa.string())}),
        "add": pa.struct(
            {
                "path": pa.string(),
                "partitionValues": text,
                "stats": pa.string(),
                "size": pa.int64(),
                "deletionVector": dv,
            }
        ),
        "sidecar": pa.struct({"path": pa.string(), "sizeInBytes": pa.int64()}),
    }
    kinds = {key: kind for key, kind in kinds.items() if key != "sidecar" or any("sidecar" in row for row in rows)}
    columns = {key: pa.array([row.get(key) for row in rows], kind) for key, kind in kinds.items()}
    path = log_of(lake) / (name or f"{version:020}.checkpoint.parquet")
    path.parent.mkdir(exist_ok=True)
    parquet.write_table(pa.table(columns), path)


def forget(lake: Delta, *versions: int) -> None:
    for version in versions:
        (log_of(lake) / f"{version:020}.json").unlink()


def test_a_checkpoint_stands_for_the_commits_before_it(lake):
    write(lake, MADE, load(1, add("a", 5)), load(2, add("b", 4, dv=("x", 3))), load(3, add("c")))
    whole = state(lake)
    checkpoint(lake, 2, PROTOCOL, metadata(), txn(2), add("a", 5), add("b", 4, dv=("x", 3)))
    forget(lake, 0, 1)
    assert (state(lake).rows, state(lake).schema, state(lake).position) == (whole.rows, whole.schema, position(3))
    assert whole.rows == 5 + 1 + 1


def test_a_position_that_the_log_forgot_is_told_by_its_number(lake):
    write(lake, MADE, load(4, add("a")), [info(), add("b")])
    checkpoint(lake, 2, PROTOCOL, metadata(), txn(4), add("a"), add("b"))
    forget(lake, 0, 1)
    found = state(lake)
    assert (found.position, found.number, found.last_sequence) == (None, 4, 4)
    assert state(lake, OTHER).number is None


def test_behind_a_restore_a_number_tells_nothing(lake):
    restore = info("RESTORE", operationParameters={"version": 1})
    write(lake, MADE, load(1, add("a")), load(2, add("b")), [restore, remove("b")])
    checkpoint(lake, 2, PROTOCOL, metadata(), txn(2), add("a"), add("b"))
    forget(lake, 0, 1)
    found = state(lake)
    assert (found.position, found.number, found.last_sequence) == (None, None, 2)


def test_a_checkpoint_in_parts_counts_only_when_all_are_there(lake):
    write(lake, MADE, load(1, add("a")), load(2, add("b")))
    names = [f"{2:020}.checkpoint.{part:010}.{2:010}.parquet" for part in (1, 2)]
    checkpoint(lake, 2, PROTOCOL, metadata(), name=names[0])
    assert state(lake).rows == 2, "half a checkpoint is none: the commits tell"
    checkpoint(lake, 2, txn(2), add("a"), add("b"), add("c"), name=names[1])
    forget(lake, 0, 1)
    assert state(lake).rows == 3


def test_a_checkpoint_with_sidecars(lake):
    write(lake, MADE, load(1, add("a")), load(2, add("b")))
    checkpoint(lake, 2, add("a"), add("b", 6), name="_sidecars/one.parquet")
    uuid = "12345678-1234-1234-1234-123456789abc"
    top = [PROTOCOL, metadata(), txn(2), {"sidecar": {"path": "one.parquet", "sizeInBytes": 1}}]
    (log_of(lake) / f"{2:020}.checkpoint.{uuid}.json").write_text("\n".join(map(json.dumps, top)))
    forget(lake, 0, 1)
    assert (state(lake).rows, state(lake).position) == (7, position(2))


def test_a_whole_checksum_file_spares_the_replay(lake):
    write(lake, MADE, load(1, add("a")))
    told = {
        "metadata": metadata()["metaData"],
        "protocol": PROTOCOL["protocol"],
        "setTransactions": [txn(1)["txn"]],
        "allFiles": [add("a", 42)["add"]],
        "numFiles": 1,
    }
    file = log_of(lake) / f"{1:020}.crc"
    file.write_text(json.dumps(told))
    assert (state(lake).rows, state(lake).position) == (42, position(1))
    for damaged in (json.dumps({**told, "numFiles": 2}), json.dumps({**told, "setTransactions": None}), "{"):
        file.write_text(damaged)
        assert state(lake).rows == 1, "the log itself tells"


def test_a_file_that_does_not_say_how_many_rows_it_holds_makes_the_number_unknown(lake):
    write(lake, MADE, load(1, add("a"), {"add": {"path": "b", "partitionValues": {}}}))
    assert state(lake).rows is None


def test_rows_deleted_from_a_file_make_it_another_file(lake):
    write(lake, MADE, [info(), add("a", 10)], [info(), remove("a", 10), add("a", 10, dv=("x", 3))])
    assert state(lake).rows == 7
    vector = add("a", 10, dv=("x", 3))["add"]["deletionVector"]
    write(lake, [info(), remove("a", 10, deletionVector=vector)])
    assert state(lake).rows == 0


def damaged(lake, how):
    """Damages a log of two loads, or the folder that it lies in."""
    commit = log_of(lake) / f"{1:020}.json"
    match how:
        case "no Delta table":
            log_of(lake).parent.mkdir(parents=True)
            (log_of(lake).parent / "part-0.parquet").write_bytes(b"x")
            return
        case "a file":
            log_of(lake).parent.parent.mkdir(parents=True)
            log_of(lake).parent.write_text("a file")
            return
    write(lake, MADE, load(1), load(2))
    match how:
        case "a line cut short":
            commit.write_text('{"add": {"path"')
        case "another encoding":
            commit.write_bytes(b"\xff")
        case "a gap":
            forget(lake, 1)
        case "a checkpoint":
            (log_of(lake) / f"{2:020}.checkpoint.parquet").write_bytes(b"PAR1 and no more")
        case "a position of a newer version":
            newer = {"commitInfo": {"userMetadata": json.dumps({f"tidegate.{UID}.position": {"version": 99}})}}
            write(lake, [newer, txn(3)])
            assert state(lake, OTHER).position is None, "another stream's is no concern of ours"
        case "a catalog's commits":
            protocol = {**PROTOCOL["protocol"], "readerFeatures": ["catalogManaged"]}
            write(lake, [{"protocol": protocol}, metadata()])


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("no Delta table", "no Delta table"),
        ("a file", "cannot be read"),
        ("a line cut short", f"{1:020}.json"),
        ("another encoding", f"{1:020}.json"),
        ("a gap", "version 1"),
        ("a checkpoint", "damaged"),
        ("a position of a newer version", "cannot be read"),
        ("a catalog's commits", "catalogManaged"),
    ],
)
def test_what_is_damaged_or_not_ours_is_an_error(lake, how, told):
    damaged(lake, how)
    with pytest.raises(WriteError, match=told):
        state(lake)


def test_somebody_elses_user_metadata_is_left_alone(lake):
    write(lake, MADE, load(1), [{"commitInfo": {"userMetadata": "no json at all"}}], [{"add": add("a")["add"]}])
    assert state(lake).position == position(1)


def test_types_are_those_of_the_table(lake):
    kinds = {
        "a": "integer",
        "b": "double",
        "c": "decimal(10,2)",
        "d": "date",
        "e": "timestamp",
        "f": "timestamp_ntz",
        "g": {"type": "array", "elementType": "string", "containsNull": True},
    }
    write(lake, [PROTOCOL, metadata(kinds)])
    expected = [INT, DOUBLE, decimal(10, 2), DATE, TIMESTAMPTZ, TIMESTAMP, array(TEXT)]
    assert [column.type for column in state(lake).schema] == expected


@pytest.mark.parametrize("kind", ["short", "byte", "variant", {"type": "map"}, {"type": "struct", "fields": []}])
def test_a_type_that_is_not_loaded_is_refused_by_name(lake, kind):
    write(lake, [PROTOCOL, metadata({"odd": kind})])
    with pytest.raises(SchemaRefused, match="'odd'"):
        state(lake)


def bound(low, high, column="id", kind=BIGINT):
    return Prune(column=column, type=kind, low=str(low), high=str(high))


def test_what_no_file_can_hold_is_known_from_the_bounds_of_all_of_them(lake):
    empty = {"path": "e", "partitionValues": {}, "stats": json.dumps({"numRecords": 3, "nullCount": {"id": 3}})}
    write(lake, MADE, [info(), add("a", low=15, high=17), add("b", low=-1, high=6), {"add": empty}])
    assert lake.may_hold(TARGET, bound(17, 20))
    assert lake.may_hold(TARGET, bound(-9, -1))
    assert not lake.may_hold(TARGET, bound(7, 14)), "between two files"
    assert not lake.may_hold(TARGET, bound(18, 20))
    assert lake.may_hold(TARGET, bound("x", "y", "name", TEXT)), "texts are cut in the statistics"
    assert lake.may_hold(TARGET, bound(18, 20, "absent"))
    write(lake, [info(), {"add": {"path": "c", "partitionValues": {}}}])
    assert lake.may_hold(TARGET, bound(18, 20)), "a file without statistics"


def test_merges_copy_files_unless_the_table_has_deletion_vectors(lake):
    write(lake, MADE, [info(), add("a")])
    assert state(lake).since_load.copies_files
    write(lake, [info("SET TBLPROPERTIES"), metadata(configuration={table.VECTORS: "true"})])
    assert not state(lake).since_load.copies_files


COUNTS = {"numTargetRowsInserted": "3", "numTargetRowsUpdated": "2", "numTargetRowsDeleted": "1"}


@pytest.mark.parametrize(
    ("actions", "expected"),
    [
        ([info("MERGE", operationMetrics=COUNTS), add("a", 9)], (3, 2, 1)),
        ([info(), add("a", 4), add("b", 5)], (9, 0, 0)),
        ([info(), remove("a", 4), add("b", 5)], (5, 0, 4)),
        # A slice replaced: three rows of a file are taken out of it, one comes.
        ([info(), remove("a", 10), add("a", 10, dv=("x", 3)), add("b", 1)], (1, 0, 3)),
        ([info(operationMetrics={"numCopiedRows": "7"}), remove("a", 10), add("b", 7), add("c", 1)], (1, 0, 3)),
        ([info(operationMetrics={"numCopiedRows": "7"}), remove("a", 10), add("a", 10, dv=("x", 3))], (0, 0, 3)),
    ],
)
def test_a_receipt_counts_rows(actions, expected):
    found = table.receipt(Commit(8, tuple(actions)))
    inserted, updated, deleted = expected
    assert found == Receipt(snapshot="8", rows_inserted=inserted, rows_updated=updated, rows_deleted=deleted)


def test_any_name_of_a_table_is_a_folder_of_its_own(lake):
    odd = Target(lake="lake", namespace=("a/b",), table="..")
    location = lake._location(odd)
    assert location.startswith(f"{lake.warehouse}/~")
    assert ".." not in location
    assert lake._location(TARGET) == f"file://{lake.folder.resolve()}/warehouse/shop/orders"


def test_every_slice_can_be_replaced(lake):
    assert lake.aligned(TARGET, Steps(column="id", width=10))
    assert lake.partition_by(Steps(column="id", width=10)) == ()


@pytest.mark.parametrize("catalog", [{"type": "rest"}, {"type": "spark", "uri": "x"}, {"uri": "x"}])
def test_no_other_catalog(tmp_path, catalog):
    with pytest.raises(ConfigError, match="no catalog except Spark's own"):
        Delta(name="lake", folder=tmp_path, catalog=catalog)


def test_a_log_in_an_object_store_is_read_by_arrow(lake, tmp_path):
    # Arrow reads its own local file system as it reads S3: only the scheme chooses its client.
    def by_arrow(folder):
        return replace(store_of(f"file://{folder}"), files=ArrowFiles(fs.LocalFileSystem()))

    write(lake, MADE, load(1, add("a")))
    remote = by_arrow(log_of(lake).parent)
    log = Log.open(remote)
    assert (log.version, log.snapshot().rows, table.landed(log, log.snapshot(), UID).position) == (1, 1, position(1))
    assert Log.open(by_arrow(tmp_path / "nowhere")) is None
    on_disk = store_of(f"file://{log_of(lake).parent}").walk()
    assert {(each.path, each.size) for each in remote.walk()} == {(each.path, each.size) for each in on_disk} != set()
    with pytest.raises(WriteError, match="is missing"):
        remote.read("_delta_log/absent.json")
