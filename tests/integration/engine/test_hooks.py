"""Hooks against real receivers, after every command that changes what readers see: once each, also after a kill."""

from __future__ import annotations

import psycopg
import pytest

from integration.engine.conftest import on_delta
from support.kills import kill_at
from support.misread import misread
from support.no_spark import without_spark
from support.webhooks import receiver
from tidegate.core.outcome import Result
from tidegate.engine.backfill.backfill import Request
from tidegate.engine.events import Moment, Stage

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

WATERMARK = {"kind": "watermark", "column": "at"}
CHECK = {"checks": [{"expression": "name <> 'bad'", "on_fail": "quarantine"}]}
KEEP = {"retain": {"column": "day", "keep": "5000d"}, "deletes": {"detect": "key_diff", "max_fraction": 0.9}}


@pytest.fixture
def days(bench):
    """Twenty rows."""
    bench.sql("create table t (id integer primary key, name text, at timestamp, day date)")
    rows = ", ".join(f"({n}, 'n', '2025-01-{n:02} 00:00:00.000000', '20{n:02}-01-01')" for n in range(1, 21))
    bench.sql(f"insert into t values {rows}")
    return bench


def without_a_session(bench):
    """Nothing to load, and a hook needs no Spark."""
    with without_spark():
        (outcome,) = bench.workspace.run("t").streams
    assert (outcome.error, outcome.outcome) == (None, Result.UNCHANGED)
    return outcome.notes


def test_a_killed_runs_hook_runs_in_the_next_run_and_once(days):
    with receiver(200) as (url, got, codes):
        days.write("checksum", after_publish=[{"webhook": url, "tries": 1}])
        kill_at(days.workspace, "t", Stage.ADVANCE, Moment.PUBLISHED)
        assert got == []
        without_a_session(days)
        (first,) = got
        assert (first.body["stream"], first.body["target"], first.body["rows"]) == ("t", "lake.out.t", None)
        assert first.body["version"] == str(days.workspace.table("out.t").metadata.current_snapshot_id)
        without_a_session(days)
        assert len(got) == 1

        codes[:] = [500]
        days.sql("update t set name = 'changed' where id = 1")
        outcome = days.loaded()
        (note,) = [each for each in outcome.notes if "after_publish" in each]
        assert "answered 500" in note
        assert got[1].body["load_id"] == outcome.position["load_id"]
        assert got[1].body["rows"] == {"inserted": 0, "updated": 1, "deleted": 0}
        shown, quiet = days.workspace.cli("status", "--json"), days.workspace.cli("run", "t", "--quiet")
        (warning,) = quiet.stderr.splitlines()
        assert (quiet.returncode, quiet.stdout) == (0, "")
        for text in (shown.stdout, warning):
            assert ("answered 500" in text, "T0KEN" in text) == (True, False)
        assert "T0KEN" not in str(outcome.to_dict())
        codes[:] = [200]
        assert without_a_session(days) == ()
        assert got[3].headers["Idempotency-Key"] == got[1].headers["Idempotency-Key"]
        assert got[3].body["load_id"] == got[1].body["load_id"]
        days.workspace.forget_registry()
        days.run()
        assert [each.body["load_id"] for each in got[4:]] == [got[1].body["load_id"]]  # at least once


@pytest.mark.postgres
def test_a_materialized_view_is_refreshed_after_a_load_that_changed_the_table(days, pg_url):
    with psycopg.connect(pg_url, autocommit=True) as marts:
        marts.execute("create sequence refreshed")
        marts.execute("create materialized view daily as select nextval('refreshed') as n")
        hook = {"sql": "refresh materialized view daily", "connection": "marts"}

        def write(*hooks):
            connections = {"shop": {"url": days.shop.url}, "marts": {"url": pg_url}}
            stream = {"source": {"connection": "shop", "table": "t"}, "target": "lake.out.t", "key": ["id"]}
            stream |= {"strategy": "checksum", "write": "merge", "after_publish": list(hooks)}
            days.workspace.write({"t": stream}, connections=connections)

        def shown():
            return marts.execute("select n from daily").fetchone()[0]

        write(hook)
        with days.project() as project:
            (plan,) = project.plan("t").streams
        assert "after_publish: sql at marts: refresh materialized view daily will run" in " ".join(plan.notes)
        assert shown() == 1
        assert (days.loaded().notes, shown()) == ((), 2)
        days.unchanged()
        assert shown() == 2
        days.sql("delete from t where id = 20")
        days.loaded()
        assert shown() == 3
        with days.project() as project:
            project.rollback("t", project.versions("t")[-1].id)
        assert shown() == 4
        # What fails says so and fails nothing; a statement that takes too long is ended by the server.
        write({"sql": "select pg_sleep(60)", "connection": "marts", "timeout": "1s", "tries": 1}, hook)
        (note,) = days.loaded().notes
        assert note.startswith("after_publish: sql at marts: select pg_sleep(60) failed")
        left = marts.execute(
            "select count(*) from pg_stat_activity where query like '%pg_sleep(60)%' and state = 'active' "
            "and pid <> pg_backend_pid()"
        )
        assert left.fetchone()[0] == 0


@on_delta
def test_on_delta_a_load_whose_verification_failed_runs_no_hook(days, monkeypatch):
    with receiver(200) as (url, got, _):
        days.write(WATERMARK, after_publish=[{"webhook": url}])
        days.loaded()
        assert len(got) == 1
        days.sql("update t set name = 'changed', at = '2025-02-01' where id in (11, 12)")
        misread(monkeypatch, lambda rows: rows.where(f"{rows.columns[0]} <> 12"))
        assert days.refused()[0] == "verify_failed"
        monkeypatch.undo()
        with days.project() as project:
            project.maintain("t", force=True)
            assert len(got) == 1
            (mended,) = project.verify("t", repair=True).streams
            assert (mended.error, mended.equal, mended.repaired_rows) == (None, True, 1)
        days.unchanged()
        assert [each.body["verified"] for each in got] == [True, True]


def test_each_command_that_changes_what_readers_see_runs_the_hook_once(days):
    with receiver(200) as (url, got, _):

        def written(**more):
            days.write(WATERMARK, layout={"partition_by": ["day"]}, after_publish=[{"webhook": url}], **more)

        def calls(act):
            """How often the hook ran; a run after it finds nothing to do, for the hook neither."""
            before = len(got)
            with days.project() as project:
                act(project)
            ran = len(got) - before
            assert (days.run().outcome, len(got) - before) == (Result.UNCHANGED, ran)
            return ran

        def loaded(project):
            project.run("t").raise_on_failure()

        written()
        assert calls(loaded) == 1
        days.sql("update t set name = 'late' where id between 4 and 11")
        request = Request(begin="2025-01-04", end="2025-01-12", chunk=2)
        assert calls(lambda project: project.backfills.start("t", request)) == 1
        days.sql("update t set name = 'unseen' where id = 12")
        assert calls(lambda project: project.verify("t", level="rows")) == 0
        assert calls(lambda project: project.verify("t", level="rows", repair=True).raise_on_failure()) == 1
        assert calls(lambda project: project.maintain("t", force=True)) == 0, "compaction leaves rows as they are"
        written(**CHECK)
        days.sql("update t set name = 'bad', at = '2025-02-01 00:00:00.000000' where id = 20")
        assert calls(loaded) == 1
        written()
        assert calls(lambda project: project.quarantine("t").replay()) == 1
        written(**KEEP)
        assert calls(lambda project: project.maintain("t", force=True)) == 1, "rows were dropped"
        assert len({each.body["load_id"] for each in got}) == len(got), "one call for each load"
        with days.project() as project:
            oldest = [each for each in project.versions("t") if each.load][-1]
            project.rollback("t", oldest.id)
        *before, again = got
        (first,) = [each for each in before if each.body["load_id"] == again.body["load_id"]]
        assert again.body["published_at"] > first.body["published_at"], "a receiver can tell it from the call before"
