"""The border of a stream: whatever breaks in it ends its run alone, and is seen afterwards."""

import sqlite3

import pytest

from tidegate.api import Project

STREAM = {"target": "lake.shop.{}", "strategy": "full", "write": "replace"}


@pytest.fixture
def project(tmp_path):
    with sqlite3.connect(tmp_path / "shop.db") as database:
        database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY NOT NULL)")
    database.close()
    stream = {**STREAM, "source": {"connection": "shop", "table": "orders"}, "target": "lake.shop.orders"}
    values = {"connections": {"shop": {"url": "sqlite:///shop.db"}}, "streams": {"orders": stream}}
    with Project.from_dict(values, folder=tmp_path) as opened:
        yield opened


@pytest.mark.parametrize("broken", ["lease", "close_crashed", "open_plans"])
def test_a_bug_is_an_error_of_the_stream_and_of_its_status(project, broken):
    """Before the run began, while it began, and in a load."""

    def breaks(*_, **__):
        raise ValueError("a bug")

    kept = getattr(project.registry, broken)
    setattr(project.registry, broken, breaks)
    (outcome,) = project.run("orders").streams
    setattr(project.registry, broken, kept)
    assert (outcome.outcome, outcome.error.code) == ("failed", "internal")
    (status,) = project.status()
    assert (status.last_outcome, status.held_by) == ("failed", None)
    assert "ValueError: a bug" in status.last_error["message"]
