"""Runners against each other, on SQLite."""

import pytest

from unit.registry.contention import *  # noqa: F403 - the suite is the module


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/state/registry.db"
