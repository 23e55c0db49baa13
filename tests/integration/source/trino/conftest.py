"""A server, and Spark with its driver."""

from __future__ import annotations

import pytest

from support.trino import trino_server  # noqa: F401 - the fixture
from tidegate.dialects.trino import Trino
from tidegate.spark import jars


@pytest.fixture
def spark(spark):
    """The session of all tests, with Trino's driver."""
    (driver,) = jars.resolve(Trino.jars)
    spark.sql(f"ADD JAR '{driver}'")
    return spark
