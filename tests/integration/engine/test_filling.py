"""A column that comes to a source is filled for rows that were loaded before it, if the contract says so."""

from __future__ import annotations

import pytest

from integration.engine.conftest import on_both
from tidegate.engine.backfill.backfill import Request
from tidegate.engine.events import Moment, Stage

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
COME = ("alter table t add column size integer default 7", "update t set size = null where id = 2")
FILLED = [(1, 7), (2, None), (3, 7)]


@pytest.fixture
def three(bench, request):
    """Three rows are loaded."""
    if request.node.get_closest_marker("postgres"):
        bench = request.getfixturevalue("pg_bench")
    bench.sql(
        "create table t (id integer not null primary key, at timestamp not null)",
        "insert into t values (1, '2025-01-01 00:00:00'), (2, '2025-01-02 00:00:00'), (3, '2025-01-03 00:00:00')",
    )
    bench.write({"kind": "watermark", "column": "at"}, contract={"add_column": "fill"})
    assert bench.loaded().rows_read == 3
    return bench


@on_both
def test_old_rows_get_the_values_of_a_new_column(three):
    three.sql(*COME)
    with three.project() as project:
        (part,) = project.plan("t").streams[0].slices
    assert ("every row is read again" in part.reason, part.rows) == (True, 3)
    assert three.loaded().rows_read == 3
    assert three.rows("id", "size") == FILLED
    three.unchanged()
    three.sql("insert into t values (4, '2025-01-04 00:00:00', 9)")
    assert three.loaded().rows_read == 1, "the next load goes on from where the table stands"
    assert three.verify(level="rows").equal


@pytest.mark.postgres
def test_a_column_that_comes_to_postgresql_is_filled(three):
    three.sql(*COME)
    assert three.loaded().rows_read == 3
    assert three.rows("id", "size") == FILLED
    three.unchanged()


def test_loads_that_failed_and_loads_of_some_rows_have_not_filled_it(three):
    three.sql(*COME)
    three.crashed(Stage.VERIFY, Moment.START)
    assert set(three.rows()[0]) == {"id", "at", "size"}
    assert three.loaded().rows_read == 3
    assert three.rows("id", "size") == FILLED

    three.sql("alter table t add column depth integer default 1")
    with three.project() as project:
        project.backfills.start("t", Request(begin="2025-01-01", end="2025-01-02"))
    assert three.rows("id", "depth") == [(1, 1), (2, None), (3, None)]
    assert three.loaded().rows_read == 3
    assert {depth for _, depth in three.rows("id", "depth")} == {1}

    # A repair that says every row differs mends them all; one of a few leaves the rest to the next load.
    three.sql("alter table t add column width integer", "update t set width = 7 where id = 1")
    three.verify(level="rows", repair=True)
    three.sql("update t set width = 8 where id = 3")
    assert three.loaded().rows_read == 3
    assert three.rows("id", "width") == [(1, 7), (2, None), (3, 8)]
    three.unchanged()
