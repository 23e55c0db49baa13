"""Hooks against real receivers: a materialized view is refreshed, a killed run's hook runs in the next run."""

import psycopg
import pytest

from support.kills import kill_at
from support.misread import misread, without_120
from support.no_spark import without_spark
from support.shops import sqlite_shop
from support.webhooks import receiver
from support.workspace import Workspace
from tidegate.core.outcome import Result
from tidegate.engine.events import Moment, Stage

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]


def orders(*hooks, **rest):
    stream = {"source": {"connection": "shop", "table": "orders"}, "target": "lake.shop.orders", "key": ["id"]}
    return {"orders": {**stream, "strategy": "checksum", "write": "merge", "after_publish": list(hooks), **rest}}


def run(workspace, spark):
    (outcome,) = workspace.run("orders", spark=spark).streams
    assert outcome.error is None, outcome.error
    return outcome


def test_a_killed_runs_hook_runs_in_the_next_run_and_once(tmp_path, spark):
    shop, workspace = sqlite_shop(tmp_path), Workspace(folder=tmp_path)
    with receiver(200) as (url, got, codes):
        workspace.write(orders({"webhook": url, "tries": 1}), connections={"shop": {"url": shop.url}})
        kill_at(workspace, "orders", Stage.ADVANCE, Moment.PUBLISHED)
        assert got == []
        loads = [table.metadata.current_snapshot_id for table in [workspace.table("shop.orders")]]
        with without_spark():  # nothing to load, and a hook needs none
            assert run(workspace, None).outcome is Result.UNCHANGED
        (first,) = got
        assert (first.body["stream"], first.body["target"], first.body["rows"]) == ("orders", "lake.shop.orders", None)
        assert first.body["version"] == str(loads[0])
        with without_spark():
            assert run(workspace, None).outcome is Result.UNCHANGED
        assert len(got) == 1

        codes[:] = [500]
        shop.sql("update orders set amount = 'changed' where id = (select min(id) from orders)")
        outcome = run(workspace, spark)
        assert outcome.outcome is Result.LOADED
        (note,) = [each for each in outcome.notes if "after_publish" in each]
        assert "answered 500" in note
        assert got[1].body["load_id"] == outcome.position["load_id"]
        assert got[1].body["rows"] == {
            "inserted": outcome.rows_inserted,
            "updated": outcome.rows_updated,
            "deleted": outcome.rows_deleted,
        }
        assert outcome.rows_updated == 1
        shown = workspace.cli("status", "--json")
        assert "answered 500" in shown.stdout
        assert "T0KEN" not in shown.stdout + str(outcome.to_dict())
        quiet = workspace.cli("run", "orders", "--quiet")
        (warning,) = quiet.stderr.splitlines()
        assert (quiet.returncode, quiet.stdout) == (0, "")
        assert "answered 500" in warning
        assert "T0KEN" not in warning
        codes[:] = [200]
        with without_spark():
            assert run(workspace, None).notes == ()
        assert got[3].headers["Idempotency-Key"] == got[1].headers["Idempotency-Key"]
        assert got[3].body["load_id"] == got[1].body["load_id"]
        workspace.forget_registry()
        run(workspace, spark)
        assert [each.body["load_id"] for each in got[4:]] == [got[1].body["load_id"]]  # at least once


@pytest.mark.postgres
def test_a_materialized_view_is_refreshed_after_a_load_that_changed_the_table(tmp_path, spark, pg_url):
    shop, workspace = sqlite_shop(tmp_path), Workspace(folder=tmp_path)
    with psycopg.connect(pg_url, autocommit=True) as marts:
        marts.execute("create sequence refreshed")
        marts.execute("create materialized view daily as select nextval('refreshed') as n")
        hook = {"sql": "refresh materialized view daily", "connection": "marts"}
        connections = {"shop": {"url": shop.url}, "marts": {"url": pg_url}}
        workspace.write(orders(hook), connections=connections)

        def shown():
            return marts.execute("select n from daily").fetchone()[0]

        assert shown() == 1
        with workspace.project(spark) as project:
            (plan,) = project.plan("orders").streams
        assert "after_publish: sql at marts: refresh materialized view daily will run" in " ".join(plan.notes)
        assert shown() == 1
        assert run(workspace, spark).notes == ()
        assert shown() == 2
        assert run(workspace, spark).outcome is Result.UNCHANGED
        assert shown() == 2
        shop.sql("delete from orders where id = (select max(id) from orders)")
        assert run(workspace, spark).outcome is Result.LOADED
        assert shown() == 3
        with workspace.project(spark) as project:
            before = project.versions("orders")[-1]
            project.rollback("orders", before.id)
        assert shown() == 4
        # What fails says so and fails nothing; a statement that takes too long is ended by the server.
        workspace.write(
            orders({"sql": "select pg_sleep(60)", "connection": "marts", "timeout": "1s", "tries": 1}, hook),
            connections=connections,
        )
        (note,) = run(workspace, spark).notes
        assert note.startswith("after_publish: sql at marts: select pg_sleep(60) failed")
        left = marts.execute(
            "select count(*) from pg_stat_activity where query like '%pg_sleep(60)%' and state = 'active' "
            "and pid <> pg_backend_pid()"
        )
        assert left.fetchone()[0] == 0


def test_on_delta_a_load_whose_verification_failed_runs_no_hook(tmp_path, spark, monkeypatch):
    pytest.importorskip("deltalake")
    shop, workspace = sqlite_shop(tmp_path), Workspace(folder=tmp_path)
    with receiver(200) as (url, got, _):
        delta = {"lakes": {"lake": {"format": "delta"}}}
        watermark = {"kind": "watermark", "column": "updated_at"}
        streams = orders({"webhook": url}, strategy=watermark)
        workspace.write(streams, connections={"shop": {"url": shop.url}}, **delta)
        run(workspace, spark)
        assert len(got) == 1
        shop.sql("update orders set amount = 'changed', updated_at = '2025-02-01' where id in (119, 120)")
        misread(monkeypatch, without_120)
        (failed,) = workspace.run("orders", spark=spark).streams
        assert failed.error.code == "verify_failed"
        monkeypatch.undo()
        with workspace.project(spark) as project:
            project.maintain("orders", force=True)
            assert len(got) == 1
            (mended,) = project.verify("orders", repair=True).streams
            assert (mended.error, mended.equal, mended.repaired_rows) == (None, True, 1)
        assert run(workspace, None).outcome is Result.UNCHANGED
        assert [each.body["verified"] for each in got] == [True, True]
