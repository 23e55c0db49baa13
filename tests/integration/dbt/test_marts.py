"""The example for dbt over a real Trino: whatever happens to a table, the incremental model equals a full rebuild."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from support.dbt import ROOT, dbt, environment
from support.trino import TrinoServer, running
from tidegate import Project
from tidegate.engine.events import Moment
from tidegate.engine.export.dbt import dbt_sources

pytestmark = [pytest.mark.servers, pytest.mark.spark, pytest.mark.postgres, pytest.mark.timeout(1500)]

CATALOG = """connector.name=iceberg
iceberg.catalog.type=jdbc
iceberg.jdbc-catalog.driver-class=org.postgresql.Driver
iceberg.jdbc-catalog.connection-url=jdbc:postgresql://127.0.0.1:{port}/{database}
iceberg.jdbc-catalog.connection-user=postgres
iceberg.jdbc-catalog.catalog-name=lake
iceberg.jdbc-catalog.default-warehouse-dir=file://{folder}/warehouse
iceberg.jdbc-catalog.schema-version=V1
fs.hadoop.enabled=true
"""
COLUMNS = "id, customer, amount"
EXPIRE = """CALL lake.system.expire_snapshots(
  table => 'shop.orders', older_than => TIMESTAMP '2999-01-01', retain_last => 1)"""


@dataclass(frozen=True, kw_only=True)
class Shop:
    """The example in a folder of its own, with everything that it needs."""

    folder: Path
    trino: TrinoServer
    project: Project

    def change(self, *statements: str) -> None:
        with closing(sqlite3.connect(self.folder / "shop.db")) as database, database:
            for statement in statements:
                database.execute(statement)

    def load(self, *statements: str, **options: Any) -> None:
        self.change(*statements)
        self.project.run("orders", **options).raise_on_failure()

    def dbt(self, *words: str, fails: bool = False) -> str:
        done = dbt(self.folder, *words)
        assert (done.returncode != 0) is fails, done.stdout + done.stderr
        return done.stdout

    def build(self, *words: str) -> list[Any]:
        """The model's rows after a run of dbt, which are those of the table."""
        self.dbt("build", *words)
        table = self.trino.run(f"SELECT {COLUMNS} FROM lake.shop.orders ORDER BY id")
        assert self.trino.run(f"SELECT {COLUMNS} FROM lake.marts.orders ORDER BY id") == table
        sums = "SELECT customer, count(*), sum(amount) FROM {} GROUP BY customer ORDER BY 1"
        mart = self.trino.run("SELECT customer, orders, amount FROM lake.marts.customers_by_spending ORDER BY 1")
        assert mart == self.trino.run(sums.format("lake.shop.orders"))
        return table


@pytest.fixture
def shop(tmp_path, spark, postgres, monkeypatch):
    catalog = postgres.create_database()
    shutil.copytree(ROOT / "examples/dbt", tmp_path, dirs_exist_ok=True)
    monkeypatch.setenv("CATALOG_URL", catalog)
    monkeypatch.setenv("SHOP_URL", "sqlite:///shop.db")
    properties = CATALOG.format(port=postgres.port, database=catalog.rpartition("/")[2], folder=tmp_path)
    with running({"lake": properties}) as trino, Project.load(tmp_path, spark=spark) as project:
        monkeypatch.setenv("TRINO_PORT", str(trino.port))
        found = Shop(folder=tmp_path, trino=trino, project=project)
        found.load(
            "CREATE TABLE orders (id INTEGER PRIMARY KEY NOT NULL, customer TEXT, amount INTEGER)",
            "INSERT INTO orders WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200) "
            "SELECT i, 'c' || (i % 7), i * 10 FROM n",
        )
        # As `tidegate export dbt-sources --output models/sources.yml` does.
        (tmp_path / "models/sources.yml").write_text(dbt_sources(project.streams()).text)
        yield found


def test_the_incremental_model_equals_a_full_rebuild_whatever_happens(shop):
    first = shop.project.versions("orders")[-1].id
    assert len(shop.build()) == 200

    # Two loads between two runs of dbt: a row changes twice, one comes and goes, one goes and comes back.
    shop.load(
        "UPDATE orders SET amount = 1 WHERE id = 1",
        "INSERT INTO orders VALUES (300, 'new', 5)",
        "DELETE FROM orders WHERE id = 3",
    )
    shop.load(
        "UPDATE orders SET amount = 2 WHERE id IN (1, 4)",
        "DELETE FROM orders WHERE id IN (300, 5)",
        "INSERT INTO orders VALUES (3, 'c3', 30)",
    )
    assert len(shop.build()) == 199
    (batches,) = shop.trino.run("SELECT count(*) FROM lake.marts.orders_changes WHERE _tidegate_batch = 2")
    assert batches[0] <= 4, "only what the loads moved was written"

    # A load of deletes alone, then the very same row again.
    shop.load("DELETE FROM orders WHERE id = 7")
    assert len(shop.build()) == 198
    shop.load("INSERT INTO orders VALUES (7, 'c0', 70)")
    assert len(shop.build()) == 199

    # The row of the table of loads comes late: the process ends after the commit.
    def end(event):
        if event.moment is Moment.PUBLISHED:
            raise KeyboardInterrupt

    shop.change("UPDATE orders SET amount = 8 WHERE id = 8", "INSERT INTO orders VALUES (301, 'late', 1)")
    with pytest.raises(KeyboardInterrupt):
        shop.project.run("orders", on_event=end)
    assert len(shop.build()) == 200
    shop.load("UPDATE orders SET amount = 9 WHERE id = 9")
    assert len(shop.build()) == 200

    # A table that was rolled back, and what is loaded then: the same changes once more.
    shop.project.rollback("orders", first)
    assert len(shop.build()) == 200
    shop.load()
    assert (301, "late", 1) in map(tuple, shop.build())

    # Compaction moves no row; and a snapshot that the model has read may be gone.
    shop.project.maintain("orders", force=True)
    shop.build()
    shop.load("DELETE FROM orders WHERE id < 20", "UPDATE orders SET amount = 0 WHERE id = 20")
    shop.project.sessions.load_session().sql(EXPIRE).collect()
    shop.build()
    shop.build("--full-refresh")
    shop.load(full_refresh=True)
    shop.build()
    sql = (shop.folder / "logs/dbt.log").read_text()
    assert re.search("except all select .* for version as of", sql), "two snapshots were compared"
    assert re.search('was_there as .*"marts"', sql), "the whole table was compared with the model"


def test_freshness_follows_the_table_of_loads(shop):
    assert "PASS freshness of shop.orders" in shop.dbt("source", "freshness")
    shop.trino.run("UPDATE lake.ops.tidegate_loads SET loaded_at = loaded_at - INTERVAL '40' MINUTE")
    assert "WARN freshness of shop.orders" in shop.dbt("source", "freshness")
    shop.load()
    shop.trino.run("UPDATE lake.ops.tidegate_loads SET caught_up = false")
    shop.dbt("source", "freshness", fails=True)


def test_a_hook_builds_the_marts_after_each_load_that_changed_the_table(shop, monkeypatch, spark):
    monkeypatch.setenv("PATH", str(environment() / "bin"), prepend=os.pathsep)
    config = shop.folder / "tidegate.yaml"
    hook = "\n    after_publish:\n      - {dbt: {project_dir: .}, timeout: 5m, tries: 1}\n"
    config.write_text(config.read_text().rstrip() + hook)
    spent = "SELECT amount FROM lake.marts.customers_by_spending WHERE customer = 'c1'"
    with Project.load(shop.folder, spark=spark, trusted=True) as project:
        assert project.run("orders").streams[0].notes == (), "a new hook runs for the load that is there"
        ((before,),) = shop.trino.run(spent)
        shop.change("UPDATE orders SET amount = amount + 7 WHERE id = 1")
        assert project.run("orders").streams[0].notes == ()
        ((after,),) = shop.trino.run(spent)
        assert after == before + 7
        builds = (shop.folder / "logs/dbt.log").read_text().count("Running with dbt=")
        project.run("orders").raise_on_failure()
        assert (shop.folder / "logs/dbt.log").read_text().count("Running with dbt=") == builds, "nothing was loaded"

        # A test of dbt that fails is a note, and no failure of the load.
        (shop.folder / "tests").mkdir(exist_ok=True)
        (shop.folder / "tests/never_below_zero.sql").write_text("select * from {{ ref('orders') }} where amount < 0")
        shop.change("UPDATE orders SET amount = -1 WHERE id = 2")
        loaded = project.run("orders").streams[0]
        assert loaded.error is None
        (note,) = loaded.notes
        assert "dbt ended with exit code 1" in note
        shop.change("UPDATE orders SET amount = 1 WHERE id = 2")
        assert project.run("orders").streams[0].notes == ()
