"""A source with several rows of a key: every command holds the table to the last one, in the stream's own order."""

from __future__ import annotations

import pytest

from integration.engine.conftest import on_both
from tidegate.engine.backfill.backfill import Request

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

WATERMARK = {"kind": "watermark", "column": "at", "on_null": "include"}
DAY = "2025-01-0{} 00:00:00"


def put(bench, *rows):
    for key, name, at in rows:
        values = ["NULL" if value is None else f"'{value}'" for value in (key, name, at)]
        bench.sql(f"insert into t (id, name, at) values ({', '.join(values)})")


def wanted(bench):
    """By key the name of the row with the greatest time; none comes before all others."""
    found = {}
    for key, name, at in bench.shop.rows("select id, name, at from t"):
        found[key] = max(found.get(key, ("", "")), (at or "", name))
    return sorted((key, name) for key, (_, name) in found.items())


def is_latest(bench):
    assert sorted(row[:2] for row in bench.rows("id", "name", "deleted_at") if row[2] is None) == wanted(bench)
    found = bench.verify(level="rows")
    assert (found.error, found.equal) == (None, True)


@on_both
def test_the_last_row_of_each_key_is_what_all_commands_expect(bench):
    soft = bench.form == "delta"
    bench.sql("create table t (id integer, name text, at timestamp)")
    bench.write(WATERMARK, deletes={"apply": "soft", "detect": "key_diff"} if soft else {})
    put(bench, *((key, f"old {key}", DAY.format(1 + key // 4)) for key in range(8)))
    bench.loaded()
    put(bench, *((key, f"new {key}", DAY.format(4)) for key in range(0, 8, 2)), (1, "twice", DAY.format(4)))
    put(bench, (1, "twice", DAY.format(4)))
    bench.loaded()
    is_latest(bench)
    for level in ("counts", "checksum"):
        found = bench.verify(level=level)
        assert (found.error, found.equal, found.source_rows, found.target_rows) == (None, True, 8, 8)
    # A row without a time comes before those that have one, also those of earlier loads.
    put(bench, (2, "no time", None), (30, "no time", None))
    bench.loaded()
    is_latest(bench)

    # What people do to a table: lost, changed, too many, several times, without a key.
    mark = ", NULL" if soft else ""
    extra = f"(77, 'extra', TIMESTAMP_NTZ '2025-01-01 00:00:00'{mark})"
    bare = f"(NULL, 'bare', TIMESTAMP_NTZ '2025-01-01 00:00:00'{mark})"
    bench.by_hand(
        "DELETE FROM {table} WHERE id = 3",
        "UPDATE {table} SET name = 'wrong' WHERE id IN (4, 5)",
        f"INSERT INTO {{table}} VALUES {extra}, {bare}, {bare}",
        *["INSERT INTO {table} SELECT * FROM {table} WHERE id = 6"] * 2,
    )
    # 3 lost, 4 and 5 changed, 77 and two without a key too many, 6 there three times too often.
    assert bench.verify(level="rows").rows_different == 9
    mended = bench.verify(repair=True)
    assert (mended.error, mended.equal, mended.repaired_rows) == (None, True, 9)
    is_latest(bench)
    bench.run()  # a repair vouches for nothing that the cursor does not show: rows without a time are read once more
    is_latest(bench)
    assert bench.run().outcome == "unchanged"

    # An older row that changes is no change of the table; one that stands for its key is.
    bench.sql("update t set name = 'rewritten' where at < '2025-01-03'")
    with bench.project() as project:
        done = project.backfills.start("t", Request(begin="2025-01-01", end="2025-01-03", chunk=4, parallel=2))
    assert [chunk.error for chunk in done.chunks] == [None] * len(done.chunks)
    is_latest(bench)
    names = {name for _, name in wanted(bench)}
    assert names == {"rewritten", "new 0", "new 2", "new 4", "new 6", "twice", "no time"}


def test_neither_an_old_day_that_is_read_again_nor_another_cursor_brings_an_older_row(bench):
    """Of a lookback of several days only the day that changed is read; its keys may have later rows elsewhere."""
    bench.sql("create table t (id integer, name text, at timestamp, changed timestamp)")
    bench.write({**WATERMARK, "lookback": ["1d", "3d"]})
    put(bench, *((key, f"old {key}", DAY.format(6)) for key in range(4)), (0, "new 0", DAY.format(7)))
    put(bench, (9, "last", DAY.format(9)))
    bench.loaded()
    put(bench, (1, "late", "2025-01-06 00:00:01"), (0, "older", "2025-01-06 00:00:02"))
    bench.loaded()
    is_latest(bench)
    assert wanted(bench)[:2] == [(0, "new 0"), (1, "late")]

    # The first time that a row has says which is later, within a load as between loads.
    bench.sql(
        "delete from t",
        "insert into t values (1, 'older', '2025-01-01', '2025-01-02 00:00:00'), (1, 'newer', '2025-01-03', NULL)",
    )
    bench.write({"kind": "watermark", "column": "changed", "on_null": "fallback", "fallback": "at"})
    assert bench.run(full_refresh=True, allow_deletes=True).error is None
    assert bench.rows("id", "name") == [(1, "newer")]
    assert bench.verify(level="rows").equal
