"""What `show` tells of a table agrees with other readers, and each snippet reads the right rows."""

import json

import pyarrow as pa
import pytest
import sqlglot
from deltalake import DeltaTable

from integration.quality.conftest import CHECKS, on
from support.no_spark import without_spark

pytestmark = pytest.mark.spark

GOOD = [(1, 10), (4, None)]
ENGINES = ["duckdb", "pandas", "polars", "spark", "trino"]
OWN = {"iceberg": "pyiceberg", "delta": "delta-rs"}


@pytest.fixture(scope="module", params=["iceberg", "delta"])
def loaded(request, spark, tmp_path_factory):
    bench = on(request.param, tmp_path_factory.mktemp("shop"))
    bench.stream(CHECKS, layout={"sort_by": ["id"]} if bench.format == "iceberg" else None)
    assert bench.run(spark).error is None
    return bench


@pytest.fixture(scope="module")
def shown(loaded):
    with without_spark(), loaded.workspace.project() as project:
        return project.show("orders")


def test_what_show_tells_is_what_other_readers_find(loaded, shown):
    assert (shown.stream, shown.target, shown.rows, shown.sequence) == ("orders", "lake.shop.orders", 2, 1)
    assert shown.loaded_through == "2025-01-01 00:00:04.000000"
    facts = shown.facts
    if loaded.format == "iceberg":
        table = loaded.workspace.table("shop.orders")
        files = [task.file for task in table.scan().plan_files()]
        assert (facts.format, facts.sort_by, shown.version) == (
            "iceberg 2",
            ("id",),
            str(table.current_snapshot().snapshot_id),
        )
        assert (facts.files, facts.bytes) == (len(files), sum(file.file_size_in_bytes for file in files))
        assert [each.type for each in shown.columns] == [str(each.field_type) for each in table.schema().fields]
        assert shown.location == table.location()
    else:
        table = DeltaTable(str(loaded.workspace.folder / "warehouse" / "shop" / "orders"))
        actions = pa.table(table.get_add_actions(flatten=True))
        assert (facts.format, shown.version) == ("delta", str(table.version()))
        assert (facts.files, facts.bytes) == (actions.num_rows, sum(actions["size_bytes"].to_pylist()))
        assert [each.name for each in shown.columns] == [field.name for field in table.schema().fields]
    assert (facts.partition_by, facts.delete_files) == ((), 0)
    assert shown.versions is not None
    assert shown.versions >= 1
    document = json.loads(json.dumps(shown.to_dict()))
    assert (document["snippets"], document["files"]) == (shown.snippets, facts.files)


def test_each_snippet_reads_the_rows(loaded, shown, spark, capsys):
    assert sorted(shown.snippets) == sorted([*ENGINES, OWN[loaded.format]])
    for engine, snippet in shown.snippets.items():
        if engine == "trino":
            continue
        names: dict = {}
        try:
            exec(snippet, names)
            assert rows_of(engine, names) == GOOD, engine
        finally:
            for line in snippet.splitlines() if engine == "spark" else ():
                if ".config('spark.sql.catalog.lake" in line:
                    spark.conf.unset(line.split("'")[1])
        assert ("amount" in capsys.readouterr().out) == (engine == "duckdb"), engine


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


def test_the_statements_for_trino_can_be_parsed(loaded, shown):
    call, select = shown.snippets["trino"].splitlines()
    assert call.startswith("CALL lake.system.register_table(schema_name => 'shop', table_name => 'orders', ")
    assert str(loaded.workspace.folder) in call
    (table,) = sqlglot.parse_one(select, read="trino").find_all(sqlglot.exp.Table)
    assert (table.catalog, table.db, table.name) == ("lake", "shop", "orders")
