"""Spark with Trino's driver."""

from __future__ import annotations

import pytest

from tidegate.dialects.trino import Trino
from tidegate.spark import jars


@pytest.fixture
def spark(spark):
    """The session of all tests, with Trino's driver."""
    (driver,) = jars.resolve(Trino.jars)
    spark.sql(f"ADD JAR '{driver}'")
    return spark
