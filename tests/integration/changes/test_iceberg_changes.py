"""An Iceberg table as a source: what its snapshots tell is loaded, and what they do not tell is compared."""

from __future__ import annotations

import pytest

from support.no_spark import without_spark
from tidegate.errors import PlanError

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

STREAMS = {
    "orders": {
        "source": {"iceberg": "lake.src.orders"},
        "target": "lake.out.orders",
        "key": ["id"],
        "strategy": "table_changes",
        "write": "merge",
    },
    "log": {
        "source": {"iceberg": "lake.src.orders"},
        "target": "lake.out.log",
        "strategy": "table_changes",
        "write": "append",
    },
}
CTAS = "CREATE TABLE lake.src.orders USING iceberg AS SELECT id, concat('n', id) AS name, 1.5D AS x FROM range(5)"


@pytest.fixture
def lake(lake_of):
    lake = lake_of(STREAMS)
    lake.sql(CTAS)
    return lake


def same(lake, target: str = "out.orders") -> bool:
    return lake.rows(target) == lake.rows("src.orders")


@pytest.mark.slow
def test_what_happened_is_loaded(lake):
    first = lake.loaded("orders")
    assert (first.rows_inserted, first.effect, first.verified) == (5, "insert", True)
    assert same(lake), "the rows of the CREATE itself, too"
    with without_spark():
        assert lake.run("orders").outcome == "unchanged"

    lake.sql("INSERT INTO lake.src.orders VALUES (5, 'n5', NULL), (6, NULL, 2.0)")
    appended = lake.loaded("orders")
    assert (appended.effect, appended.rows_read, appended.rows_inserted) == ("insert", 2, 2)
    assert same(lake)

    lake.sql(
        "UPDATE lake.src.orders SET name = 'first' WHERE id = 1",
        "UPDATE lake.src.orders SET name = 'second' WHERE id = 1",
        "UPDATE lake.src.orders SET id = 70 WHERE id = 2",
        "DELETE FROM lake.src.orders WHERE id = 3",
        "DELETE FROM lake.src.orders WHERE id = 4",
        "INSERT INTO lake.src.orders VALUES (4, 'again', 4.0), (8, 'gone', 8.0)",
        "DELETE FROM lake.src.orders WHERE id = 8",
    )
    changed = lake.loaded("orders")
    assert (changed.effect, changed.verified) == ("apply", True)
    assert (changed.rows_updated, changed.rows_inserted, changed.rows_deleted) == (2, 1, 2)
    assert same(lake)

    lake.sql("CALL lake.system.rewrite_data_files(table => 'src.orders', options => map('rewrite-all', 'true'))")
    compacted = lake.loaded("orders")
    assert (compacted.rows_read, compacted.rows_inserted + compacted.rows_updated + compacted.rows_deleted) == (0, 0)
    with without_spark():
        assert lake.run("orders").outcome == "unchanged", "the position moved beyond the compaction"


def test_a_table_that_was_empty_when_it_was_loaded_is_compared_with_nothing(lake):
    lake.sql("DROP TABLE lake.src.orders", "CREATE TABLE lake.src.orders (id bigint, name string) USING iceberg")
    assert lake.loaded("orders").position["state"] == {"version": "empty"}
    lake.sql("INSERT INTO lake.src.orders VALUES (1, 'a')")
    with lake.workspace.project(lake.spark) as project:
        assert project.verify("orders").streams[0].equal is True, "its rows are not missing, they are next"
    assert lake.loaded("orders").rows_inserted == 1
    assert same(lake)


@pytest.mark.slow
def test_what_snapshots_do_not_tell_is_compared(lake):
    lake.loaded("orders")
    lake.sql(
        "ALTER TABLE lake.src.orders SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')",
        "DELETE FROM lake.src.orders WHERE id = 1",
        "INSERT INTO lake.src.orders VALUES (9, 'n9', 9.0)",
    )
    (part,) = lake.plan("orders").slices
    assert "rows were deleted by delete files" in part.reason
    beside = lake.loaded("orders")
    assert (beside.write, beside.rows_inserted, beside.rows_deleted, beside.rows_updated) == (
        "merge_differences",
        1,
        1,
        0,
    )
    assert same(lake)

    lake.sql(
        "UPDATE lake.src.orders SET name = 'late' WHERE id = 2",
        "CALL lake.system.expire_snapshots(table => 'src.orders', older_than => TIMESTAMP '2100-01-01 00:00:00', "
        "retain_last => 1)",
    )
    (part,) = lake.plan("orders").slices
    assert "is not among those that the table keeps" in part.reason
    expired = lake.loaded("orders")
    assert (expired.rows_updated, expired.rows_inserted, expired.rows_deleted) == (1, 0, 0)
    assert same(lake)
    with lake.workspace.project(lake.spark) as project:
        (found,) = project.verify("orders").streams
    assert (found.equal, found.source_rows) == (True, 5)


def test_a_log_takes_what_came_and_stops_for_what_changed(lake):
    lake.loaded("log")
    lake.sql("INSERT INTO lake.src.orders VALUES (1, 'n1', 1.5)")
    lake.loaded("log")
    assert same(lake, "out.log"), "twice the same row is two rows"
    lake.sql("DELETE FROM lake.src.orders WHERE id = 1")
    before = lake.workspace.snapshots("out.log")
    stopped = lake.run("log")
    assert (stopped.outcome, stopped.error.code) == ("stopped", "plan")
    assert "write: append cannot apply that" in stopped.error.message
    assert lake.workspace.snapshots("out.log") == before


def test_another_table_of_the_same_name_stops(lake):
    lake.loaded("orders")
    before = lake.rows("out.orders")
    lake.sql("DROP TABLE lake.src.orders", CTAS)
    stopped = lake.run("orders")
    assert (stopped.outcome, stopped.error.code, stopped.error.exit_code) == ("stopped", "history_gone", 4)
    assert "--full-refresh" in stopped.error.hint
    lake.sql("DROP TABLE lake.src.orders")
    missing = lake.run("orders")
    assert (missing.error.code, missing.error.exit_code) == ("column_missing", 2)
    assert lake.rows("out.orders") == before


@pytest.mark.slow
def test_several_rows_of_one_key_and_a_key_of_null_are_refused(lake):
    lake.loaded("orders")
    before = lake.rows("out.orders")
    lake.sql(
        "DELETE FROM lake.src.orders WHERE id = 0", "INSERT INTO lake.src.orders VALUES (9, 'a', 1.0), (9, 'a', 1.0)"
    )
    twice = lake.run("orders")
    assert twice.error.code == "duplicate_keys", twice.error
    lake.sql("DELETE FROM lake.src.orders WHERE id = 9", "INSERT INTO lake.src.orders VALUES (NULL, 'a', 1.0)")
    null = lake.run("orders")
    assert null.error.code == "check_failed", null.error
    assert lake.rows("out.orders") == before


@pytest.mark.slow
def test_a_second_row_of_a_key_that_came_and_went_leaves_the_first(lake):
    """Within one load, and over two of which the first saw it."""
    lake.loaded("orders")
    lake.sql(
        "INSERT INTO lake.src.orders VALUES (2, 'double', 9.0), (70, 'short', 0.5)",
        "DELETE FROM lake.src.orders WHERE name = 'double'",
        "DELETE FROM lake.src.orders WHERE id IN (3, 70)",
    )
    outcome = lake.loaded("orders")
    assert outcome.verified
    assert same(lake)
    lake.sql("INSERT INTO lake.src.orders VALUES (1, 'double', 9.0)")
    lake.run("orders")
    lake.sql("DELETE FROM lake.src.orders WHERE name = 'double'")
    outcome = lake.run("orders")
    assert outcome.error is None, outcome.error
    assert same(lake)
    assert lake.run("orders").outcome == "unchanged"


def test_a_position_is_not_moved_to_where_rows_would_be_added_once_more(lake):
    lake.loaded("log")
    lake.sql("INSERT INTO lake.src.orders VALUES (5, 'n5', NULL)")
    lake.loaded("log")
    before = lake.rows("out.log")
    with lake.workspace.project(lake.spark) as project:
        for move in (lambda: project.state.rewind("log", 1), lambda: project.state.set("log", "1")):
            with pytest.raises(PlanError, match="add rows again") as refused:
                move()
            assert "--full-refresh --yes" in refused.value.hint
    assert lake.run("log").outcome == "unchanged"
    assert lake.rows("out.log") == before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("strategy", "write"), [("table_changes", "merge"), ("snapshot_diff", "merge"), ("full", "replace")]
)
def test_excluded_columns_never_arrive(lake_of, strategy, write):
    source = {"iceberg": "lake.src.orders", "exclude": ["sec*", "x"]}
    lake = lake_of({"orders": {**STREAMS["orders"], "source": source, "strategy": strategy, "write": write}})
    lake.sql(CTAS, "ALTER TABLE lake.src.orders ADD COLUMN secret string")
    assert lake.loaded("orders").verified
    lake.sql("UPDATE lake.src.orders SET x = 9.5, secret = 's'")
    assert lake.run("orders").error is None, "what changed is not read"
    lake.sql(
        "UPDATE lake.src.orders SET name = 'second' WHERE id = 1",
        "DELETE FROM lake.src.orders WHERE id = 3",
        "INSERT INTO lake.src.orders (id, name) VALUES (7, 'seven')",
    )
    assert lake.loaded("orders").verified
    assert lake.rows("out.orders") == [(0, "n0"), (1, "second"), (2, "n2"), (4, "n4"), (7, "seven")]
    with lake.workspace.project(lake.spark) as project:
        assert project.verify("orders", level="rows").streams[0].equal is True


@pytest.mark.slow
def test_after_a_repair_and_a_rewind_the_changes_go_on_where_they_were(lake):
    lake.loaded("orders")
    lake.sql(
        "UPDATE lake.out.orders SET name = 'other' WHERE id = 1", "INSERT INTO lake.src.orders VALUES (5, 'n5', 2.5)"
    )
    with lake.workspace.project(lake.spark) as project:
        (repaired,) = project.verify("orders", repair=True).streams
        assert (repaired.error, repaired.repaired_rows) == (None, 1), "row 5 is not missing, it is next"
        assert project.verify("orders").streams[0].equal
    appended = lake.loaded("orders")
    assert (appended.effect, appended.rows_read) == ("insert", 1)
    lake.sql("UPDATE lake.src.orders SET name = 'changed' WHERE id = 2")
    lake.loaded("orders")
    with lake.workspace.project(lake.spark) as project:
        project.state.rewind("orders", 1)
    again = lake.loaded("orders")
    assert (again.effect, again.verified) == ("apply", True)
    assert same(lake)
