"""Fixtures that every suite may ask for; each server starts on first use and ends with the session."""

from zlib import crc32

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


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--part", default="1/1", metavar="K/N", help="run the K-th of N parts of the tests")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Samples by names, so that each file, and each kind of a parametrized test, has its share."""
    part, parts = map(int, config.getoption("part").split("/"))
    chosen: list[pytest.Item] = []
    others: list[pytest.Item] = []
    for item in items:
        (chosen if crc32(item.nodeid.encode()) % parts == part % parts else others).append(item)
    config.hook.pytest_deselected(items=others)
    items[:] = chosen
