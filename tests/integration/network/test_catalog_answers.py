"""A REST catalog answers a commit with an error, whether it took the commit or not: the table decides."""

import pytest

from integration.network.conftest import at, run, settled
from support.catalog_proxy import FailedCommits, Forgotten, LostOnceItPublished, healthy
from tidegate.core.outcome import Result
from tidegate.engine.events import Moment, Stage

pytestmark = [pytest.mark.postgres, pytest.mark.spark, pytest.mark.servers, pytest.mark.timeout(600)]

RETRIED = ("write", "commit_unknown", "commit_conflict")


@pytest.fixture
def workspace(project, shop, proxy, spark, namespace):
    lakes = {"lake": {"format": "iceberg", "catalog": {"type": "rest", "uri": proxy.url}}}
    return project(spark, shop, connection=shop.url, namespace=namespace, lakes=lakes)


@pytest.mark.parametrize("arrives", [True, False])
def test_commits_are_answered_with_an_error(workspace, proxy, spark, shop, read, arrives):
    answers = [(Stage.ADVANCE, status) for status in (409, 500, 502, 503, 504)]
    for stage, status in [*answers, (Stage.WRITE, 409), (Stage.WRITE, 502)]:
        before = shop.ids
        shop.add()
        proxy.fault = fault = FailedCommits(status=status, arrives=arrives, times=0)
        outcome = run(workspace, spark, on_event=at(stage, Moment.START, lambda f=fault: setattr(f, "times", 1)))
        assert fault.done == 1, "no commit was answered so: nothing was tested"
        if outcome.error:
            assert outcome.error.code in RETRIED, (stage, status, outcome.error)
            assert read()[0] in (before, shop.ids)
        else:
            assert (outcome.outcome, read()[0]) == (Result.LOADED, shop.ids)
        settled(workspace, spark, shop, read)
    shop.add()
    proxy.fault = fault = FailedCommits(status=502, arrives=arrives, times=2)
    outcome = run(workspace, spark)
    assert (outcome.error, outcome.outcome, fault.done) == (None, Result.LOADED, 2), "a load is opened again"
    settled(workspace, spark, shop, read)


def test_what_a_catalog_refuses_or_forgets_is_not_reported_as_loaded(workspace, proxy, spark, shop, read):
    before = shop.ids
    shop.add()
    for status in (400, 402, 500):
        proxy.fault = FailedCommits(status=status, arrives=False, times=1_000)
        assert run(workspace, spark).error is not None
        assert read()[0] == before
    for main in (True, False):
        proxy.fault = fault = Forgotten(main=main)
        outcome = run(workspace, spark)
        assert fault.done
        assert outcome.error is not None, "reported as loaded"
        assert outcome.error.code == ("commit_unknown" if main else "incompatible")
        assert read()[0] == before
    proxy.fault = healthy
    settled(workspace, spark, shop, read)


def test_a_catalog_that_is_lost_once_it_has_published(workspace, proxy, spark, shop, read):
    """Readers see the load, so nobody may say that nothing was published."""
    for answers in (True, False):
        shop.add()
        proxy.fault = fault = LostOnceItPublished(answers=answers)
        outcome = run(workspace, spark)
        assert fault.done
        assert (outcome.error.code, "catalog was lost" in outcome.error.message) == ("commit_unknown", True)
        proxy.fault = healthy
        assert read()[0] == shop.ids
        assert run(workspace, spark).outcome is Result.UNCHANGED
        shop.add()  # the load after it drops the branch that nobody could drop
        settled(workspace, spark, shop, read)
