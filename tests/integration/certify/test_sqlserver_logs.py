"""The logs of SQL Server in a certification of a simulated one, by both real drivers, and what becomes of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from support import simulated_scratch
from support.certify import certify
from support.tds_server import listening

LOGS = {"cdc", "change_tracking"}
WHAT = (
    "first load",
    "a run without changes moves nothing",
    "inserts, updates and deletes",
    "a row of a transaction that was open during a load is not lost",
)


@pytest.mark.slow
@pytest.mark.spark
def test_both_logs_are_certified_and_ended(tmp_path: Path) -> None:
    with simulated_scratch.working() as server, listening(server) as wire:
        _, document = certify(tmp_path, wire.url, "--yes")
        of_logs = {case["name"]: case for case in document["cases"] if case["name"].partition(":")[0] in LOGS}
        assert {name: case["state"] for name, case in of_logs.items()} == {
            f"{log}: {what}": "passed" for log in LOGS for what in WHAT
        }, of_logs
        assert [case for case in document["cases"] if case["state"] == "failed"] == []
        assert document["left"] == []
        assert (server.tracks, server.tracked, server.tables, server.schemas) == (False, False, {}, set())
        assert server.database.cursor().execute("SELECT count(*) FROM cdc.instances").fetchone() == (0,)
