"""A source that was restored stays refused until everything was loaded, however far it is written afterwards."""

from __future__ import annotations

import shutil

import pytest

from tidegate.engine.backfill.backfill import Request
from tidegate.errors import HistoryGone

pytestmark = [pytest.mark.spark]
INSERT = "insert into t (at, name) values ('2025-01-{:02} 00:00:00', '{}')"


def test_a_restored_file_that_no_run_saw_in_between_stays_refused_until_a_resync(bench):
    bench.sql("create table t (id integer primary key, at timestamp not null, name text)", INSERT.format(1, "first"))
    bench.write({"kind": "watermark", "column": "at"})
    bench.loaded()
    shutil.copyfile(bench.shop.path, bench.folder / "backup.db")
    bench.sql(INSERT.format(2, "lost"), INSERT.format(3, "lost"), "update t set name = 'lost', at = '2025-01-04'")
    assert bench.loaded().rows_read == 3
    shutil.copyfile(bench.folder / "backup.db", bench.shop.path)
    bench.sql(*(INSERT.format(day, "new") for day in range(5, 25)))
    assert bench.refused()[0] == "history_gone"
    with bench.project() as project:
        (planned,) = project.plan("t").streams
        assert "tidegate resync t" in planned.error.hint
        with pytest.raises(HistoryGone):
            project.backfills.start("t", Request(begin="2025-01-01", end="2025-01-02"))
        (outcome,) = project.resync("t", replace=True).streams
        assert outcome.error is None
    assert bench.rows("id", "name") == bench.source("id, name")
    bench.sql(INSERT.format(25, "later"))
    assert bench.loaded().rows_read == 1
    assert bench.verify(level="rows").equal
