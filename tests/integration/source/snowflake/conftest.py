"""A server, and Spark with Snowflake's driver."""

from __future__ import annotations

import pytest

from support.lake import with_driver
from support.snowflake import snowflake_server  # noqa: F401 - the fixture
from tidegate.dialects.snowflake import Snowflake


@pytest.fixture
def spark(spark):
    """The session of all tests, with the driver."""
    with_driver(spark, *Snowflake.jars)
    return spark
