"""A load on Delta that was seen and never verified: what the next run may go on from, and what it must not."""

from __future__ import annotations

import pytest

from integration.engine.conftest import on_delta
from tidegate.engine.events import Moment, Stage

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600), on_delta]

INSERT = "insert into t values ({0}, '2025-01-{0:02} 00:00:00', 'row {0}')"
BACK = "INSERT INTO {{table}} VALUES ({0}, TIMESTAMP_NTZ '2025-01-{0:02} 00:00:00', 'row {0}')"
CHANGED = ("UPDATE {table} SET name = 'wrong' WHERE name = 'late'", "UPDATE {table} SET name = 'late' WHERE id = 6")
WRONG = {
    "merge": [
        ("DELETE FROM {table} WHERE id = 7", BACK.format(7)),
        ("DELETE FROM {table} WHERE id = 3", BACK.format(3)),
        CHANGED,
        ("UPDATE {table} SET id = 77 WHERE id = 7", "UPDATE {table} SET id = 7 WHERE id = 77"),
        (BACK.format(7).replace("(7,", "(99,"), "DELETE FROM {table} WHERE id = 99"),
    ],
    "scd2": [(CHANGED[0], CHANGED[1] + " AND is_current")],
}


def current(bench):
    return {row["id"]: row["name"] for row in bench.rows() if row.get("valid_to") is None}


@pytest.mark.parametrize("write", WRONG)
def test_only_wrong_rows_of_the_load_stop_the_next_one_also_where_the_source_has_lost_some(bench, write):
    bench.sql("create table t (id integer primary key not null, at timestamp not null, name text)")
    bench.sql(*map(INSERT.format, range(1, 7)))
    bench.write({"kind": "watermark", "column": "at", "lookback": "4d"}, write)
    bench.loaded()
    bench.sql(*map(INSERT.format, (7, 8)), "update t set name = 'late', at = '2025-01-06 12:00:00' where id = 6")
    bench.crashed(Stage.WRITE, Moment.DONE)
    held = {**{n: f"row {n}" for n in range(1, 9)}, 6: "late"}
    assert current(bench) == held
    bench.sql("delete from t where id in (2, 5)")
    for damage, undone in WRONG[write]:
        bench.by_hand(damage)
        assert (damage, bench.refused()[0]) == (damage, "verify_failed")
        bench.by_hand(undone)
        assert current(bench) == held
    bench.sql(INSERT.format(9))
    bench.loaded()
    assert current(bench) == {**held, 9: "row 9"}


@pytest.mark.postgres
@pytest.mark.parametrize("lost", [False, True], ids=["registry", "registry lost"])
def test_a_load_that_was_seen_and_not_verified_is_proven_by_a_server(pg_bench, lost):
    pg_bench.sql("create table t (id bigint primary key, at timestamp not null, name text)")
    pg_bench.sql(*map(INSERT.format, range(1, 7)))
    pg_bench.write({"kind": "watermark", "column": "at"}, "append" if lost else "merge")
    pg_bench.loaded()
    pg_bench.sql(*map(INSERT.format, (7, 8)))
    pg_bench.crashed(Stage.WRITE, Moment.DONE)
    if lost:
        pg_bench.workspace.forget_registry()
    pg_bench.sql(INSERT.format(9))
    pg_bench.loaded()
    assert current(pg_bench) == {n: f"row {n}" for n in range(1, 10)}
    pg_bench.workspace.forget_registry()
    assert pg_bench.run().outcome == "unchanged"
