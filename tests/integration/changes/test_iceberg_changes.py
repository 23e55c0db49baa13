"""An Iceberg table as a source: what its snapshots tell is loaded, and what they do not tell is compared.

What snapshots tell is in `unit/formats/test_iceberg_history.py`, and loads of random changes are in the matrix.
"""

from __future__ import annotations

import pytest

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


def test_what_snapshots_do_not_tell_is_compared(lake):
    lake.loaded("orders")
    lake.sql(
        "ALTER TABLE lake.src.orders SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')",
        "DELETE FROM lake.src.orders WHERE id = 1",
        "INSERT INTO lake.src.orders VALUES (9, 'n9', 9.0)",
    )
    (part,) = lake.plan("orders").slices
    assert "rows were deleted by delete files" in part.reason
    found = lake.loaded("orders")
    changed = (found.write, found.rows_inserted, found.rows_deleted, found.rows_updated)
    assert changed == ("merge_differences", 1, 1, 0)
    assert lake.rows("out.orders") == lake.rows("src.orders")

    lake.sql(
        "UPDATE lake.src.orders SET name = 'late' WHERE id = 2",
        "CALL lake.system.expire_snapshots(table => 'src.orders', older_than => TIMESTAMP '2100-01-01 00:00:00', "
        "retain_last => 1)",
    )
    (part,) = lake.plan("orders").slices
    assert "is not among those that the table keeps" in part.reason
    expired = lake.loaded("orders")
    assert (expired.rows_updated, expired.rows_inserted, expired.rows_deleted) == (1, 0, 0)
    assert lake.rows("out.orders") == lake.rows("src.orders")
    with lake.workspace.project(lake.spark) as project:
        (found,) = project.verify("orders").streams
    assert (found.equal, found.source_rows) == (True, 5)


def test_a_log_takes_what_came_and_stops_for_what_changed_or_would_come_twice(lake):
    lake.loaded("log")
    lake.sql("INSERT INTO lake.src.orders VALUES (1, 'n1', 1.5)")
    lake.loaded("log")
    before = lake.rows("src.orders")
    assert lake.rows("out.log") == before, "twice the same row is two rows"
    with lake.workspace.project(lake.spark) as project:
        for move in (lambda: project.state.rewind("log", 1), lambda: project.state.set("log", "1")):
            with pytest.raises(PlanError, match="add rows again") as refused:
                move()
            assert "--full-refresh --yes" in refused.value.hint
    assert lake.run("log").outcome == "unchanged"
    lake.sql("DELETE FROM lake.src.orders WHERE id = 1")
    stopped = lake.run("log")
    assert (stopped.outcome, stopped.error.code) == ("stopped", "plan")
    assert "write: append cannot apply that" in stopped.error.message
    assert lake.rows("out.log") == before


def test_several_rows_of_one_key_a_key_of_null_and_another_table_are_refused(lake):
    lake.loaded("orders")
    before = lake.rows("out.orders")
    lake.sql(
        "DELETE FROM lake.src.orders WHERE id = 0", "INSERT INTO lake.src.orders VALUES (9, 'a', 1.0), (9, 'a', 1.0)"
    )
    codes = [lake.run("orders").error.code]
    lake.sql("DELETE FROM lake.src.orders WHERE id = 9", "INSERT INTO lake.src.orders VALUES (NULL, 'a', 1.0)")
    codes.append(lake.run("orders").error.code)
    assert codes == ["duplicate_keys", "check_failed"]
    lake.sql("DROP TABLE lake.src.orders", CTAS)
    stopped = lake.run("orders")
    assert (stopped.outcome, stopped.error.code, stopped.error.exit_code) == ("stopped", "history_gone", 4)
    assert "--full-refresh" in stopped.error.hint
    lake.sql("DROP TABLE lake.src.orders")
    missing = lake.run("orders")
    assert (missing.error.code, missing.error.exit_code) == ("column_missing", 2)
    assert lake.rows("out.orders") == before


@pytest.mark.parametrize("source", [{"iceberg": "lake.src.typed"}, {"delta": "tables/typed"}], ids=["iceberg", "delta"])
def test_a_column_that_is_read_has_to_have_a_type_and_one_that_is_left_out_a_name(lake_of, tmp_path, source):
    left_out = {"typed": ["inner"], "named": ["tags", "inner", "secrets"], "fine": ["tags", "inner", "sec*"]}
    streams = {
        name: {
            "source": {**source, "exclude": left},
            "target": f"lake.out.{name}",
            "strategy": "full",
            "write": "replace",
        }
        for name, left in left_out.items()
    }
    lake = lake_of(streams)
    lake.session.conf.set("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    columns = "id bigint, tags map<string,string>, inner struct<a: string, b: array<int>>, secret string"
    ((kind, place),) = source.items()
    name = f"delta.`{tmp_path / place}`" if kind == "delta" else place
    lake.sql(
        f"CREATE TABLE {name} ({columns}) USING {kind}",
        f"INSERT INTO {name} VALUES (1, map('k', 'never seen'), named_struct('a', 'x', 'b', array(1)), 'never seen')",
    )
    refused = lake.run("typed").error
    assert refused.code == "schema_refused"
    assert "column 'tags' of the table has type map, which Tidegate cannot load" in refused.message
    assert refused.hint == "Leave it out with `source: {exclude: [tags]}`."
    refused = lake.run("named").error
    assert (refused.code, "no column 'secrets'; did you mean 'secret'?" in refused.message) == ("config", True)
    assert lake.loaded("fine").verified
    assert lake.rows("out.fine") == [(1,)]
    written = [path for path in (tmp_path / "warehouse" / "out").rglob("*") if path.is_file()]
    assert written
    assert [path for path in written if b"never seen" in path.read_bytes()] == []
