"""Files and Spark tables that became Iceberg tables are taken over once they are proven."""

from __future__ import annotations

from datetime import date

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyiceberg.catalog.rest import RestCatalog

from integration.files.landing import good, idle, loaded, run, stream
from support.workspace import SqliteShop
from tidegate.errors import VerifyFailed

pytestmark = [pytest.mark.spark, pytest.mark.slow]

OVER = "spark.sql.catalog.spark_catalog"


def test_files_that_became_a_table_are_adopted_once_they_are_proven(workspace, tmp_path, spark):
    """Iceberg takes the very files over; the position comes only when the table is what they are."""
    folder = tmp_path / "history"
    folder.mkdir()
    for number in (1, 2):
        rows = pa.table({"id": pa.array([number], pa.int64()), "v": [f"v{number}"]})
        parquet.write_table(rows, folder / f"{number}.parquet")
    workspace.write({"t": stream("history", source={"format": "parquet"})}, connections={})
    (tmp_path / ".tidegate").mkdir()
    with workspace.project(spark) as project:
        lake = project.sessions.load_session()
        lake.sql("CREATE NAMESPACE lake.s")
        lake.sql("CREATE TABLE lake.s.t (id bigint, v string) USING iceberg")
        lake.sql(f"CALL lake.system.add_files(table => 's.t', source_table => '`parquet`.`{folder}`')").collect()
        assert run(workspace, "t", spark).error.code == "position_missing"
        parquet.write_table(pa.table({"id": pa.array([3], pa.int64()), "v": ["v3"]}), folder / "3.parquet")
        with pytest.raises(VerifyFailed, match="3 rows at the source and 2") as caught:
            project.state.adopt("t")
        assert "--full-refresh" in caught.value.hint
        assert run(workspace, "t", spark).error.code == "position_missing"
        (folder / "3.parquet").rename(tmp_path / "3.parquet")
        assert project.state.adopt("t").agree
    idle(workspace, "t")
    (tmp_path / "3.parquet").rename(folder / "3.parquet")
    assert good(workspace, "t", spark).rows_inserted == 1
    assert loaded(workspace, "t", "id", "v") == [(1, "v1"), (2, "v2"), (3, "v3")]
    with workspace.project(spark) as project:
        parquet.write_table(pa.table({"id": pa.array([4], pa.int64()), "v": ["next"]}), folder / "4.parquet")
        assert project.verify("t").streams[0].equal is True  # a file that is not loaded yet is not missing


@pytest.fixture
def old(tmp_path, spark):
    """A partitioned Spark table of Parquet files, as an older job has filled it; forgotten with the test."""
    spark.sql("DROP TABLE IF EXISTS default.old")
    spark.sql(
        "CREATE TABLE default.old (id bigint, name string, day date) USING parquet PARTITIONED BY (day) "
        f"LOCATION '{tmp_path / 'old'}'"
    )
    spark.sql("INSERT INTO default.old VALUES (1, 'a', DATE'2025-01-01'), (2, 'b', DATE'2025-01-02'), (3, NULL, NULL)")
    yield tmp_path / "old"
    for name in ("old", "old_BACKUP_"):
        spark.sql(f"DROP TABLE IF EXISTS default.{name}")  # the files are not its own


def over_the_old_one(session, **catalog):
    """A session of somebody who lays Iceberg's catalog over the one that holds the old table."""
    session.conf.set(OVER, "org.apache.iceberg.spark.SparkSessionCatalog")
    for name, value in catalog.items():
        session.conf.set(f"{OVER}.{name}", value)
    return session


def test_a_spark_table_is_taken_over_beside_the_old_one_and_adopted(workspace, old, tmp_path, spark):
    """By `add_files` into a table that was made for it, and by `snapshot`; what the old job adds is loaded."""
    source = {"format": "parquet", "columns": {"day": "date"}}
    workspace.write({name: stream("old", name, source=source) for name in ("added", "beside")}, connections={})
    (tmp_path / ".tidegate").mkdir()
    with workspace.project(spark) as project:
        # Only `snapshot` needs Iceberg's session catalog; what that would make is somewhere else.
        session = over_the_old_one(project.sessions.load_session(), type="hadoop", warehouse=str(tmp_path / "else"))
        session.sql("CREATE NAMESPACE lake.s")
        session.sql("CREATE TABLE lake.s.added (id bigint, name string, day date) USING iceberg PARTITIONED BY (day)")
        for call in (
            "add_files(table => 's.added', source_table => 'default.old')",
            "snapshot(source_table => 'spark_catalog.default.old', table => 'lake.s.beside')",
        ):
            session.sql(f"CALL lake.system.{call}").collect()
        for name in ("added", "beside"):
            assert run(workspace, name, spark).error.code == "position_missing"
            assert project.state.adopt(name).agree
        session.sql("INSERT INTO default.old VALUES (4, 'd', DATE'2025-01-02')")
    for name in ("added", "beside"):
        assert good(workspace, name, spark).rows_inserted == 1
        days = {row["id"]: row["day"] for row in workspace.rows(f"s.{name}")}
        assert days == {1: date(2025, 1, 1), 2: date(2025, 1, 2), 3: None, 4: date(2025, 1, 2)}
        idle(workspace, name)


@pytest.mark.exhaustive
def test_a_spark_table_that_was_migrated_is_adopted_and_loaded_on(workspace, old, tmp_path, spark, rest_catalog):
    """`migrate` needs a session whose catalog is Iceberg's, over the very catalog that the lake is."""
    shop = SqliteShop(path=tmp_path / "shop.db")
    days = ["(1, 'a', '2025-01-01')", "(2, 'b', '2025-01-02')", "(3, NULL, NULL)"]
    shop.sql(
        "CREATE TABLE orders (id integer PRIMARY KEY AUTOINCREMENT, name text, day date)",
        f"INSERT INTO orders VALUES {', '.join(days)}",
    )
    loading = {"strategy": {"kind": "sequence", "column": "id"}, "write": "append"}
    orders = {"source": {"connection": "shop", "table": "orders"}, "target": "lake.default.old", **loading}
    lakes = {"lake": {"catalog": {"type": "rest", "uri": rest_catalog}, "warehouse": ""}}
    workspace.write({"orders": orders}, connections={"shop": {"url": shop.url}}, lakes=lakes)
    over = over_the_old_one(spark.newSession(), type="rest", uri=rest_catalog)
    with workspace.project(spark) as project:
        lake = project.sessions.load_session()
        lake.sql("CREATE NAMESPACE IF NOT EXISTS lake.default")
        over.sql("CALL spark_catalog.system.migrate('default.old')").collect()
        assert run(workspace, "orders", spark).error.code == "position_missing"
        shop.sql("UPDATE orders SET name = 'z' WHERE id = 1")
        with pytest.raises(VerifyFailed, match="other values"):
            project.state.adopt("orders")
        assert run(workspace, "orders", spark).error.code == "position_missing"
        shop.sql("UPDATE orders SET name = 'a' WHERE id = 1", "INSERT INTO orders VALUES (4, 'd', '2025-01-02')")
        # Rows beyond the greatest key that the table holds are not missing, they are next.
        assert project.state.adopt("orders").table["loaded_through"] == "3"
        assert good(workspace, "orders", spark).rows_inserted == 1
        found = RestCatalog("lake", uri=rest_catalog).load_table(("default", "old")).scan().to_arrow().to_pylist()
        assert sorted(tuple(row.values()) for row in found) == [
            (1, "a", date(2025, 1, 1)),
            (2, "b", date(2025, 1, 2)),
            (3, None, None),
            (4, "d", date(2025, 1, 2)),
        ]
        idle(workspace, "orders")
        lake.sql("DROP TABLE lake.default.old")
