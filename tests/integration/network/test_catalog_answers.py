"""A REST catalog answers a commit with an error, whether it took the commit or not: the table decides."""

import pytest

from integration.network.conftest import ALL, FIRST, at, run, settled
from support.catalog_proxy import FailedCommits, Forgotten, LostOnceItPublished, healthy
from tidegate.core.outcome import Result
from tidegate.engine.events import Moment, Stage

pytestmark = [pytest.mark.postgres, pytest.mark.spark, pytest.mark.servers, pytest.mark.timeout(300)]

RETRIED = ("write", "commit_unknown", "commit_conflict")


@pytest.fixture
def workspace(project, shop, proxy, spark, namespace):
    lakes = {"lake": {"format": "iceberg", "catalog": {"type": "rest", "uri": proxy.url}}}
    return project(spark, shop, connection=shop.url, namespace=namespace, lakes=lakes)


@pytest.mark.parametrize("stage", [Stage.WRITE, Stage.ADVANCE])
@pytest.mark.parametrize("arrives", [True, False])
@pytest.mark.parametrize("status", [409, 500, 502, 503, 504])
def test_a_commit_is_answered_with_an_error(workspace, proxy, spark, read, stage, arrives, status):
    proxy.fault = fault = FailedCommits(status=status, arrives=arrives, times=0)

    def begin():
        fault.times = 1

    outcome = run(workspace, spark, on_event=at(stage, Moment.START, begin))
    assert fault.done == 1, "no commit was answered so: nothing was tested"
    shown, _ = read()
    if outcome.error:
        assert outcome.error.code in RETRIED, outcome.error
        assert shown in (list(range(1, FIRST + 1)), list(range(1, ALL + 1)))
    else:
        assert (outcome.outcome, shown) == (Result.LOADED, list(range(1, ALL + 1)))
    settled(workspace, spark, read)


@pytest.mark.parametrize("arrives", [True, False])
def test_a_load_is_opened_again_where_the_answer_was_lost(workspace, proxy, spark, read, arrives):
    proxy.fault = fault = FailedCommits(status=502, arrives=arrives, times=2)
    outcome = run(workspace, spark)
    assert (outcome.error, outcome.outcome, fault.done) == (None, Result.LOADED, 2)
    assert read() == (list(range(1, ALL + 1)), {"main"})


@pytest.mark.parametrize("status", [400, 402, 500])
def test_every_commit_is_answered_with_an_error(workspace, proxy, spark, read, status):
    proxy.fault = FailedCommits(status=status, arrives=False, times=1_000)
    outcome = run(workspace, spark)
    assert outcome.error is not None
    assert read()[0] == list(range(1, FIRST + 1))
    proxy.fault = FailedCommits(status=status, arrives=True, times=0)
    settled(workspace, spark, read)


@pytest.mark.parametrize("main", [True, False])
def test_a_catalog_that_forgets_what_it_accepted(workspace, proxy, spark, read, main):
    proxy.fault = fault = Forgotten(main=main)
    outcome = run(workspace, spark)
    assert fault.done
    assert outcome.error is not None, "reported as loaded"
    assert outcome.error.code == ("commit_unknown" if main else "incompatible")
    assert read()[0] == list(range(1, FIRST + 1))
    proxy.fault = FailedCommits(status=500, arrives=True, times=0)
    settled(workspace, spark, read)


@pytest.mark.parametrize("answers", [True, False])
def test_a_catalog_that_is_lost_once_it_has_published(workspace, proxy, spark, read, answers):
    """Readers see the load, so nobody may say that nothing was published."""
    proxy.fault = fault = LostOnceItPublished(answers=answers)
    outcome = run(workspace, spark)
    assert fault.done
    assert outcome.error.code == "commit_unknown"
    assert "catalog was lost" in outcome.error.message
    proxy.fault = healthy
    assert read()[0] == list(range(1, ALL + 1))
    again = run(workspace, spark)
    assert (again.error, again.outcome) == (None, Result.UNCHANGED)
