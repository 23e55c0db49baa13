"""Rows that come late by days: found by the day, read by the day, and told of."""

from __future__ import annotations

import json

import pytest

from support.lake import QUICK, delta_rows
from support.workspace import SqliteShop, Workspace
from tidegate.core.outcome import Result
from tidegate.engine.events import Moment, Stage
from tidegate.errors import SourceError

pytestmark = [pytest.mark.spark, pytest.mark.slow]
STREAM = {
    "source": {"connection": "shop", "table": "t"},
    "target": "lake.out.t",
    "key": ["id"],
    "strategy": {"kind": "watermark", "column": "at", "lookback": ["0s", "1d", "7d", "30d"]},
    "write": "merge",
}


@pytest.mark.parametrize("lake_format", ["iceberg", pytest.param("delta", marks=pytest.mark.exhaustive)])
def test_days_that_changed_are_read_again_and_others_are_not(tmp_path, spark, lake_format):
    shop, workspace = SqliteShop(path=tmp_path / "shop.db"), Workspace(folder=tmp_path)
    shop.sql("create table t (id integer not null primary key, at timestamp not null)")
    for day in range(1, 32):
        values = ", ".join(f"({day * 10 + n}, '2025-01-{day:02} 0{n}:00:00.000000')" for n in range(4))
        shop.sql(f"insert into t values {values}")
    lakes, settings = {"lake": {"format": lake_format}}, {"conf": QUICK}
    workspace.write({"t": STREAM}, connections={"shop": {"url": shop.url}}, lakes=lakes, spark=settings)

    def ids() -> list[int]:
        found = workspace.rows("out.t") if lake_format == "iceberg" else delta_rows(str(tmp_path / "warehouse/out/t"))
        return sorted(row["id"] for row in found)

    def wanted() -> list[int]:
        return [row[0] for row in shop.rows("select id from t order by id")]

    with workspace.project(spark) as project:
        assert project.run("t").streams[0].rows_read == 124
        assert project.run("t").streams[0].outcome is Result.UNCHANGED
        shop.sql("insert into t values (1, '2025-01-24 09:00:00'), (2, '2025-01-20 09:00:00')")
        outcome = project.run("t").streams[0]
        assert (outcome.error, outcome.rows_read, outcome.rows_inserted) == (None, 5, 1)
        assert outcome.verified
        assert ids() == [number for number in wanted() if number != 2], "no offset points to the 20th yet"
        # A lookback that fails is a gap, and the next run mends it.
        shop.sql("insert into t values (3, '2025-02-19 00:00:00')")
        if lake_format == "iceberg":
            assert project.run("t", on_event=refused).streams[0].outcome is Result.FAILED
            (status,) = project.status()
            assert {str(gap.known) for gap in status.gaps} == {"stale", "failed"}
            assert ids() == [number for number in wanted() if number not in (2, 3)]
        outcome = project.run("t").streams[0]
        assert (outcome.error, outcome.rows_read) == (None, 6), "four rows of the 20th, the late one, and the new one"
        assert ids() == wanted()
        assert project.status()[0].gaps == ()
        assert project.run("t").streams[0].outcome is Result.UNCHANGED
        assert project.verify("t").streams[0].equal
    told = json.loads(workspace.cli("status", "--late", "t", "--json").stdout)
    assert (told["rows"], told["late_rows"], told["loads"]) == (3, 2, 2)
    assert told["lookback"] == 11 * 86400 + 3 * 3600, "from the morning of the 20th to the position of the 31st"
    said = workspace.cli("status", "--late", "t").stdout
    assert "11 d 3 h" in said


def refused(event):
    if (event.stage, event.moment) == (Stage.ADVANCE, Moment.START):
        raise SourceError("the test says so")
