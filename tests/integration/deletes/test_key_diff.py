"""Keys that are gone at the source are found without a log, and deleted with the rows that changed.

What is planned, and what the fuse lets through, is in `unit/engine/test_key_diff.py`; few keys are in the matrix.
"""

from __future__ import annotations

import pytest

from support.no_spark import without_spark
from support.shops import PostgresShop
from tidegate.engine.deletes import key_diff

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

COLUMNS = "id {type} primary key, name text, at timestamp"
KEY_DIFF = {"detect": "key_diff", "max_fraction": 0.5}
WATERMARK = {"kind": "watermark", "column": "at"}
MANY = 3 * key_diff.FEW_KEYS // 2
"""Keys of which not all are fetched."""


def stamp(number: int) -> str:
    return f"2025-01-{1 + number // 1000:02} 00:{number // 60 % 60:02}:{number % 60:02}.000000"


def fill(bench, keys):
    values = ", ".join(f"({key!r}, 'n', '{stamp(number)}')" for number, key in enumerate(keys))
    bench.shop.sql(f"insert into t values {values}")


@pytest.mark.parametrize("way", ["ranges", "hashes"])
def test_deleted_rows_go_with_the_changed_ones(bench_of, way):
    """The type of the key decides how keys are compared; on Delta they are marked, and rows come back."""
    hard = way == "hashes"
    marks = {"deletes": KEY_DIFF} if hard else {"format_": "delta", "deletes": {**KEY_DIFF, "apply": "soft"}}
    bench = bench_of(columns=COLUMNS.format(type="text" if hard else "integer"), strategy=WATERMARK, **marks)
    keys = [f"k{n}" if way == "hashes" else n * 3 - 900 for n in range(MANY)]
    fill(bench, keys)
    bench.loaded()
    with without_spark():
        assert bench.run().outcome == "unchanged"
        bench.shop.sql(f"delete from t where id in ({keys[0]!r}, {keys[300]!r}, {keys[-1]!r})")
        with bench.workspace.project() as project:
            (plan,) = project.plan().streams
        told = {"ranges": "count and sum over ranges", "hashes": "fingerprints"}[way]
        assert any(told in note for note in plan.notes), plan.notes
    found = bench.loaded()
    assert (found.rows_deleted, found.rows_inserted) == (3 if hard else 0, 0)
    assert bench.ids() == bench.wanted()

    bench.shop.sql(
        f"delete from t where id in ({keys[1]!r}, {keys[2]!r})",
        f"insert into t values ({keys[0]!r}, 'again', '2025-02-01 00:00:00')",
        f"update t set name = 'changed', at = '2025-02-02 00:00:00' where id = {keys[3]!r}",
    )
    found = bench.loaded()
    assert (found.rows_deleted, found.rows_read) == (2 if hard else 0, 2)
    assert bench.ids() == bench.wanted()
    with without_spark():
        assert bench.run().outcome == "unchanged"
    with bench.workspace.project(bench.spark) as project:
        assert project.verify(level="rows").streams[0].equal


@pytest.mark.postgres
@pytest.mark.parametrize("gone", [3, key_diff.MOST_LISTED + 1], ids=["named", "many"])
@pytest.mark.parametrize("kind", ["text", "uuid"])
def test_the_hash_of_the_source_itself_says_whether_a_key_is_gone(bench_of, pg_url, kind, gone):
    rows = 500 if gone == 3 else 2 * gone + 1
    bench = bench_of(
        shop=PostgresShop(url=pg_url),
        columns=f"id {kind}, part int, name text, at timestamp, primary key (id, part)",
        key=["id", "part"],
        strategy=WATERMARK,
        deletes=KEY_DIFF,
    )
    key = "md5(n::text)" + ("::uuid" if kind == "uuid" else "")
    moment = "timestamp '2025-01-01' + n * interval '1 s'"
    bench.shop.sql(f"insert into t select {key}, n % 3, 'n', {moment} from generate_series(1, {rows}) n")
    bench.loaded()
    with without_spark():
        assert bench.run().outcome == "unchanged"
        # As many go as come, and none that comes is newer than what was loaded.
        bench.shop.sql(
            f"delete from t where at <= timestamp '2025-01-01' + {gone} * interval '1 s'",
            f"insert into t select {key}, 7, 'late', {moment} from generate_series(1, {gone}) n",
        )
        with bench.workspace.project() as project:
            (plan,) = project.plan().streams
        assert any(f"the source {rows:,} keys; all keys are fetched" in note for note in plan.notes), plan.notes
    assert bench.loaded().rows_deleted == gone
    held = {str(id_) for (id_,) in bench.shop.rows("select id from t where name <> 'late'")}
    assert {str(row["id"]) for row in bench.rows()} == held
    with without_spark():
        assert bench.run().outcome == "unchanged"


def test_rows_beyond_the_edge_are_not_gone(bench_of):
    bench = bench_of(columns=COLUMNS.format(type="integer"), strategy=WATERMARK, deletes=KEY_DIFF)
    fill(bench, range(1, MANY))
    bench.loaded()
    # Of the future: held back, although the key is in the table.
    bench.shop.sql(
        "update t set at = '2999-01-01 00:00:00' where id = 1", "insert into t values (90000, 'x', '2999-01-01')"
    )
    assert bench.run().outcome == "unchanged"
    assert bench.ids() == [*range(1, MANY)]
    bench.shop.sql("delete from t where id = 1")
    bench.loaded()
    assert bench.ids() == [*range(2, MANY)]


def test_the_fuse(bench_of):
    deletes = {"detect": "key_diff"}
    bench = bench_of(columns=COLUMNS.format(type="integer"), strategy=WATERMARK, deletes=deletes)
    fill(bench, range(20))
    bench.loaded()
    bench.shop.sql("delete from t where id < 11")
    stopped = bench.workspace.cli("run", "t")
    assert stopped.returncode == 4
    assert "delete_fuse" in stopped.stderr
    assert "tidegate run t --allow-deletes" in stopped.stderr
    # Hidden from a count by as many new rows: found by the comparison, before anything is written.
    bench.shop.sql(*(f"insert into t values ({n}, 'n', '2025-02-01 00:00:00')" for n in range(100, 111)))
    found = bench.run()
    assert found.error is not None
    assert (found.error.code, found.error.exit_code) == ("delete_fuse", 4)
    assert bench.ids() == [*range(20)]
    assert bench.run(allow_deletes=True).rows_deleted == 11
    assert bench.ids() == bench.wanted()
    with bench.workspace.project() as project:
        (stream,) = project.streams()
        assert [change.reason for change in project.registry.changes(stream.uid)].count("run --allow-deletes") == 1
