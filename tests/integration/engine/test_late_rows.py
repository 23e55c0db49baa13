"""Rows that come late by days: found by the day, read by the day, and told of."""

from __future__ import annotations

import json

import pytest

from tidegate.core.outcome import Result
from tidegate.engine.events import Moment, Stage
from tidegate.errors import SourceError

pytestmark = [pytest.mark.spark]


def refused(event):
    if (event.stage, event.moment) == (Stage.ADVANCE, Moment.START):
        raise SourceError("the test says so")


def test_days_that_changed_are_read_again_and_others_are_not(bench):
    bench.sql("create table t (id integer not null primary key, at timestamp not null)")
    days = (f"({day * 10 + n}, '2025-01-{day:02} 0{n}:00:00.000000')" for day in range(1, 32) for n in range(4))
    bench.sql(f"insert into t values {', '.join(days)}")
    bench.write({"kind": "watermark", "column": "at", "lookback": ["0s", "1d", "7d", "30d"]})

    def lacking():
        return {row[0] for row in bench.source("id")} - {row[0] for row in bench.rows("id")}

    assert bench.loaded().rows_read == 124
    bench.unchanged()
    bench.sql("insert into t values (1, '2025-01-24 09:00:00'), (2, '2025-01-20 09:00:00')")
    outcome = bench.loaded()
    assert (outcome.rows_read, outcome.rows_inserted) == (5, 1)
    assert lacking() == {2}, "no offset points to the 20th yet"
    # A lookback that fails is a gap, and the next run mends it.
    bench.sql("insert into t values (3, '2025-02-19 00:00:00')")
    assert bench.run(on_event=refused).outcome is Result.FAILED
    with bench.project() as project:
        assert {str(gap.known) for gap in project.status()[0].gaps} == {"stale", "failed"}
    assert lacking() == {2, 3}
    assert bench.loaded().rows_read == 6, "four rows of the 20th, the late one, and the new one"
    assert lacking() == set()
    with bench.project() as project:
        assert project.status()[0].gaps == ()
    bench.unchanged()
    told = json.loads(bench.workspace.cli("status", "--late", "t", "--json").stdout)
    assert (told["rows"], told["late_rows"], told["loads"]) == (3, 2, 2)
    assert told["lookback"] == 11 * 86400 + 3 * 3600, "from the morning of the 20th to the position of the 31st"
    assert "11 d 3 h" in bench.workspace.cli("status", "--late", "t").stdout
