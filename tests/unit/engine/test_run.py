"""The border of a stream: whatever breaks in it ends its run alone, and is seen afterwards."""

import sqlite3

import pytest

from tidegate.api import Project
from tidegate.core.outcome import Outcome, Result

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


def test_what_the_streams_of_a_run_moved_tells_what_spark_has_to_expect(tmp_path):
    """Of one stream alone its plan does; here no load gets as far, because there is no table to read."""
    streams = {
        name: {**STREAM, "source": {"connection": "shop", "table": name}, "target": f"lake.shop.{name}"}
        for name in ("orders", "items")
    }
    values = {"connections": {"shop": {"url": "sqlite:///shop.db"}}, "streams": streams}
    sqlite3.connect(tmp_path / "shop.db").close()
    with Project.from_dict(values, folder=tmp_path) as project:

        def expected(*names):
            project.run(*names)
            return project.sessions.expects_much

        def moved(rows, name):
            (stream,) = project.streams(name)
            project.registry.start_run(f"{name} {rows}", stream.uid)
            loaded = Outcome(stream=name, outcome=Result.LOADED, strategy="full", rows_read=rows)
            project.registry.finish_run(f"{name} {rows}", loaded)

        assert expected(), "nothing is known of them"
        assert not expected("orders")
        moved(10, "orders")
        assert expected(), "nor of the other one"
        moved(10, "items")
        assert not expected()
        moved(1_000_000, "items")
        assert expected()
