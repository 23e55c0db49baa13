"""What `show` and `status` tell of a table agrees with other readers, and each snippet reads the right rows."""

import json
from collections import Counter

import pyarrow as pa
import pytest
import sqlglot
from deltalake import DeltaTable

from support.no_spark import without_spark
from tidegate.engine.events import Moment, Stage
from tidegate.testing.project import crash_at

pytestmark = [pytest.mark.spark, pytest.mark.slow]

CHECKS = [
    {"expression": "amount >= 0", "on_fail": "quarantine"},
    {"accepted_values": "status", "values": ["paid", "open"], "on_fail": "quarantine"},
]
GOOD = [(1, 10), (4, None)]


@pytest.fixture
def loaded(bench, spark):
    bench.stream(CHECKS, layout={"sort_by": ["id"]} if bench.format == "iceberg" else None)
    assert bench.run(spark).error is None
    return bench


def test_what_show_tells_is_what_other_readers_find(loaded, no_spark):
    with loaded.workspace.project() as project:
        found = project.show("orders")
    assert (found.stream, found.target, found.rows, found.sequence) == ("orders", "lake.shop.orders", 2, 1)
    assert found.loaded_through == "2025-01-01 00:00:04.000000"
    if loaded.format == "iceberg":
        table = loaded.workspace.table("shop.orders")
        files = [task.file for task in table.scan().plan_files()]
        assert (found.facts.format, found.facts.sort_by, found.version) == (
            "iceberg 2",
            ("id",),
            str(table.current_snapshot().snapshot_id),
        )
        assert (found.facts.files, found.facts.bytes) == (len(files), sum(file.file_size_in_bytes for file in files))
        assert [each.type for each in found.columns] == [str(each.field_type) for each in table.schema().fields]
        assert found.location == table.location()
    else:
        table = DeltaTable(str(loaded.workspace.folder / "warehouse" / "shop" / "orders"))
        actions = pa.table(table.get_add_actions(flatten=True))
        assert (found.facts.format, found.version) == ("delta", str(table.version()))
        assert (found.facts.files, found.facts.bytes) == (actions.num_rows, sum(actions["size_bytes"].to_pylist()))
        assert [each.name for each in found.columns] == [field.name for field in table.schema().fields]
    assert (found.facts.partition_by, found.facts.delete_files) == ((), 0)
    assert found.versions is not None
    assert found.versions >= 1
    document = json.loads(json.dumps(found.to_dict()))
    assert (document["snippets"], document["files"]) == (found.snippets, found.facts.files)


@pytest.mark.parametrize("engine", ["duckdb", "pyiceberg", "delta-rs", "polars", "pandas", "spark"])
def test_each_snippet_reads_the_rows(engine, loaded, spark, capsys):
    with loaded.workspace.project() as project:
        snippets = project.show("orders").snippets
    if engine not in snippets:
        assert engine == ("delta-rs" if loaded.format == "iceberg" else "pyiceberg")
        return
    names: dict = {}
    try:
        exec(snippets[engine], names)
        assert rows_of(engine, names) == GOOD
    finally:
        if engine == "spark":
            for line in snippets[engine].splitlines():
                if ".config('spark.sql.catalog.lake" in line:
                    spark.conf.unset(line.split("'")[1])
    assert ("amount" in capsys.readouterr().out) == (engine == "duckdb")


def rows_of(engine, names) -> list[tuple]:
    match engine:
        case "duckdb":
            found = names["loaded" if "loaded" in names else "orders"].to_pylist()
        case "polars":
            found = names["rows"].to_dicts()
        case "pandas":
            found = pa.Table.from_pandas(names["rows"]).to_pylist()
        case "spark":
            found = [row.asDict() for row in names["rows"].collect()]
        case _:
            found = pa.table(names["rows"]).to_pylist()
    return sorted((row["id"], None if row["amount"] is None else int(row["amount"])) for row in found)


def test_the_statements_for_trino_can_be_parsed(loaded):
    with loaded.workspace.project() as project:
        call, select = project.show("orders").snippets["trino"].splitlines()
    assert call.startswith("CALL lake.system.register_table(schema_name => 'shop', table_name => 'orders', ")
    assert str(loaded.workspace.folder) in call
    (table,) = sqlglot.parse_one(select, read="trino").find_all(sqlglot.exp.Table)
    assert (table.catalog, table.db, table.name) == ("lake", "shop", "orders")


def waiting(bench) -> dict[str, int]:
    with bench.workspace.project() as project:
        (listed,) = project.quarantine("orders").waiting()
        (status,) = project.status()
    assert (status.rows_quarantined, status.problem) == (listed.rows, None)
    return listed.rules


def kept(bench, number: int) -> dict[str, int]:
    """What an independent reader counts at the load of that number."""
    rows = (row for row in bench.kept if row["load"] <= number)
    return dict(Counter(row["rule"] for row in rows if row["until"] is None or row["until"] > number))


def test_rows_in_quarantine_are_counted_without_spark(loaded, spark):
    first = {"accepted_values(status)": 1, "expression(amount >= 0)": 1}
    # One is corrected, another comes: but of a load that never lands, neither counts.
    loaded.shop.sql(
        "update orders set amount = 5, updated_at = '2025-01-02' where id = 2",
        "insert into orders values (5, 50, 'odd', '2025-01-03')",
        "insert into orders values (6, 60, 'odd', '2025-01-03')",
    )
    with pytest.raises(BaseException):  # noqa: B017, PT011 - the stand-in of a crash is of no class of ours
        loaded.run(spark, on_event=crash_at((Stage.VERIFY, Moment.START)))
    number = 1 if loaded.format == "iceberg" else 2
    with without_spark():
        assert waiting(loaded) == kept(loaded, number)
    assert number == 2 or kept(loaded, number) == first


def test_rows_that_came_right_are_counted_no_more(loaded, spark):
    loaded.shop.sql("update orders set amount = 5, updated_at = '2025-01-02' where id = 2")
    assert loaded.run(spark).error is None
    with without_spark():
        assert waiting(loaded) == kept(loaded, 2) == {"accepted_values(status)": 1}
