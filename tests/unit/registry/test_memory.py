"""The behaviour of every registry, on SQLite in memory."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from tidegate.testing import MemoryRegistry
from unit.registry.behaviour import *  # noqa: F403 - the suite is the module
from unit.registry.behaviour_parts import *  # noqa: F403
from unit.registry.behaviour_runs import *  # noqa: F403


@pytest.fixture
def url():
    """A database that lives as long as this connection."""
    name = f"file:/{uuid4().hex}?vfs=memdb"
    with closing(sqlite3.connect(name, uri=True)):
        yield f"sqlite:///{name}&uri=true"


def now():
    return datetime(2025, 1, 1, tzinfo=UTC)


def test_a_copy_has_what_was_committed_and_goes_its_own_way():
    with MemoryRegistry.new(now) as registry:
        registry.register(uid="a1", name="orders", source="shop", target="lake.shop.orders")
        with registry.lease("a1"), registry.copy() as left:
            with left.lease("a1"):
                pass
            left.register(uid="b2", name="other", source="shop", target="lake.shop.other")
            assert len(left.status()) == 2
        assert len(registry.status()) == 1
