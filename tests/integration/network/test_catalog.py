"""The network to a catalog in PostgreSQL breaks off: whether a commit has landed is asked of the table."""

import pytest

from integration.network.conftest import at, exact_again, run, through
from support.network import CutReply
from support.workspace import Workspace
from tidegate.engine.events import Moment, Stage

pytestmark = [pytest.mark.postgres, pytest.mark.spark]

RETRIED = ("write", "commit_unknown", "commit_conflict")
COMMIT = b"UPDATE iceberg_tables"
"""What Iceberg's JDBC catalog commits by: one statement in a transaction of its own."""


@pytest.fixture
def uri(shop):
    return shop.url.replace("postgresql:", "postgresql+psycopg:")


@pytest.fixture
def workspace(project, shop, network, spark) -> Workspace:
    catalog = {"type": "postgresql", "uri": through(shop.url, network)}
    lakes = {"lake": {"format": "iceberg", "catalog": catalog}}
    return project(spark, shop, connection=shop.url, lakes=lakes)


@pytest.mark.parametrize("stage", [Stage.WRITE, Stage.ADVANCE])
@pytest.mark.parametrize("times", [1, 2])
def test_the_reply_to_a_commit_is_cut(workspace, shop, uri, network, spark, stage, times):
    """The catalog has taken the commit of the branch, or its publication, and nobody is told."""
    network.fault = cut = CutReply(request=COMMIT, times=0)

    def begin():
        cut.times = times

    outcome = run(workspace, spark, on_event=at(stage, Moment.START, begin))
    assert cut.lost == times, "no commit was cut: nothing was tested"
    network.restore()
    if outcome.error:
        assert outcome.error.code in RETRIED, outcome.error
    exact_again(workspace, spark, uri)


@pytest.mark.parametrize("stage", [Stage.DETECT, Stage.READ, Stage.WRITE, Stage.ADVANCE])
def test_the_catalog_cannot_be_reached(workspace, uri, network, spark, stage):
    outcome = run(workspace, spark, on_event=at(stage, Moment.START, network.cut))
    network.restore()
    if outcome.error:
        assert outcome.error.code in RETRIED, outcome.error
        assert "catalog" in f"{outcome.error.message} {outcome.error.hint}"
    exact_again(workspace, spark, uri)
