"""The Spark Connect server dies in the middle of a load: that is said, and the next attempt loads every row once."""

from __future__ import annotations

from functools import partial

import pytest

from integration.network.conftest import at
from support.lake_servers import connect_command, running
from support.restarted import Restarted
from support.workspace import SqliteShop, Workspace
from tidegate.core.outcome import Result
from tidegate.engine.events import Moment, Stage

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

FIRST, ALL = 100, 5_000
STREAM = {
    "source": {"connection": "shop", "table": "numbers"},
    "target": "lake.shop.numbers",
    "strategy": {"kind": "sequence", "column": "id"},
    "write": "append",
}
FILL = (
    "with recursive s(i) as (select 1 union all select i + 1 from s where i < {}) "
    "insert into numbers (name) select 'n' || i from s"
)


class Server(Restarted):
    """A Connect server; `spark-submit` becomes the JVM."""

    def __init__(self, folder):
        folder.mkdir()
        command, settings, port = connect_command()
        self.url = f"sc://localhost:{port}"
        super().__init__(partial(running, command, folder, settings, port))


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    made = Server(tmp_path_factory.mktemp("connect") / "server")
    yield made
    made.end()


@pytest.fixture
def workspace(server, tmp_path):
    server.restart()
    shop = SqliteShop(path=tmp_path / "shop.db")
    shop.sql("create table numbers (id integer primary key autoincrement, name text)", FILL.format(FIRST))
    made = Workspace(folder=tmp_path)
    made.write({"numbers": STREAM}, connections={"shop": {"url": shop.url}}, spark={"remote": server.url})
    assert run(made).outcome is Result.LOADED
    shop.sql(FILL.format(ALL - FIRST))
    return made


def run(workspace, **options):
    return workspace.run(**options).streams[0]


def shown(workspace):
    return sorted(row["id"] for row in workspace.rows("shop.numbers"))


def settled(workspace):
    assert shown(workspace) == list(range(1, ALL + 1))
    assert run(workspace).outcome is Result.UNCHANGED


@pytest.mark.parametrize("stage", [Stage.READ, Stage.WRITE])
def test_a_server_that_comes_back_is_used_again(workspace, server, stage):
    kill, told = at(stage, Moment.DONE, server.kill), []

    def listen(event):
        kill(event)
        if event.moment is Moment.RETRY:
            told.append(event.detail)
            server.restart()

    outcome = run(workspace, on_event=listen)
    server.restart()
    assert (outcome.error, outcome.outcome) == (None, Result.LOADED)
    assert all("the Spark Connect server was lost" in each for each in told)
    assert told
    settled(workspace)


def test_a_server_that_stays_away_is_named(workspace, server):
    outcome = run(workspace, on_event=at(Stage.READ, Moment.DONE, server.kill))
    assert outcome.error.code == "spark_lost"
    assert server.url in outcome.error.message
    assert shown(workspace) == list(range(1, FIRST + 1))
    server.restart()
    assert run(workspace).outcome is Result.LOADED
    settled(workspace)
