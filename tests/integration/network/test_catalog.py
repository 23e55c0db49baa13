"""The network to a catalog in PostgreSQL breaks off: whether a commit has landed is asked of the table."""

import pytest

from integration.network.conftest import at, run, settled, shown_by, through
from support.network import CutReply
from tidegate.engine.events import Moment, Stage

pytestmark = [pytest.mark.postgres, pytest.mark.spark]

RETRIED = (None, "write", "commit_unknown", "commit_conflict")
COMMIT = b"UPDATE iceberg_tables"
"""What Iceberg's JDBC catalog commits by: one statement in a transaction of its own."""


def test_the_catalog_cannot_be_reached_or_has_taken_a_commit_of_which_nobody_is_told(project, shop, network, spark):
    uri = shop.url.replace("postgresql:", "postgresql+psycopg:")
    catalog = {"type": "postgresql", "uri": through(shop.url, network)}
    lakes = {"lake": {"format": "iceberg", "catalog": catalog}}
    workspace = project(spark, shop, connection=shop.url, lakes=lakes)

    def broken(stage, fault):
        shop.add()
        outcome = run(workspace, spark, on_event=at(stage, Moment.START, fault))
        network.restore()
        assert (outcome.error and outcome.error.code) in RETRIED, (stage, outcome.error)
        settled(workspace, spark, shop, lambda: shown_by(workspace, uri))
        return outcome

    for stage in (Stage.DETECT, Stage.READ, Stage.WRITE, Stage.ADVANCE):
        if error := broken(stage, network.cut).error:
            assert "catalog" in f"{error.message} {error.hint}"
    for stage in (Stage.WRITE, Stage.ADVANCE):  # the commit of the branch, and its publication
        for times in (1, 2):
            network.fault = cut = CutReply(request=COMMIT, times=0)
            broken(stage, lambda cut=cut, times=times: setattr(cut, "times", times))
            assert cut.lost == times, "no commit was cut: nothing was tested"
