"""Columns of a source table that got other names: a version is read by what a column is, not by its name."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

EVOLVE = {"rename": "evolve"}


def streams(source: dict) -> dict:
    rest = {"source": source, "key": ["id"], "write": "merge", "contract": EVOLVE}
    return {
        "changed": {**rest, "target": "lake.out.changed", "strategy": "table_changes"},
        "compared": {**rest, "target": "lake.out.compared", "strategy": "snapshot_diff"},
    }


def verified(lake, stream: str) -> bool:
    with lake.workspace.project(lake.spark) as project:
        return project.verify(stream, level="rows").streams[0].equal is True


def rows(lake, name: str) -> list[dict]:
    return [dict(sorted(row.items())) for row in lake.workspace.rows(name)]


def test_names_that_changed_without_a_snapshot(lake_of):
    lake = lake_of(streams({"iceberg": "lake.src.orders"}))
    lake.sql(
        "CREATE TABLE lake.src.orders USING iceberg AS "
        "SELECT id, id * 10 AS net, id * 100 AS tax, id * 1000 AS amount, concat('n', id) AS Note FROM range(1, 4)",
        "ALTER TABLE lake.src.orders RENAME COLUMN amount TO total",
        "ALTER TABLE lake.src.orders RENAME COLUMN Note TO note",
        "ALTER TABLE lake.src.orders RENAME COLUMN net TO other",
        "ALTER TABLE lake.src.orders RENAME COLUMN tax TO net",
        "ALTER TABLE lake.src.orders RENAME COLUMN other TO tax",
        "ALTER TABLE lake.src.orders ADD COLUMN younger bigint",
    )
    wanted = [
        {"id": n, "net": n * 100, "note": f"n{n}", "tax": n * 10, "total": n * 1000, "younger": None} for n in (1, 2, 3)
    ]
    for stream in ("changed", "compared"):
        assert lake.loaded(stream).verified
        assert rows(lake, f"out.{stream}") == wanted == rows(lake, "src.orders")

    lake.sql("INSERT INTO lake.src.orders VALUES (4, 40, 400, 4000, 'n4', 4)")
    assert verified(lake, "changed"), "the version that was loaded has the values under other names"
    lake.sql("ALTER TABLE lake.src.orders RENAME COLUMN total TO sum")
    for stream in ("changed", "compared"):
        assert lake.loaded(stream).verified
        assert rows(lake, f"out.{stream}") == rows(lake, "src.orders")

    lake.sql(
        "UPDATE lake.src.orders SET sum = 5 WHERE id = 2",
        "DELETE FROM lake.src.orders WHERE id = 1",
        "ALTER TABLE lake.src.orders RENAME COLUMN sum TO total",
    )
    for stream in ("changed", "compared"):
        assert lake.loaded(stream).verified
        assert rows(lake, f"out.{stream}") == rows(lake, "src.orders")


def test_names_of_a_delta_table_that_maps_them(lake_of, tmp_path):
    lake = lake_of(streams({"delta": "tables/orders"}))
    lake.session.conf.set("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    name = f"delta.`{tmp_path / 'tables' / 'orders'}`"
    lake.sql(
        f"CREATE TABLE {name} (id bigint, net bigint, tax bigint) USING delta "
        "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
        f"INSERT INTO {name} SELECT id, id * 10, id * 100 FROM range(1, 4)",
        f"ALTER TABLE {name} RENAME COLUMN net TO total",
        f"ALTER TABLE {name} RENAME COLUMN tax TO net",
    )
    for stream in ("changed", "compared"):
        assert lake.loaded(stream).verified
    lake.sql(f"INSERT INTO {name} VALUES (4, 40, 400)")
    assert all(verified(lake, stream) for stream in ("changed", "compared")), "of the version that was loaded"
    lake.sql(f"ALTER TABLE {name} RENAME COLUMN net TO tax")
    for stream in ("changed", "compared"):
        assert lake.loaded(stream).verified
        assert rows(lake, f"out.{stream}") == [{"id": n, "tax": n * 100, "total": n * 10} for n in (1, 2, 3, 4)]
