"""A replication slot of a server that goes on from a copy of before stops its stream until a resync."""

import shutil
import subprocess
from pathlib import Path

import pytest

from support.lake import QUICK
from support.postgres import PostgresServer
from support.workspace import Workspace

pytestmark = [pytest.mark.postgres, pytest.mark.spark, pytest.mark.slow]

CAREFUL = {"fsync": "on", "synchronous_commit": "on", "autovacuum": "off", "checkpoint_timeout": "1h"}
INSERT = "insert into orders select i, 'n' || i from generate_series({}, {}) i"


def copy(there: Path, here: Path) -> None:
    shutil.rmtree(here, ignore_errors=True)
    subprocess.run(["cp", "-a", str(there), str(here)], check=True)


def test_a_slot_of_a_restored_server_stays_refused(tmp_path, spark):
    server, workspace = PostgresServer.new(**CAREFUL), Workspace(folder=tmp_path)
    url = server.create_database("shop")
    stream = {
        "source": {"connection": "shop", "slot": "copied", "table": "public.orders"},
        "target": "lake.shop.orders",
        "key": ["id"],
        "strategy": "cdc",
        "write": "merge",
    }
    workspace.write({"orders": stream}, connections={"shop": {"url": url}}, spark={"conf": QUICK})

    def sql(*statements: str) -> None:
        with server.connect("shop") as session:
            for statement in statements:
                session.execute(statement)

    def run(**options) -> str:
        (outcome,) = workspace.run("orders", spark=spark, **options).streams
        return outcome.error.code if outcome.error else str(outcome.outcome)

    try:
        sql("create table orders (id bigint primary key, name text)", INSERT.format(1, 5))
        assert run() == "loaded"
        server.stop("fast")
        copy(server.data, server.folder / "copy")
        server.start(**CAREFUL)
        sql(INSERT.format(6, 9))
        assert run() == "loaded"
        server.stop("fast")
        copy(server.folder / "copy", server.data)
        server.start(**CAREFUL)
        assert run() == "history_gone"
        for number in range(50):  # the log is longer now than it was before
            sql(INSERT.format(100 + number, 100 + number))
        sql("select pg_switch_wal()", INSERT.format(200, 200))
        assert run() == "history_gone"
        assert run() == "history_gone"
        assert {row["id"] for row in workspace.rows("shop.orders")} == set(range(1, 10))
        with workspace.project(spark) as project:
            (outcome,) = project.resync("orders", replace=True).streams
        assert outcome.error is None
        sql(INSERT.format(300, 300), "delete from orders where id = 1")
        assert run() == "loaded"
        with server.connect("shop") as session:
            expected = session.execute("select id, name from orders order by id").fetchall()
        assert sorted((row["id"], row["name"]) for row in workspace.rows("shop.orders")) == expected
    finally:
        server.drop()
