"""Fixtures that every suite may ask for, and which tests `make test` and each part of `make test-all` run."""

import math
import time
from collections.abc import Iterator
from zlib import crc32

import pytest
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling

from support.told import told

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
    "support.mariadb",
    "support.kafka",
    "support.trino",
    "support.snowflake",
]

# How long an example takes says something of the machine alone.
settings.register_profile("tidegate", deadline=None)
settings.load_profile("tidegate")

SHARED_OUT = "tests/matrix/"
"""Below it each test goes to a part and a process of its own; elsewhere those of a file share fixtures."""


def together(name: str) -> str:
    """What the test of that node shares a part and a process with."""
    return name if name.startswith(SHARED_OUT) else name.partition("::")[0]


class _Together(LoadFileScheduling):
    def _split_scope(self, nodeid: str) -> str:
        return together(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadFileScheduling:
    return _Together(config, log)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--part", default="1/1", metavar="K/N", help="run the K-th of N parts of the tests")
    parser.addoption("--until", type=float, default=math.inf, metavar="T", help="begin no test after that Unix time")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if time.time() > item.config.getoption("until"):
        pytest.skip("no time was left")


def pytest_itemcollected(item: pytest.Item) -> None:
    if not item.get_closest_marker("smoke") and any(map(item.get_closest_marker, ("spark", "servers"))):
        item.add_marker("slow")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keeps the part that was asked for, and begins with what takes longest."""
    part, parts = map(int, config.getoption("part").split("/"))
    chosen: list[pytest.Item] = []
    others: list[pytest.Item] = []
    for item in items:
        (chosen if crc32(together(item.nodeid).encode()) % parts == part % parts else others).append(item)
    config.hook.pytest_deselected(items=others)
    items[:] = sorted(chosen, key=lambda item: not item.get_closest_marker("smoke"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """A failure shows what the product did, and how to run the test alone."""
    report = yield
    if report.failed:
        report.sections.append(("alone", f"make test-all ONLY='{item.nodeid}'"))
        if folder := item.funcargs.get("tmp_path"):
            report.sections += told(folder)
    return report
