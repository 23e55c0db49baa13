"""A strategy that reads everything makes the table what the source holds; it never takes away what only a person may.

Each case is compared with a dict, read by PyIceberg and delta-rs.
"""

from __future__ import annotations

import pytest

from support.costs import record_costs
from tidegate.core.cost_model import LoadMethod

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.slow]

FULLY = ["full", {"kind": "smart"}]
OTHERS = [way for way in LoadMethod if way is not LoadMethod.FULL]


def loaded_fully(bench, **options) -> None:
    """By what is recorded, every other way is dear."""
    with bench.workspace.project(bench.spark) as project:
        record_costs(project, "t", OTHERS, rows=4, seconds=90)
    choice = bench.loaded(**options).position["state"].get("choice", {"way": "full"})
    assert choice["way"] == "full"


def resync(bench) -> None:
    with bench.workspace.project(bench.spark) as project:
        (outcome,) = project.resync("t").streams
    assert outcome.error is None, outcome.error


@pytest.mark.parametrize("strategy", FULLY, ids=["full", "smart"])
def test_marked_rows_stay_and_new_deletes_are_marked(bench_of, format_, strategy):
    bench = bench_of(format_=format_, strategy=strategy, deletes={"apply": "soft"})
    bench.shop.sql("insert into t values (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')")
    loaded_fully(bench)
    bench.shop.sql("delete from t where id = 2")
    loaded_fully(bench)
    bench.shop.sql(
        "delete from t where id = 3", "update t set name = 'A' where id = 1", "insert into t values (5, 'e')"
    )
    loaded_fully(bench)
    model = {1: ("A", False), 2: ("b", True), 3: ("c", True), 4: ("d", False), 5: ("e", False)}
    assert {row["id"]: (row["name"], row["deleted_at"] is not None) for row in bench.rows()} == model
    resync(bench)
    assert {row["id"]: (row["name"], row["deleted_at"] is not None) for row in bench.rows()} == model


@pytest.mark.parametrize("strategy", FULLY, ids=["full", "smart"])
def test_a_history_ends_versions_and_keeps_them(bench_of, format_, strategy):
    bench = bench_of(format_=format_, strategy=strategy, write="scd2")
    bench.shop.sql("insert into t values (1, 'a'), (2, 'b'), (3, 'c')")
    loaded_fully(bench)
    bench.shop.sql(
        "delete from t where id = 2", "update t set name = 'C' where id = 3", "insert into t values (4, 'd')"
    )
    loaded_fully(bench)
    model = [(1, "a", True), (2, "b", False), (3, "C", True), (3, "c", False), (4, "d", True)]
    assert sorted((row["id"], row["name"], row["is_current"]) for row in bench.rows()) == model
    resync(bench)
    assert sorted((row["id"], row["name"], row["is_current"]) for row in bench.rows()) == model


@pytest.mark.parametrize("strategy", FULLY, ids=["full", "smart"])
def test_rows_that_are_gone_go_and_rows_of_one_key_count_once(bench_of, strategy):
    columns = "id integer not null, name text not null, n integer not null"
    bench = bench_of(strategy=strategy, write={"kind": "merge", "order_by": ["n"]}, columns=columns)
    bench.shop.sql("insert into t values (1, 'a', 1), (1, 'b', 2), (2, 'c', 1), (3, 'd', 1), (3, 'd', 1)")
    loaded_fully(bench)
    bench.shop.sql("delete from t where id = 2", "insert into t values (1, 'e', 3), (4, 'f', 1)")
    loaded_fully(bench)
    assert sorted((row["id"], row["name"]) for row in bench.rows()) == [(1, "e"), (3, "d"), (4, "f")]


@pytest.mark.parametrize("write", ["merge", "scd2"])
def test_a_source_that_was_emptied_stops_the_load(bench_of, write):
    bench = bench_of(strategy="full", write=write)
    bench.shop.sql("insert into t values (1, 'a'), (2, 'b')")
    bench.loaded()
    before = bench.rows()
    bench.shop.sql("delete from t")
    assert bench.run().error.code == "delete_fuse"
    assert bench.rows() == before


@pytest.mark.parametrize("write", ["merge", "scd2"])
def test_a_repair_of_a_source_that_was_emptied_deletes_nothing_unasked(bench_of, format_, write):
    bench = bench_of(format_=format_, strategy="full", write=write)
    bench.shop.sql("insert into t values (1, 'a'), (2, 'b')")
    bench.loaded()
    before = bench.rows()
    bench.shop.sql("delete from t")
    with bench.workspace.project(bench.spark) as project:
        (stopped,) = project.verify(repair=True).streams
        assert (stopped.error.code, stopped.exit_code, stopped.repaired_rows) == ("delete_fuse", 4, 0)
        assert "tidegate verify t --repair --allow-deletes" in stopped.error.hint
        assert bench.rows() == before
        (allowed,) = project.verify(repair=True, allow_deletes=True).streams
        assert (allowed.error, allowed.equal, allowed.repaired_rows) == (None, True, 2)
    assert [row for row in bench.rows() if row.get("is_current", True)] == []


def test_a_repair_deletes_no_more_than_a_load_may(bench_of):
    bench = bench_of(strategy="full", write="merge", deletes={"max_fraction": 0.5})
    bench.shop.sql("insert into t values (1, 'a'), (2, 'b'), (3, 'c')")
    bench.loaded()
    bench.shop.sql("delete from t where id < 3", "insert into t values (4, 'd')")
    with bench.workspace.project(bench.spark) as project:
        (stopped,) = project.verify(repair=True).streams
        assert stopped.error.code == "delete_fuse"
        assert "2 rows of lake.out.t no longer exist at the source, and one repair may delete at most 1" in (
            stopped.error.message
        )
        assert bench.ids() == [1, 2, 3]
        assert project.verify(repair=True, allow_deletes=True).streams[0].equal
    assert bench.ids() == [3, 4]


GUARDED = [
    {"strategy": "full", "write": "replace"},
    {"strategy": "full", "write": "replace", "key": []},
    {"strategy": "full", "write": "merge"},
    {"strategy": {"kind": "smart"}, "write": "merge"},
    {"strategy": "snapshot_diff", "write": "replace", "key": []},
    {"strategy": {"kind": "checksum", "method": "by_integer", "column": "id", "modulus": 4}, "write": "replace"},
    {
        "strategy": {"kind": "checksum", "method": "by_integer", "column": "id", "modulus": 4},
        "write": "replace",
        "key": [],
    },
]


@pytest.mark.parametrize(("number", "stream"), list(enumerate(GUARDED)), ids=str)
def test_no_way_deletes_more_than_the_guard_allows(bench_of, number, stream):
    """As many rows come as go, so that counts alone tell nothing."""
    bench = bench_of(format_=("iceberg", "delta")[number % 2], deletes={"max_fraction": 0.5}, **stream)
    bench.shop.sql("insert into t values (1, 'a'), (2, 'b'), (3, 'c')")
    bench.loaded()
    bench.shop.sql("delete from t where id in (1, 2)", "insert into t values (4, 'd'), (5, 'e')")
    found = bench.run()
    assert found.error is not None
    assert found.error.code == "delete_fuse"
    assert bench.ids() == [1, 2, 3]
    bench.loaded(allow_deletes=True)
    assert bench.ids() == [3, 4, 5]


def test_a_full_refresh_replaces_everything_when_a_person_asks(bench_of, format_):
    bench = bench_of(format_=format_, strategy="full", deletes={"apply": "soft"})
    bench.shop.sql("insert into t values (1, 'a'), (2, 'b')")
    bench.loaded()
    bench.shop.sql("delete from t where id = 2")
    bench.loaded()
    assert len(bench.rows()) == 2
    bench.loaded(full_refresh=True)
    assert [row["id"] for row in bench.rows()] == [1]


def test_a_resync_finds_partitions_that_are_gone(bench_of, format_):
    strategy = {"kind": "checksum", "method": "by_integer", "column": "id", "modulus": 10}
    bench = bench_of(format_=format_, strategy=strategy, deletes={"apply": "soft"})
    bench.shop.sql("insert into t values (1, 'a'), (2, 'b'), (31, 'c')")
    bench.loaded()
    bench.shop.sql("delete from t where id = 31")
    with bench.workspace.project(bench.spark) as project:
        (outcome,) = project.resync("t").streams
    assert outcome.error is None
    assert {row["id"]: row["deleted_at"] is not None for row in bench.rows()} == {1: False, 2: False, 31: True}
