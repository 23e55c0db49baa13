"""A REST catalog whose login is OAuth2 by client credentials, and whose tokens end in the middle of loads."""

import time

import pytest

from integration.network.conftest import ALL, FIRST, at, run, settled
from support.catalog_proxy import TOKENS, Login
from tidegate.core.outcome import Result
from tidegate.engine.events import Moment, Stage

pytestmark = [pytest.mark.postgres, pytest.mark.spark, pytest.mark.servers, pytest.mark.timeout(300)]

CREDENTIAL, SCOPE = "canary-client:canary-Secret+0123456789", "lake:load"


@pytest.fixture
def login():
    return Login(credential=CREDENTIAL, scope=SCOPE, seconds=600)


@pytest.fixture
def options():
    """What the catalog of the project says more."""
    return {"credential": CREDENTIAL, "scope": SCOPE}


@pytest.fixture
def workspace(project, shop, proxy, spark, namespace, login, options):
    proxy.fault = login
    catalog = {"type": "rest", "uri": proxy.url, "oauth2-server-uri": proxy.url + TOKENS, **options}
    lakes = {"lake": {"format": "iceberg", "catalog": catalog}}
    return project(spark, shop, connection=shop.url, namespace=namespace, lakes=lakes)


def outlived(workspace, spark, login, stage, seconds):
    """A run in whose middle its first tokens end."""
    login.seconds = seconds
    return run(workspace, spark, on_event=at(stage, Moment.START, lambda: time.sleep(seconds + 1)))


def says_no_secret(workspace, outcome, said):
    kept = [path.read_bytes() for path in (workspace.folder / ".tidegate").rglob("*") if path.is_file()]
    error = outcome.error
    told = [said.out, said.err, repr(outcome), error.message if error else "", (error.hint or "") if error else ""]
    for secret in ("canary-Secret", "canary-token"):
        assert not any(secret in text for text in told)
        assert not any(secret.encode() in data for data in kept)


@pytest.mark.parametrize("stage", [Stage.READ, Stage.WRITE, Stage.ADVANCE])
def test_a_load_that_outlives_its_token_goes_on(workspace, spark, read, login, stage, capfd):
    outcome = outlived(workspace, spark, login, stage, 3)
    assert outcome.error is None, outcome.error
    assert (outcome.outcome, outcome.verified) == (Result.LOADED, True)
    assert read() == (list(range(1, ALL + 1)), {"main"})
    says_no_secret(workspace, outcome, capfd.readouterr())
    login.seconds = 600
    settled(workspace, spark, read)


@pytest.mark.parametrize("stage", [Stage.WRITE, Stage.ADVANCE])
@pytest.mark.parametrize("status", [401, 419])
def test_a_token_that_ends_unannounced_is_a_clear_error(workspace, spark, read, login, stage, status, capfd):
    """A client that is not told how long a token is good cannot renew it in time."""
    login.told, login.status = False, status
    outcome = outlived(workspace, spark, login, stage, 3)
    assert login.refused
    assert outcome.error is not None
    assert outcome.error.code == "write"
    assert "refused the login" in outcome.error.message
    assert "credential" in outcome.error.hint
    assert read()[0] == list(range(1, FIRST + 1))
    says_no_secret(workspace, outcome, capfd.readouterr())
    login.seconds = 600
    settled(workspace, spark, read)


def test_a_credential_that_is_not_good_any_more(workspace, spark, read, login, capfd):
    login.credential = "canary-client:another"
    login.given.clear()
    outcome = run(workspace, spark)
    assert outcome.error.code == "write"
    assert "refused the login" in outcome.error.message
    says_no_secret(workspace, outcome, capfd.readouterr())
    login.credential = CREDENTIAL
    settled(workspace, spark, read)
