"""Events that are passed to Spark as files, wherever the project lies."""

import pytest

from tidegate.core.schema import BIGINT, TEXT, Column, Schema
from tidegate.sources.change_log.events import Event
from tidegate.sources.change_log.spool import Carried, spooled

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

ROWS = Schema(columns=(Column(name="id", type=BIGINT), Column(name="name", type=TEXT)))
CARRIED = (Carried(wire="string", value="try_cast({} AS bigint)".format), Carried(wire="string", value=str))


def event(id_, name):
    return Event(id_, deleted=False, clears=False, values=(id_, name), unknown=(), refused=None, raw=None, origin="o")


def test_a_projects_folder_may_have_any_name(spark, tmp_path):
    for name in ("my shop", "50%20 {1}[a]?*", "größe"):
        place = tmp_path / name
        with spooled(spark, iter([event("1", "a"), event("2", None)]), ROWS, CARRIED, place) as found:
            assert sorted((row["id"], row["name"]) for row in found.collect()) == [(1, "a"), (2, None)]
        assert not place.exists(), "nothing is left"
