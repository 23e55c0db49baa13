"""Fixtures that every suite may ask for; each server starts on first use and ends with the session."""

from hypothesis import settings

pytest_plugins = [
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
