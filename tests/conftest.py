"""Fixtures that every suite may ask for; each server starts on first use and ends with the session."""

import pytest
from hypothesis import settings

# Before a test imports them from elsewhere.
pytest.register_assert_rewrite("unit.registry")

pytest_plugins = [
    "support.clock",
    "support.postgres",
    "support.lake",
    "support.lake_servers",
    "support.no_spark",
    "support.hive",
    "support.object_store",
    "support.cluster",
    "support.yarn",
]

# How long an example takes says something of the machine alone.
settings.register_profile("tidegate", deadline=None)
settings.load_profile("tidegate")
