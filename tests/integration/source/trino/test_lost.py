"""A Trino that is a source dies or stands still in a stage of a load."""

from __future__ import annotations

import shutil
from functools import partial

import pytest

from integration.network.conftest import at
from support.restarted import Restarted
from support.trino import configured, started
from support.workspace import Workspace
from tidegate.core.outcome import Result
from tidegate.engine.events import Moment, Stage

pytestmark = [pytest.mark.servers, pytest.mark.spark, pytest.mark.timeout(600)]

FIRST, ALL = 500, 1_000
PLACE = "iceberg.shop.numbers"


@pytest.fixture(scope="module")
def server():
    """A server of these tests alone, which they may kill; its tables are files."""
    made, command = configured()
    made.held = Restarted(partial(started, made, command))
    made.run("CREATE SCHEMA iceberg.shop")
    yield made
    made.held.end()
    shutil.rmtree(made.folder)


def fill(server, first, last):
    server.run(
        f"INSERT INTO {PLACE} SELECT n, 'n' || CAST(n AS varchar) FROM unnest(sequence({first}, {last})) AS t(n)"
    )


@pytest.fixture
def workspace(server, tmp_path, spark):
    """The first rows are loaded; since then more have come, and some have changed or gone."""
    server.held.restart()
    server.run(f"DROP TABLE IF EXISTS {PLACE}", f"CREATE TABLE {PLACE} (id bigint NOT NULL, name varchar)")
    fill(server, 1, FIRST)
    stream = {
        "source": {"connection": "tree", "table": "shop.numbers"},
        "target": "lake.shop.numbers",
        "key": ["id"],
        "strategy": "full",
        "write": "merge",
    }
    made = Workspace(folder=tmp_path)
    made.write({"numbers": stream}, connections={"tree": {"url": server.url("iceberg", "shop")}})
    assert run(made, spark).outcome is Result.LOADED
    fill(server, FIRST + 1, ALL)
    server.run(f"DELETE FROM {PLACE} WHERE id % 10 = 3", f"UPDATE {PLACE} SET name = 'changed' WHERE id % 10 = 7")
    return made


def run(workspace, spark, **options):
    return workspace.run(spark=spark, **options).streams[0]


def expected():
    return [{"id": n, "name": "changed" if n % 10 == 7 else f"n{n}"} for n in range(1, ALL + 1) if n % 10 != 3]


def shown(workspace):
    return sorted(workspace.rows("shop.numbers"), key=lambda row: row["id"])


@pytest.mark.parametrize(("stage", "way"), [(Stage.DETECT, "kill"), (Stage.READ, "stall"), (Stage.CHECK, "kill")])
def test_a_server_that_is_lost(server, workspace, spark, stage, way):
    before = shown(workspace)
    outcome = run(workspace, spark, on_event=at(stage, Moment.START, getattr(server.held, way)))
    if way == "stall":
        assert (outcome.error, outcome.outcome) == (None, Result.LOADED)
    else:
        assert outcome.error.code == "source_unavailable", outcome.error
        assert shown(workspace) == before
        server.held.restart()
        again = run(workspace, spark)
        assert (again.error, again.outcome, again.verified) == (None, Result.LOADED, True)
    assert shown(workspace) == expected()
    assert run(workspace, spark).outcome is Result.UNCHANGED
