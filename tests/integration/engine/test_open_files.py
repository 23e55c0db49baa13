"""Spark creates catalogs for each load's session and closes none: a service would run out of open files."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tidegate import Project

pytestmark = [pytest.mark.spark]


def opened_by(spark, file):
    """How often the JVM holds the file open."""
    folder = Path(f"/proc/{spark.sparkContext._gateway.proc.pid}/fd")
    return sum(os.path.realpath(each) == str(file) for each in folder.iterdir())


def test_a_load_leaves_no_connection_to_a_catalog_behind(spark, tmp_path):
    with closing(sqlite3.connect(tmp_path / "shop.db")) as shop:
        shop.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, amount INTEGER)")
        shop.execute("INSERT INTO orders VALUES (1, 1)")
        shop.commit()
        entry = {
            "source": {"connection": "shop", "table": "orders"},
            "target": "lake.shop.orders",
            "key": ["id"],
            "strategy": "full",
            "write": "merge",
        }
        values = {"connections": {"shop": "sqlite:///shop.db"}, "streams": {"orders": entry}}
        with Project.from_dict(values, folder=tmp_path, spark=spark) as project:
            with project._context().session() as session:
                session.sql("SHOW NAMESPACES IN lake").collect()
                assert opened_by(spark, tmp_path / ".tidegate" / "catalog.db") > 0, "while it is used it is open"
            for _ in range(3):
                shop.execute("UPDATE orders SET amount = amount + 1")
                shop.commit()
                assert project.run("orders")["orders"].outcome == "loaded"
                assert opened_by(spark, tmp_path / ".tidegate" / "catalog.db") == 0
