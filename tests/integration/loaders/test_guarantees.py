"""What the loaders promise, on every kind of target: nothing lost, nothing twice, nothing brought back."""

import json
import shutil
import threading
from datetime import date, timedelta

import pytest
from deltalake import DeltaTable
from pyarrow import parquet

from support.lake import delta_rows
from tidegate.core.plan import branch_prefix
from tidegate.errors import (
    CheckFailed,
    ConfigError,
    DuplicateKeys,
    PositionMissing,
    PositionMoved,
    SchemaRefused,
    TidegateError,
)
from tidegate.loaders import CDCLoader, IncrementalLoader, SequenceBasedLoader, TimestampBasedLoader, _delta
from tidegate.loaders._applying import Checks
from tidegate.loaders._manifest import Entry, Manifest
from tidegate.loaders._sink import uid_of
from tidegate.loaders._watermarks import Watermarks

pytestmark = pytest.mark.spark

ROWS = "id bigint, name string, at timestamp_ntz"
EVENTS = "id bigint, name string, operation string, sequence_num bigint"


def load(bench, source, target, loader=TimestampBasedLoader, column="at", made=None, **named):
    return loader(bench.spark, **(made or {})).load_incremental(
        source, bench.path(target), bench.marks, column, target, **named
    )


@pytest.mark.parametrize("kind", ["csv", "json", "delta"])
def test_rows_by_time_reach_every_kind_of_target_once(bench, kind):
    source = bench.write("source", ROWS, (1, "a", "2025-03-09 02:30:00"), (2, 'b "x"\n,', "2025-03-09 02:30:00.000001"))
    made = {"target_format": kind}
    settings = bench.settings()
    assert load(bench, source, "target", made=made).new_watermark == "2025-03-09 02:30:00.000001"
    # At the boundary: an equal time that comes later, the same row again, and one that is another row.
    bench.write("source", ROWS, (3, None, "2025-03-09 02:30:00.000001"), (2, 'b "x"\n,', "2025-03-09 02:30:00.000001"))
    assert load(bench, source, "target").records == 2
    assert load(bench, source, "target").records == 0
    loader = IncrementalLoader(bench.spark)
    twice = [(2, 'b "x"\n,')] * 2
    assert bench.rows(loader, bench.path("target"), "id", "name") == [(1, "a"), *twice, (3, None)]
    # Late, within the lookback; and too late for it.
    bench.write("source", ROWS, (4, "late", "2025-03-09 02:00:00"), (5, "later", "2025-03-09 01:00:00"))
    assert load(bench, source, "target", lookback=timedelta(hours=1)).records == 1
    assert bench.watermarks() == {"target": "2025-03-09 02:30:00.000001"}
    assert bench.settings() == settings


@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_an_older_event_never_overwrites_a_newer_one_nor_brings_back_what_was_deleted(bench, kind):
    loader = CDCLoader(bench.spark, target_format=kind)
    source, target = bench.path("events"), bench.path("target")

    def apply(*events, **named):
        bench.write("events", EVENTS, *events)
        result = loader.process_cdc(source, target, bench.marks, "id", **named)
        return result.records, result.deleted, bench.rows(loader, target)

    assert apply((1, "a", "INSERT", 1), (2, "b", "INSERT", 2), (2, "bb", "UPDATE", 9)) == (
        2,
        0,
        [(1, "a", 1), (2, "bb", 9)],
    )
    assert apply((1, None, "DELETE", 10), (3, "c", "INSERT", 10)) == (2, 1, [(2, "bb", 9), (3, "c", 10)])
    # Replayed whole and out of order, far behind the watermark.
    again = ((1, "old", "UPDATE", 5), (2, "old", "UPDATE", 8), (3, "c", "INSERT", 10), (4, "d", "INSERT", 4))
    assert apply(*again, lookback=100) == (1, 0, [(2, "bb", 9), (3, "c", 10), (4, "d", 4)])
    assert apply((1, "new", "INSERT", 11))[2] == [(1, "new", 11), (2, "bb", 9), (3, "c", 10), (4, "d", 4)]
    for event, error, said in (
        ((5, "x", "UPSERT", 12), CheckFailed, "not one of INSERT, UPDATE, DELETE"),
        ((None, "x", "INSERT", 12), CheckFailed, "NULL in their key"),
        ((5, "x", "INSERT", None), CheckFailed, "NULL in column 'sequence_num'"),
    ):
        bench.write("bad", EVENTS, event, mode="overwrite")
        with pytest.raises(error, match=said) as caught:
            loader.process_cdc(bench.path("bad"), target, bench.marks, "id")
        assert "x" not in str(caught.value).split()


def test_deleted_keys_are_those_of_the_targets_own_commits(bench):
    def apply(target, *events, **made):
        source = bench.write("events", EVENTS, *events, mode="overwrite")
        loader = CDCLoader(bench.spark, **made)
        loader.process_cdc(source, bench.path(target), bench.marks, "id", lookback=100)
        rows = parquet.read_table(bench.path(target), columns=["id", "name"]).to_pylist()
        return sorted(tuple(row.values()) for row in rows)

    # Behind the watermark, of a key that was never there: remembered all the same, over the loads in between.
    assert apply("one/orders", (2, "b", "INSERT", 10)) == [(2, "b")]
    assert apply("one/orders", (1, None, "DELETE", 9)) == [(2, "b")]
    assert apply("one/orders", (3, None, "DELETE", 9), (1, "late", "INSERT", 8)) == [(2, "b")]
    assert apply("one/orders", (1, "late", "INSERT", 8), (3, "late", "INSERT", 8)) == [(2, "b")]
    # A target of the same last name has not deleted it.
    assert apply("two/orders", (1, "a", "INSERT", 5)) == [(1, "a")]
    # Nor has a load that failed.
    with pytest.raises(CheckFailed, match="more than max_rows=0"):
        apply("one/orders", (2, None, "DELETE", 20), max_rows=0)
    assert apply("one/orders", (2, "c", "UPDATE", 15)) == [(2, "c")]
    # The target is recreated, from a log that counts from the start.
    shutil.rmtree(bench.path("one"))
    assert apply("one/orders", (1, "new", "INSERT", 1), (3, "new", "INSERT", 1)) == [(1, "new"), (3, "new")]


@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_the_targets_commit_wins_over_the_store_and_over_a_runner_that_comes_late(bench, kind, monkeypatch):
    source = bench.write("source", "id bigint, v string", (1, "a"), (2, "b"))
    made = {"target_format": kind}

    def sequence(**named):
        return load(bench, source, "target", SequenceBasedLoader, "id", made, **named)

    # Killed after the commit, before the watermark is written down.
    with monkeypatch.context() as broken:
        broken.setattr(Watermarks, "put", lambda *_: 1 / 0)
        with pytest.raises(TidegateError):
            sequence()
    assert sequence().records == 0
    assert bench.watermarks() == {"target": "2"}
    # Somebody writes another value into the store: the target is not asked to start over, nor to skip.
    Watermarks(spark=bench.spark, path=bench.marks).put("target", "99")
    bench.write("source", "id bigint, v string", (3, "c"))
    assert (sequence().records, bench.watermarks()) == (1, {"target": "3"})
    # A second runner loads while the first has read its position and not written yet.
    bench.write("source", "id bigint, v string", (4, "d"))
    check = Checks.need
    others = []

    def check_late(self, *rows):
        check(self, *rows)
        if not others:
            others.append(None)
            others[0] = sequence().records

    with monkeypatch.context() as late:
        late.setattr(Checks, "need", check_late)
        with pytest.raises(PositionMoved, match="another load of 'target' finished in the meantime"):
            sequence()
    assert others == [1]
    assert sequence().records == 0
    assert [row[0] for row in bench.rows(IncrementalLoader(bench.spark), bench.path("target"))] == [1, 2, 3, 4]


@pytest.mark.parametrize("kind", ["csv", "delta"])
def test_a_column_that_is_spelled_or_placed_otherwise_is_the_same_one(bench, kind):
    target = bench.path("target")
    source = bench.write("source", "id bigint, Name string, At date", (1, "a", date(2025, 1, 1)))
    load(bench, source, "target", column="At", made={"target_format": kind})
    rows = [(1, "a", date(2025, 1, 1)), (2, None, date(2025, 1, 1))]
    source = bench.write("source", "id bigint, name string, At date", *rows, mode="overwrite")
    assert [load(bench, source, "target", column="At").records for _ in range(2)] == [1, 0]
    source = bench.write("source", "At date, id bigint", (date(2025, 1, 2), 3), mode="overwrite")
    assert load(bench, source, "target", column="At").records == 1
    if kind == "delta":
        found = [tuple(row.values()) for row in delta_rows(target)]
    else:
        frame = IncrementalLoader(bench.spark).read(target)
        found = [tuple(row) for row in frame.collect()]
    assert sorted(found) == [*rows, (3, None, date(2025, 1, 2))]


def test_two_runners_at_once_publish_once_and_plain_readers_see_no_leftover(bench):
    source = bench.write("source", "id bigint", (1,), (2,))
    outcomes = []

    def run():
        try:
            outcomes.append(load(bench, source, "target", SequenceBasedLoader, "id").records)
        except PositionMoved:
            outcomes.append("moved")

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes.count(2) == 1, outcomes
    bench.write("source", "id bigint", (3,))
    assert load(bench, source, "target", SequenceBasedLoader, "id").records == 1
    assert sorted(row["id"] for row in bench.spark.read.parquet(bench.path("target")).collect()) == [1, 2, 3]


def test_files_that_no_load_published_are_not_read_and_go_with_the_next(bench, monkeypatch):
    source = bench.write("source", "id bigint", (1,))

    def killed(*_):
        raise RuntimeError("killed")

    with monkeypatch.context() as broken:
        broken.setattr("tidegate.loaders._manifest.Manifest.put", killed)
        with pytest.raises(TidegateError):
            load(bench, source, "target", SequenceBasedLoader, "id")
    plain = bench.spark.read.parquet(bench.path("target"))
    assert plain.count() == 1  # the weaker promise to readers who do not ask the manifest
    assert load(bench, source, "target", SequenceBasedLoader, "id").records == 1
    assert bench.spark.read.parquet(bench.path("target")).count() == 1
    # Somebody else's files make nobody's position.
    bench.write("foreign", "id bigint", (1,))
    with pytest.raises(PositionMissing, match="has rows but no position of 'foreign'"):
        load(bench, source, "foreign", SequenceBasedLoader, "id")


def test_a_delta_target_tells_its_position_however_many_commits_came_after(bench):
    source = bench.write("source", "id bigint", (1,))
    load(bench, source, "target", SequenceBasedLoader, "id", {"target_format": "delta"})
    table = DeltaTable(bench.path("target"))
    for number in range(_delta.RECENT + 1):
        table.alter.set_table_properties({"n": str(number)}, raise_if_not_exists=False)
    bench.write("source", "id bigint", (2,))
    assert load(bench, source, "target", SequenceBasedLoader, "id").records == 1
    with pytest.raises(PositionMissing, match="has rows but no position of 'another'"):
        SequenceBasedLoader(bench.spark).load_incremental(
            source, bench.path("target"), bench.marks, "id", table_name="another"
        )


def test_an_entry_whose_batch_was_never_committed_is_not_believed(bench):
    entry = Entry(sequence=1, mark="a", folders=("f",), format="parquet", schema="id bigint", positions={})
    log = bench.folder / "target" / "_tidegate" / "log"
    log.mkdir(parents=True)
    (log / "part.json").write_text(json.dumps({"number": 0, "entry": entry.to_json()}))
    assert Manifest(spark=bench.spark, path=bench.path("target")).entries() == ()


def test_checks_stop_a_load_before_anything_is_written(bench):
    source = bench.write(
        "source", ROWS, (1, None, "2025-01-01 00:00:00"), (1, "b", "2025-01-01 00:00:00"), (2, "c", None)
    )
    refusals = [
        ({}, {}, CheckFailed, "1 row has a NULL in column 'at'"),
        ({"max_rows": 1}, {"on_null": "skip"}, CheckFailed, "2 rows would be loaded, more than max_rows=1"),
        ({"not_null": ["name"]}, {"on_null": "skip"}, CheckFailed, "1 row has a NULL in column 'name'"),
        ({}, {"on_null": "skip", "primary_key": "id"}, DuplicateKeys, "1 key .id. has the same at and other values"),
        ({}, {"on_null": "never"}, ConfigError, "on_null"),
    ]
    for made, named, error, said in refusals:
        with pytest.raises(error, match=said):
            load(bench, source, "target", made=made, **named)
        assert not (bench.folder / "target").exists()


@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_a_text_that_no_partition_keeps_is_refused_before_anything_is_written(bench, kind):
    made = {"target_format": kind, "partition_by": ["name"]}
    source = bench.write("source", ROWS, (1, "a", "2025-01-01 00:00:00"), (2, None, "2025-01-01 00:00:00"))
    assert load(bench, source, "known", made=made).records == 2
    before = sorted(bench.folder.glob("known/**/*.parquet"))
    for lost, key in (("", None), ("__HIVE_DEFAULT_PARTITION__", "id")):
        bad = bench.write("bad", ROWS, (3, lost, "2025-01-01 00:00:00"), mode="overwrite")
        for target in ("new", "known"):
            with pytest.raises(SchemaRefused, match="column 'name' holds a text that the target would store as NULL"):
                load(bench, bad, target, made=made, primary_key=key)
        assert not list(bench.folder.glob("new/**/*.parquet"))
        assert sorted(bench.folder.glob("known/**/*.parquet")) == before


def test_a_key_keeps_the_latest_row_and_csv_sources_are_read(bench):
    source = bench.write("source", ROWS, (1, "a", "2025-01-01 00:00:00"), (2, "b", "2025-01-02 00:00:00"), kind="csv")
    made = {"schema": ROWS, "read_options": {"header": "true"}}
    assert load(bench, source, "target", made=made, primary_key="id").records == 2
    bench.write(
        "source",
        ROWS,
        (1, "newer", "2025-01-03 00:00:00.000001"),
        (1, "new", "2025-01-03 00:00:00"),
        (2, "older", "2025-01-01 12:00:00"),
        kind="csv",
    )
    result = load(bench, source, "target", made=made, primary_key="id", lookback=timedelta(days=2))
    assert (result.records, result.new_watermark) == (1, "2025-01-03 00:00:00.000001")
    found = bench.rows(IncrementalLoader(bench.spark), bench.path("target"), "id", "name")
    assert found == [(1, "newer"), (2, "b")]


def test_an_iceberg_table_of_the_callers_catalog(bench, lake, caplog):
    for name, value in lake.format.spark_conf().items():
        if not name.startswith("spark.sql.extensions"):
            bench.spark.conf.set(name, value)
    (lake.folder / ".tidegate").mkdir()  # where the catalog's file goes
    target, loader = "lake.shop.customers", CDCLoader(bench.spark)
    source = bench.write("events", EVENTS, (1, "a", "INSERT", 1), (2, "b", "INSERT", 2))

    def apply(**named):
        return loader.process_cdc(source, target, bench.marks, "id", **named)

    first = apply()
    bench.write("events", EVENTS, (1, None, "DELETE", 3), (3, "c", "INSERT", 4), (2, "old", "UPDATE", 1))
    result = apply(lookback=5)
    assert (result.records, result.deleted, result.new_watermark) == (2, 1, "4")
    # The rows of a load are those that it wrote, whatever came later.
    written = [sorted(row["id"] for row in one.rows().collect()) for one in (first, result)]
    assert written == [[1, 2], [3]]
    assert apply().records == 0
    rows = [tuple(row.values()) for row in lake.oracle(lake.target("customers"))]
    assert rows == [(2, "b", 2), (3, "c", 4)] == bench.rows(loader, target)
    with pytest.raises(PositionMissing):
        loader.process_cdc(source, target, bench.marks, "id", "another")
    # What cannot be cleaned up after the commit is told, and does not deny it: a tag is not dropped as a branch is.
    bench.spark.sql(f"ALTER TABLE {target} CREATE TAG {branch_prefix(uid_of('customers'))}tag")
    bench.write("events", EVENTS, (4, "d", "INSERT", 5))
    assert apply().records == 1
    assert "could not be dropped" in caplog.text
    assert len(lake.oracle(lake.target("customers"))) == 3


def test_a_target_that_others_emptied_is_loaded_from_the_start(bench, lake):
    """A table of Iceberg; what Delta's history says is decided in `unit/loaders/test_decisions.py`."""
    source, target = bench.write("source", "id bigint", (1,), (2,)), "emptied.shop.numbers"
    bench.know(lake, "emptied")

    def records():
        loader = SequenceBasedLoader(bench.spark, target_format="iceberg")
        return loader.load_incremental(source, target, bench.marks, "id", "numbers").records

    assert records() == 2
    for statement in (f"TRUNCATE TABLE {target}", f"DELETE FROM {target}"):
        bench.spark.sql(statement).collect()
        assert [records(), records()] == [2, 0]
    bench.spark.sql(f"CREATE OR REPLACE TABLE {target} USING iceberg AS SELECT 2L AS id").collect()
    with pytest.raises(PositionMissing, match="has rows but no position of 'numbers'"):
        records()
