"""A source that was restored stays refused until all was loaded or a person vouches, however far it is written on."""

from __future__ import annotations

import shutil

import pytest

from tidegate.engine.backfill.backfill import Request
from tidegate.errors import ConfigError, HistoryGone

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


def put_back(bench):
    """The source as it was when `backup.db` was made, into the same file."""
    shutil.copyfile(bench.folder / "backup.db", bench.shop.path)
    bench.sql(*(f"update t set name = 'n{number}' where id = 1" for number in range(60)))


def test_a_repair_and_a_position_that_is_set_still_notice_a_source_that_is_restored_later(bench):
    bench.sql("create table t (id integer primary key, at timestamp not null, name text)")
    bench.sql(*(INSERT.format(day, "first") for day in range(1, 10)))
    bench.write({"kind": "watermark", "column": "at"})
    bench.loaded()
    shutil.copyfile(bench.shop.path, bench.folder / "backup.db")
    bench.sql("update t set name = 'lost', at = '2025-02-01' where id < 9")
    assert bench.loaded().rows_read == 8
    bench.sql("update t set name = 'unseen' where id = 9")
    assert bench.verify(repair=True).repaired_rows == 1
    put_back(bench)
    code, message, hint = bench.refused()
    assert (code, "the row with id =" in message, "continue from a position" in hint) == ("history_gone", True, False)
    assert "tidegate state set t VALUE" in bench.refused()[2]
    with bench.project() as project:
        with pytest.raises(ConfigError, match=r"beyond .* up to which the source can be read now"):
            project.state.set("t", "2205-01-02")
        project.state.set("t", "2025-01-01 00:00:00")
    assert bench.loaded().rows_read == 8, "a person vouches for the source, and what lies after the value is read again"
    shutil.copyfile(bench.shop.path, bench.folder / "backup.db")
    bench.sql("update t set name = 'lost', at = '2025-02-01' where id < 9")
    bench.loaded()
    with bench.project() as project:
        project.state.rewind("t", project.state.loads("t")[0].position.sequence)
    bench.unchanged()
    put_back(bench)
    assert bench.refused()[0] == "history_gone"


def test_a_time_zone_that_was_put_right_stops_nothing(bench):
    bench.sql("create table t (id integer primary key, at timestamp not null default current_timestamp, name text)")
    bench.sql("insert into t (at, name) values (datetime('now', '-2 minutes'), 'first')")
    bench.write({"kind": "watermark", "column": "at"})
    bench.loaded()
    bench.write({"kind": "watermark", "column": "at", "time_zone": "America/Los_Angeles"})
    code, message, hint = bench.refused()
    assert (code, "America/Los_Angeles" in message, "Correct `time_zone:`" in hint) == ("history_gone", True, True)
    assert "seen by an earlier run" in bench.refused()[1]
    bench.write({"kind": "watermark", "column": "at"})
    bench.unchanged()
    bench.sql("insert into t (at, name) values (datetime('now', '-1 minutes'), 'second')")
    assert bench.loaded().rows_read == 1
