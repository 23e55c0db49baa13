"""The network to the database of the source is slow, breaks off or swallows everything."""

from functools import partial

import pytest

from integration.network.conftest import ALL, FIRST, at, run, settles, table_ids, through
from support.network import cut_after, delayed, lost
from tidegate.core.outcome import Result
from tidegate.engine.events import Moment, Stage

pytest_plugins = ["support.mariadb"]

pytestmark = [pytest.mark.postgres, pytest.mark.spark]


@pytest.fixture(params=["postgresql", "mariadb"])
def engine(request):
    return request.param


def break_off(network, count=None):
    """No connection outlives this, and new ones are refused, or break off within what the server sends."""
    if count is None:
        network.cut()
    else:
        network.fault = cut_after(count)
        network.end_connections()


@pytest.mark.parametrize(
    ("stage", "moment", "count"),
    [
        (Stage.DETECT, Moment.START, None),
        (Stage.DETECT, Moment.DONE, 0),
        (Stage.DETECT, Moment.DONE, 2_000),
        (Stage.READ, Moment.START, None),
        (Stage.READ, Moment.DONE, 100_000),
        (Stage.CHECK, Moment.DONE, None),
        (Stage.WRITE, Moment.DONE, None),
    ],
)
def test_the_connection_breaks_off(project, shop, network, spark, stage, moment, count):
    workspace = project(spark, shop, connection=through(shop.url, network))
    outcome = run(workspace, spark, on_event=at(stage, moment, partial(break_off, network, count)))
    if outcome.error:
        assert outcome.error.code == "source_unavailable"
        assert "'shop'" in outcome.error.message or "connection to the source" in outcome.error.message
        assert table_ids(workspace) == list(range(1, FIRST + 1))
    network.restore()
    if outcome.error:
        settles(workspace, spark)
    assert table_ids(workspace) == list(range(1, ALL + 1))


def test_a_network_that_comes_back_is_tried_again(project, shop, network, spark):
    workspace = project(spark, shop, connection=through(shop.url, network))
    told = []

    def listen(event):
        if (event.stage, event.moment) == (Stage.READ, Moment.DONE) and not told:
            break_off(network)
        if event.moment is Moment.RETRY:
            told.append(event.detail)
            network.restore()

    outcome = run(workspace, spark, on_event=listen)
    assert outcome.outcome is Result.LOADED, outcome.error
    assert len(told) == 1
    assert table_ids(workspace) == list(range(1, ALL + 1))


def test_a_slow_network_only_takes_longer(project, shop, network, spark):
    workspace = project(spark, shop, connection=through(shop.url, network))
    network.fault = delayed(0.02)
    settles(workspace, spark)


@pytest.mark.slow
def test_a_network_that_swallows_everything(project, shop, network, spark):
    """New connections give up; those that are open end when the network, or whoever keeps it, ends them."""
    workspace = project(spark, shop, connection=through(shop.url, network))

    def swallow():
        network.fault = lost
        network.end_connections()

    outcome = run(workspace, spark, on_event=at(Stage.DETECT, Moment.START, swallow))
    assert outcome.error.code == "source_unavailable"
    assert "'shop'" in outcome.error.message
    network.restore()
    settles(workspace, spark)
