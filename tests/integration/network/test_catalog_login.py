"""A REST catalog whose login is OAuth2 by client credentials, and whose tokens end in the middle of loads."""

import time

import pytest

from integration.network.conftest import at, run, settled
from support.catalog_proxy import TOKENS, Login
from tidegate.core.outcome import Result
from tidegate.engine.events import Moment, Stage

pytestmark = [pytest.mark.postgres, pytest.mark.spark, pytest.mark.servers, pytest.mark.timeout(300)]

CREDENTIAL, SCOPE = "canary-client:canary-Secret+0123456789", "lake:load"


def test_tokens_that_end_and_a_credential_that_is_not_good_any_more(
    project, shop, proxy, spark, namespace, read, capfd
):
    proxy.fault = login = Login(credential=CREDENTIAL, scope=SCOPE, seconds=600)
    options = {"oauth2-server-uri": proxy.url + TOKENS, "credential": CREDENTIAL, "scope": SCOPE}
    lakes = {"lake": {"format": "iceberg", "catalog": {"type": "rest", "uri": proxy.url, **options}}}
    workspace = project(spark, shop, connection=shop.url, namespace=namespace, lakes=lakes)

    def outlived(stage):
        """A load in whose middle its first tokens end."""
        shop.add()
        login.seconds = 3
        outcome = run(workspace, spark, on_event=at(stage, Moment.START, lambda: time.sleep(login.seconds + 1)))
        login.seconds = 600
        says_no_secret(outcome)
        return outcome

    def says_no_secret(outcome):
        kept = [path.read_bytes() for path in (workspace.folder / ".tidegate").rglob("*") if path.is_file()]
        told = "".join([*capfd.readouterr(), repr(outcome), repr(outcome.error and outcome.error.to_dict())])
        for secret in ("canary-Secret", "canary-token"):
            assert secret not in told
            assert not any(secret.encode() in data for data in kept)

    def refused(outcome, before):
        assert outcome.error.code == "write"
        assert "refused the login" in outcome.error.message
        assert "credential" in outcome.error.hint
        assert read()[0] == before

    for stage in (Stage.READ, Stage.WRITE, Stage.ADVANCE):
        outcome = outlived(stage)
        assert (outcome.error, outcome.outcome, outcome.verified) == (None, Result.LOADED, True)
        settled(workspace, spark, shop, read)
    # A client that is not told how long a token is good cannot renew it in time.
    login.told = False
    for stage, status in ((Stage.WRITE, 401), (Stage.ADVANCE, 419)):
        login.status, before = status, shop.ids
        refused(outlived(stage), before)
        assert login.refused
        settled(workspace, spark, shop, read)
    login.told, before = True, shop.ids
    login.credential = "canary-client:another"
    login.given.clear()
    shop.add()
    outcome = run(workspace, spark)
    refused(outcome, before)
    says_no_secret(outcome)
    login.credential = CREDENTIAL
    settled(workspace, spark, shop, read)
