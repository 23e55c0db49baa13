"""A strategy that reads everything makes the table what the source holds; it never takes away what only a person may.

What a load of all rows leaves is in the matrix: rows that were marked, versions that ended, rows of one key. Here are
repairs, re-reads, and the guard of every way to delete.
"""

from __future__ import annotations

import pytest

from support.costs import record_costs
from tidegate.core.cost_model import LoadMethod

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.mark.parametrize(("format_", "write"), [("delta", "merge"), ("iceberg", "scd2")])
def test_what_is_gone_is_marked_or_ended_by_a_smart_full_load_and_stays_so(bench_of, format_, write):
    """Every other way is dear by what is recorded; a re-read of everything, and a full refresh, too."""
    marked = {"deletes": {"apply": "soft"}} if write == "merge" else {}
    bench = bench_of(format_=format_, strategy={"kind": "smart"}, write=write, **marked)
    bench.shop.sql("insert into t values (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')")
    for change in ("delete from t where id = 2", "update t set name = 'A' where id = 1", "delete from t where id = 3"):
        with bench.workspace.project(bench.spark) as project:
            others = [way for way in LoadMethod if way is not LoadMethod.FULL]
            record_costs(project, "t", others, rows=4, seconds=90)
        assert bench.loaded().position["state"].get("choice", {"way": "full"})["way"] == "full"
        bench.shop.sql(change)
    with bench.workspace.project(bench.spark) as project:
        (outcome,) = project.resync("t").streams
    assert outcome.error is None, outcome.error
    live = {row["id"]: row["name"] for row in bench.rows() if row.get("is_current", row.get("deleted_at") is None)}
    assert (live, len(bench.rows())) == ({1: "A", 4: "d"}, 4 if write == "merge" else 5)
    bench.loaded(full_refresh=True)
    assert sorted(row["id"] for row in bench.rows()) == [1, 4]


def test_a_repair_is_guarded_as_a_load_is(bench_of):
    """Of a source that was emptied nothing goes unasked."""
    bench = bench_of(format_="delta", strategy="full", write="scd2")
    bench.shop.sql("insert into t values (1, 'a'), (2, 'b')")
    bench.loaded()
    before = bench.rows()
    bench.shop.sql("delete from t")
    assert bench.run().error.code == "delete_fuse"
    with bench.workspace.project(bench.spark) as project:
        (stopped,) = project.verify(repair=True).streams
        assert (stopped.error.code, stopped.exit_code, stopped.repaired_rows) == ("delete_fuse", 4, 0)
        assert "tidegate verify t --repair --allow-deletes" in stopped.error.hint
        assert bench.rows() == before
        (allowed,) = project.verify(repair=True, allow_deletes=True).streams
        assert (allowed.error, allowed.equal, allowed.repaired_rows) == (None, True, 2)
    assert [row for row in bench.rows() if row["is_current"]] == []


GUARDED = [
    {"strategy": "full", "write": "replace", "key": []},
    {"strategy": "full", "write": "merge"},
    {"strategy": "snapshot_diff", "write": "merge"},
    {"strategy": "snapshot_diff", "write": "replace", "key": []},
    {"strategy": {"kind": "checksum", "method": "by_integer", "column": "id", "modulus": 4}, "write": "replace"},
]


@pytest.mark.parametrize(("number", "stream"), list(enumerate(GUARDED)), ids=str)
def test_no_way_deletes_more_than_the_guard_allows(bench_of, number, stream):
    """As many rows come as go, so that counts alone tell nothing; and of an emptied source all go."""
    bench = bench_of(format_=("iceberg", "delta")[number % 2], deletes={"max_fraction": 0.5}, **stream)
    bench.shop.sql("insert into t values (1, 'a'), (2, 'b'), (3, 'c')")
    bench.loaded()
    for change, left in (("delete from t where id in (1, 2)", [1, 2, 3]), ("delete from t", [3, 4, 5])):
        bench.shop.sql(change, *(["insert into t values (4, 'd'), (5, 'e')"] if left[0] == 1 else []))
        found = bench.run()
        assert found.error is not None
        assert found.error.code == "delete_fuse"
        assert bench.ids() == left
        if number == 1:
            with bench.workspace.project(bench.spark) as project:
                assert project.verify(repair=True).streams[0].error.code == "delete_fuse"
        bench.loaded(allow_deletes=True)
        assert bench.ids() == bench.wanted()


def test_a_resync_finds_partitions_that_are_gone(bench_of):
    strategy = {"kind": "checksum", "method": "by_integer", "column": "id", "modulus": 10}
    bench = bench_of(strategy=strategy, deletes={"apply": "soft"})
    bench.shop.sql("insert into t values (1, 'a'), (2, 'b'), (31, 'c')")
    bench.loaded()
    bench.shop.sql("delete from t where id = 31")
    with bench.workspace.project(bench.spark) as project:
        (outcome,) = project.resync("t").streams
    assert outcome.error is None
    assert {row["id"]: row["deleted_at"] is not None for row in bench.rows()} == {1: False, 2: False, 31: True}


def test_a_table_that_deleted_for_good_begins_to_mark_and_a_key_that_is_there_twice_is_repaired(bench_of):
    bench = bench_of(strategy="snapshot_diff", deletes={"apply": "hard"}, contract={"add_column": "stop"})
    bench.shop.sql("insert into t values (1, 'a'), (2, 'b'), (3, 'c')")
    bench.loaded()
    text = bench.workspace.file.read_text()
    bench.workspace.file.write_text(text.replace("apply: hard", "apply: soft"))
    bench.shop.sql("delete from t where id = 2")
    bench.loaded()
    assert (bench.ids(), len(bench.rows())) == ([1, 3], 3)
    with bench.workspace.project(bench.spark) as project:
        project.sessions.load_session().sql("INSERT INTO lake.out.t VALUES (1, 'x', NULL)")
    bench.shop.sql("delete from t where id = 3")
    bench.loaded()
    assert [(row["id"], row["name"]) for row in bench.rows() if row["deleted_at"] is None] == [(1, "a")]
