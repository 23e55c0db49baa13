"""A file of DuckDB, and Spark with its driver."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.dialects.duckdb import Duckdb
from tidegate.spark.jars import resolve


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "shop.duckdb"


@pytest.fixture(scope="module")
def spark_with_driver(spark):
    for path in resolve(Duckdb.jars):
        spark.sql(f"ADD JAR '{path}'")
    return spark
