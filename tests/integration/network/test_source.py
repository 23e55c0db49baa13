"""The network to the database of the source is slow, breaks off or swallows everything."""

from functools import partial

import pytest

from integration.network.conftest import at, run, settled, shown_by, through
from support.network import cut_after, delayed, lost
from tidegate.core.outcome import Result
from tidegate.engine.events import Moment, Stage

pytestmark = [pytest.mark.postgres, pytest.mark.spark]


@pytest.fixture(params=["postgresql", "mariadb"])
def engine(request):
    return request.param


def break_off(network, fault=None):
    """No connection outlives this, and new ones are refused, or break off within what the server sends."""
    if fault is None:
        network.cut()
    else:
        network.fault = fault
        network.end_connections()


BREAKS = (
    (Stage.DETECT, Moment.START, None),
    (Stage.DETECT, Moment.START, lost),  # new connections give up; open ones end with the network
    (Stage.DETECT, Moment.DONE, cut_after(0)),
    (Stage.DETECT, Moment.DONE, cut_after(2_000)),
    (Stage.READ, Moment.START, None),
    (Stage.READ, Moment.DONE, cut_after(100_000)),
    (Stage.CHECK, Moment.DONE, None),
    (Stage.WRITE, Moment.DONE, None),
)


@pytest.mark.timeout(600)
def test_the_connection_breaks_off(project, shop, network, spark):
    workspace = project(spark, shop, connection=through(shop.url, network))
    for stage, moment, fault in BREAKS:
        before = shop.ids
        shop.add()
        outcome = run(workspace, spark, on_event=at(stage, moment, partial(break_off, network, fault)))
        if outcome.error:
            assert outcome.error.code == "source_unavailable", (stage, moment, outcome.error)
            assert "'shop'" in outcome.error.message or "connection to the source" in outcome.error.message
            assert shown_by(workspace)[0] == before
        network.restore()
        settled(workspace, spark, shop)

    # Where the network comes back, the load is tried again; where it is slow, nothing else happens.
    network.fault = delayed(0.02)
    shop.add()
    told = []

    def listen(event):
        if (event.stage, event.moment) == (Stage.READ, Moment.DONE) and not told:
            break_off(network)
        if event.moment is Moment.RETRY:
            told.append(event.detail)
            network.restore()

    outcome = run(workspace, spark, on_event=listen)
    assert (outcome.error, outcome.outcome, len(told)) == (None, Result.LOADED, 1)
    settled(workspace, spark, shop)
