"""SQL Server's own logs, of a simulated server, by the real drivers in Iceberg: verified, lost, and read anew."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest

from support import simulated_changes
from support.lake import QUICK
from support.tds_server import listening
from support.workspace import Workspace
from tidegate.core.outcome import Outcome, Result
from tidegate.dialects.sqlserver import SqlServer
from tidegate.spark import jars

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
LOGS: dict[str, dict[str, Any]] = {"capture": {"capture_instance": "dbo_orders"}, "tracking": {"change_tracking": True}}


@pytest.mark.parametrize("log", LOGS)
def test_the_table_then_its_log_until_it_is_lost(log, tmp_path, spark) -> None:
    (driver,) = jars.resolve(SqlServer.jars)
    spark.sql(f"ADD JAR '{driver}'")
    server, workspace = simulated_changes.server(), Workspace(folder=tmp_path)
    stream = {
        "source": {"connection": "erp", "table": "dbo.orders", **LOGS[log]},
        "target": "lake.shop.orders",
        "key": ["id"],
        "strategy": "cdc",
        "write": "merge",
    }

    def run() -> Outcome:
        return workspace.run("orders", spark=spark).streams[0]

    def rows() -> dict[int, Any]:
        return {row["id"]: row for row in workspace.rows("shop.orders")}

    def loads(effect: str) -> None:
        """Everything that the server has captured; the table is then the source's."""
        outcome = run()
        assert (outcome.error, outcome.outcome, outcome.verified) == (None, Result.LOADED, True)
        assert (outcome.effect, rows()) == (effect, server.rows)

    with listening(server) as wire:
        workspace.write({"orders": stream}, connections={"erp": {"url": wire.url}}, spark={"conf": QUICK})
        moment = datetime.fromisoformat("2025-01-31T12:00:00.123456")
        server.commit(
            server.insert(
                {"id": 1, "name": "a", "amount": Decimal("1.500"), "changed": moment, "note": "n" * 9000},
                {"id": 2, "name": "ä ", "amount": Decimal("-0.001"), "note": ""},
                {"id": 3, "name": "c", "note": "kept"},
            )
        )
        server.capture_table()
        loads("mirror")
        server.commit(server.update(1, name="A", amount=Decimal("999999999.999")), server.delete(2))
        server.commit(server.insert({"id": 4, "name": "d"}), server.update(3, name="é", changed=moment))
        server.commit(server.update(4, id=5))
        server.capture()
        loads("apply")
        assert run().outcome is Result.UNCHANGED
        with workspace.project(spark) as project:
            (whole,) = project.verify("orders", level="rows").streams
        assert (whole.error, whole.equal, whole.rows_different) == (None, True, 0)

        server.commit(server.delete(1))
        server.commit(server.update(5, name="later"))
        server.capture()
        server.clean_up(f"{server.lsn:020X}")
        server.forget()
        lost = run()
        assert lost.error is not None
        assert (lost.error.code, lost.error.exit_code) == ("history_gone", 4)
        assert "resync" in lost.error.hint
        with workspace.project(spark) as project:
            (found,) = project.resync("orders").streams
        assert (found.error, found.verified, rows()) == (None, True, server.rows)
        server.commit(server.insert({"id": 9, "name": "goes on"}))
        server.capture()
        loads("apply")
