"""A range is loaded once more: chunk by chunk, at the live position, into the table that PyIceberg reads."""

from __future__ import annotations

import json

import pytest

from tidegate.core.backfill import Progress
from tidegate.engine.backfill.backfill import Request

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

COLUMNS = "id integer primary key, name text, at timestamp"
WATERMARK = {"kind": "watermark", "column": "at"}


def fill(bench, rows: int) -> None:
    values = ", ".join(f"({n}, 'n', '2025-01-{1 + n // 4:02} 00:00:{n % 60:02}.000000')" for n in range(rows))
    bench.shop.sql(f"insert into t values {values}")


def position(bench):
    with bench.workspace.project() as project:
        (stream,) = project.streams()
        return stream.format.state(stream.target, stream.uid).position


def names(bench):
    return [row["name"] for row in bench.rows()]


def test_a_range_is_loaded_once_more(bench_of):
    bench = bench_of(columns=COLUMNS, strategy=WATERMARK)
    fill(bench, 40)
    bench.loaded()
    before, snapshots = position(bench), bench.workspace.snapshots("out.t")
    bench.shop.sql("update t set name = 'late' where id between 4 and 19")  # without a word of it in the cursor
    assert bench.run().outcome == "unchanged"

    told = []
    with bench.workspace.project(bench.spark) as project:
        request = Request(begin="2025-01-02", end="2025-01-06", chunk=4, parallel=2)
        done = project.backfills.start("t", request, on_progress=told.append)
    assert done.status is Progress.DONE
    assert [chunk.rows for chunk in done.chunks] == [4, 4, 4, 4]
    assert [each.rows_done for each in told] == [8, 16]
    assert bench.workspace.snapshots("out.t") == snapshots + 2
    assert names(bench).count("late") == 16
    after = position(bench)
    assert (after.state, after.loaded_through, after.kind) == (before.state, before.loaded_through, before.kind)
    assert after.sequence == before.sequence + 2
    assert bench.run().outcome == "unchanged"
    bench.shop.sql("insert into t values (90, 'new', '2025-02-01 00:00:00')")
    assert bench.loaded().rows_inserted == 1
    with bench.workspace.project(bench.spark) as project:
        assert project.verify(level="rows").streams[0].equal

    found = bench.workspace.cli("backfill", "t", "--from", "2025-01-02", "--to", "2025-01-01")
    assert found.returncode == 2
    assert "must be after `--from`" in found.stderr
    listed = bench.workspace.cli("backfill", "list", "--json")
    assert listed.returncode == 0
    assert json.loads(listed.stdout)["backfills"][0]["chunks_done"] == 4
    assert bench.workspace.cli("backfill", "cancel", "t").returncode == 4
