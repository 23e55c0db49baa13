"""Hooks against real receivers: a materialized view is refreshed, a killed run's hook runs in the next run."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import psycopg
import pytest

from support.kills import kill_at
from support.no_spark import without_spark
from support.shops import sqlite_shop
from support.workspace import Workspace
from tidegate.core.outcome import Result
from tidegate.engine.events import Moment, Stage

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]


@contextmanager
def receiver():
    """Yields its URL, the documents it got, and a list whose last entry is the code it answers with."""
    got, codes = [], [200]

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(codes[-1])
            self.end_headers()

        def log_message(self, *_):
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/T0KEN-of-the-hook", got, codes
    server.shutdown()
    server.server_close()


def orders(*hooks, **rest):
    stream = {"source": {"connection": "shop", "table": "orders"}, "target": "lake.shop.orders", "key": ["id"]}
    return {"orders": {**stream, "strategy": "checksum", "write": "merge", "after_publish": list(hooks), **rest}}


def run(workspace, spark):
    (outcome,) = workspace.run("orders", spark=spark).streams
    assert outcome.error is None, outcome.error
    return outcome


def test_a_killed_runs_hook_runs_in_the_next_run_and_once(tmp_path, spark):
    shop, workspace = sqlite_shop(tmp_path), Workspace(folder=tmp_path)
    with receiver() as (url, got, codes):
        workspace.write(orders({"webhook": url, "tries": 1}), connections={"shop": {"url": shop.url}})
        kill_at(workspace, "orders", Stage.ADVANCE, Moment.PUBLISHED)
        assert got == []
        loads = [table.metadata.current_snapshot_id for table in [workspace.table("shop.orders")]]
        with without_spark():  # nothing to load, and a hook needs none
            assert run(workspace, None).outcome is Result.UNCHANGED
        (first,) = got
        assert (first["stream"], first["target"], first["rows"]) == ("orders", "lake.shop.orders", None)
        assert first["version"] == str(loads[0])
        with without_spark():
            assert run(workspace, None).outcome is Result.UNCHANGED
        assert len(got) == 1

        codes.append(500)
        shop.sql("update orders set amount = 'changed' where id = (select min(id) from orders)")
        outcome = run(workspace, spark)
        assert outcome.outcome is Result.LOADED
        (note,) = [each for each in outcome.notes if "after_publish" in each]
        assert "answered 500" in note
        assert got[1]["load_id"] == outcome.position["load_id"]
        assert got[1]["rows"] == {
            "inserted": outcome.rows_inserted,
            "updated": outcome.rows_updated,
            "deleted": outcome.rows_deleted,
        }
        assert outcome.rows_updated == 1
        shown = workspace.cli("status", "--json")
        assert "answered 500" in shown.stdout
        assert "T0KEN" not in shown.stdout + str(outcome.to_dict())
        codes.append(200)
        with without_spark():
            assert run(workspace, None).notes == ()
        assert got[2]["load_id"] == got[1]["load_id"]
        workspace.forget_registry()
        run(workspace, spark)
        assert [each["load_id"] for each in got[3:]] == [got[1]["load_id"]]  # at least once


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


def test_on_delta_a_load_whose_verification_failed_runs_no_hook(tmp_path, spark):
    pytest.importorskip("deltalake")
    shop, workspace = sqlite_shop(tmp_path), Workspace(folder=tmp_path)
    with receiver() as (url, got, _):
        delta = {"lakes": {"lake": {"format": "delta"}}}
        workspace.write(orders({"webhook": url}), connections={"shop": {"url": shop.url}}, **delta)
        run(workspace, spark)
        assert len(got) == 1
        # Seen by readers, and the registry does not know yet whether it is right.
        shop.sql("update orders set amount = 'changed' where id = (select min(id) from orders)")
        kill_at(workspace, "orders", Stage.WRITE, Moment.DONE)
        with workspace.project(spark) as project:
            (stream,) = project.streams("orders")
            table = stream.format.state(stream.target, stream.uid)
            project.registry.set_position(
                stream.uid,
                table.position,
                snapshot=table.position_snapshot,
                table_uuid=table.uuid,
                reason="a verification failed",
                verified=False,
            )
            project.maintain("orders", force=True)
            assert len(got) == 1
            project.run("orders").raise_on_failure()
            project.verify("orders").raise_on_failure()
            project.run("orders").raise_on_failure()
        assert len(got) == 2
