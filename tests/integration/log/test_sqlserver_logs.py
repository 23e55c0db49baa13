"""SQL Server's own logs, of a simulated server, by the real drivers in Iceberg: verified, and read by PyIceberg."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest

from support import simulated_changes
from support.lake import QUICK
from support.simulated_changes import ChangeServer
from support.tds_server import listening
from support.workspace import Workspace
from tidegate.core.outcome import Outcome, Result
from tidegate.dialects.sqlserver import SqlServer
from tidegate.spark import jars

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
LOGS = {"capture": {"capture_instance": "dbo_orders"}, "tracking": {"change_tracking": True}}


@dataclass(kw_only=True)
class Loaded:
    """A server, and the table that its log is loaded into."""

    server: ChangeServer
    workspace: Workspace
    spark: Any

    def write(self, url: str, source: dict[str, Any], **options: Any) -> None:
        stream = {
            "source": {"connection": "erp", "table": "dbo.orders", **source},
            "target": "lake.shop.orders",
            "key": ["id"],
            "strategy": "cdc",
            "write": "merge",
            **options,
        }
        self.workspace.write({"orders": stream}, connections={"erp": {"url": url}}, spark={"conf": QUICK})

    def run(self) -> Outcome:
        return self.workspace.run("orders", spark=self.spark).streams[0]

    def loads(self) -> Outcome:
        """Everything that the server has captured; the table is then the source's."""
        outcome = self.run()
        assert (outcome.error, outcome.outcome, outcome.verified) == (None, Result.LOADED, True)
        assert self.rows() == self.server.rows
        return outcome

    def rows(self) -> dict[int, Any]:
        return {row["id"]: row for row in self.workspace.rows("shop.orders")}


@pytest.fixture(params=list(LOGS))
def loaded(request, tmp_path, spark) -> Iterator[Loaded]:
    (driver,) = jars.resolve(SqlServer.jars)
    spark.sql(f"ADD JAR '{driver}'")
    server = simulated_changes.server()
    with listening(server) as wire:
        found = Loaded(server=server, workspace=Workspace(folder=tmp_path), spark=spark)
        found.write(wire.url, LOGS[request.param])
        yield found


def test_the_table_then_its_log(loaded: Loaded) -> None:
    server, moment = loaded.server, datetime.fromisoformat("2025-01-31T12:00:00.123456")
    server.commit(
        server.insert(
            {"id": 1, "name": "a", "amount": Decimal("1.500"), "changed": moment, "note": "n" * 9000},
            {"id": 2, "name": "ä ", "amount": Decimal("-0.001"), "note": ""},
            {"id": 3, "name": "c", "note": "kept"},
        )
    )
    server.capture_table()
    first = loaded.loads()
    assert first.effect == "mirror"
    assert loaded.run().outcome is Result.UNCHANGED
    server.commit(server.update(1, name="A", amount=Decimal("999999999.999")), server.delete(2))
    server.commit(server.insert({"id": 4, "name": "d"}), server.update(3, name="é", changed=moment))
    server.commit(server.update(4, id=5))
    server.capture()
    second = loaded.loads()
    assert second.effect == "apply"
    assert loaded.run().outcome is Result.UNCHANGED
    with loaded.workspace.project(loaded.spark) as project:
        (whole,) = project.verify("orders", level="rows").streams
        assert (whole.error, whole.equal, whole.rows_different) == (None, True, 0)


def test_a_log_that_is_lost_is_said_and_resynced(loaded: Loaded) -> None:
    server = loaded.server
    server.commit(server.insert({"id": 1, "name": "a"}, {"id": 2, "name": "b"}))
    server.capture_table()
    loaded.loads()
    server.commit(server.delete(1))
    server.commit(server.update(2, name="later"))
    server.capture()
    server.clean_up(f"{server.lsn:020X}")
    server.forget(3)
    lost = loaded.run()
    assert lost.error is not None
    assert (lost.error.code, lost.error.exit_code) == ("history_gone", 4)
    assert "resync" in lost.error.hint
    with loaded.workspace.project(loaded.spark) as project:
        (found,) = project.resync("orders").streams
    assert (found.error, found.verified) == (None, True)
    assert loaded.rows() == server.rows
    server.commit(server.insert({"id": 9, "name": "goes on"}))
    server.capture()
    loaded.loads()
