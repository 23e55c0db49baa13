"""Whole loads from Snowflake, on fakesnow by the real drivers, into Iceberg: verified, and repaired."""

from __future__ import annotations

from typing import Any

import pytest

from support.workspace import Workspace
from tidegate.core.backfill import Progress
from tidegate.engine.backfill.backfill import Request

pytestmark = pytest.mark.spark

NAMES = ("'a'", "'b|~'", "NULL")


@pytest.fixture
def workspace(tmp_path) -> Workspace:
    return Workspace(folder=tmp_path)


def orders(workspace: Workspace, server, **options: Any) -> str:
    """A table of three rows, and a project with one stream that loads it; its name."""
    rows = [
        f"{number}, {name}, '2025-01-0{number} 12:00:00.123456789'::timestamp_ntz"
        for number, name in enumerate(NAMES, 1)
    ]
    table = server.table("id number(38,0), name varchar, moment timestamp_ntz", *rows)
    stream = {
        "source": {"connection": "snow", "table": f"S.{table}", "columns": {"ID": "bigint"}},
        "target": "lake.shop.orders",
        "key": ["ID"],
        **options,
    }
    workspace.write({"orders": stream}, connections={"snow": {"url": server.url}})
    return table


def load(workspace: Workspace, spark) -> tuple[str, bool | None]:
    """What became of one run, and whether it was verified."""
    (done,) = workspace.run(spark=spark).streams
    assert done.error is None, done.error
    return str(done.outcome), done.verified


def held(workspace: Workspace) -> list[tuple[Any, Any]]:
    """The rows of the lake's table."""
    return [(row["ID"], row["NAME"]) for row in workspace.rows("shop.orders")]


def test_changes_are_found_moved_and_verified(snowflake_server, workspace, spark) -> None:
    table = orders(workspace, snowflake_server, strategy="checksum", write="merge")
    assert load(workspace, spark) == ("loaded", True)
    assert held(workspace) == [(1, "a"), (2, "b|~"), (3, None)]
    assert load(workspace, spark)[0] == "unchanged"
    snowflake_server.run(f"UPDATE {table} SET name = 'c' WHERE id = 2", f"DELETE FROM {table} WHERE id = 3")
    assert load(workspace, spark) == ("loaded", True)
    assert held(workspace) == [(1, "a"), (2, "c")]


def test_a_damaged_table_is_found_and_repaired(snowflake_server, workspace, spark) -> None:
    orders(workspace, snowflake_server, strategy="full", write="replace")
    assert load(workspace, spark) == ("loaded", True)
    with workspace.project(spark) as project:
        session = project.sessions.load_session()
        session.sql("UPDATE lake.shop.orders SET NAME = 'wrong' WHERE ID = 2")
        project.sessions.release(session)
        (found,) = project.verify("orders", level="rows").streams
        assert (found.equal, found.rows_different) == (False, 1)
        (mended,) = project.verify("orders", repair=True).streams
        assert (mended.error, mended.equal) == (None, True)
    assert held(workspace) == [(1, "a"), (2, "b|~"), (3, None)]


def test_late_rows_are_found_within_the_lookback_and_deletes_by_their_keys(snowflake_server, workspace, spark) -> None:
    watermark = {
        "kind": "watermark",
        "column": "MOMENT",
        "clock": "application",
        "time_zone": "UTC",
        "lookback": "3d",
    } | {"safety_lag": "1s"}
    deletes = {"detect": "key_diff", "max_fraction": 0.5}
    table = orders(workspace, snowflake_server, strategy=watermark, write="merge", deletes=deletes)
    assert load(workspace, spark) == ("loaded", True)
    assert load(workspace, spark)[0] == "unchanged"
    snowflake_server.run(
        f"INSERT INTO {table} SELECT 4, 'late', '2025-01-02 00:00:00'::timestamp_ntz",
        f"INSERT INTO {table} SELECT 5, 'new', '2025-01-04 00:00:00'::timestamp_ntz",
        f"DELETE FROM {table} WHERE id = 1",
    )
    assert load(workspace, spark) == ("loaded", True)
    assert held(workspace) == [(2, "b|~"), (3, None), (4, "late"), (5, "new")]
    # As many rows and the same greatest time: only fingerprints tell.
    snowflake_server.run(f"UPDATE {table} SET name = 'changed' WHERE id = 4")
    assert load(workspace, spark) == ("loaded", True)
    assert (4, "changed") in held(workspace)


def test_a_range_is_loaded_once_more(snowflake_server, workspace, spark) -> None:
    """Rows that changed without their time, which no later load would read."""
    application = {"column": "MOMENT", "clock": "application", "time_zone": "UTC", "safety_lag": "1s", "lookback": "1h"}
    table = orders(workspace, snowflake_server, strategy={"kind": "watermark", **application}, write="merge")
    assert load(workspace, spark) == ("loaded", True)
    snowflake_server.run(f"UPDATE {table} SET name = 'changed' WHERE id < 3")
    assert load(workspace, spark)[0] == "unchanged"
    with workspace.project(spark) as project:
        done = project.backfills.start("orders", Request(begin="2025-01-02", end="2025-01-03", chunk=1, parallel=1))
    assert done.status is Progress.DONE
    assert held(workspace) == [(1, "a"), (2, "changed"), (3, None)]
    assert load(workspace, spark) == ("loaded", True), "what the lookback holds is compared once more"
    assert load(workspace, spark)[0] == "unchanged"


def test_smart_finds_what_no_time_shows(snowflake_server, workspace, spark) -> None:
    partitions = {"partition_by": "ID", "modulus": 2}
    table = orders(workspace, snowflake_server, strategy={"kind": "smart", **partitions}, write="merge")
    assert load(workspace, spark) == ("loaded", True)
    assert load(workspace, spark)[0] == "unchanged"
    snowflake_server.run(f"UPDATE {table} SET name = 'changed' WHERE id = 2", f"DELETE FROM {table} WHERE id = 1")
    assert load(workspace, spark) == ("loaded", True)
    assert held(workspace) == [(2, "changed"), (3, None)]
