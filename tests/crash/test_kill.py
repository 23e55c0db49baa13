"""SIGKILL of the whole process group at a boundary of a stage, then one run: nothing lost, nothing twice."""

from pathlib import Path

import pytest

from support.kills import kill_at
from support.lake import delta_rows
from support.shops import STREAMS, change, sqlite_shop, texts
from support.workspace import SqliteShop, Workspace
from tidegate.core.outcome import Result
from tidegate.engine.events import Moment, Stage

pytestmark = pytest.mark.spark


@pytest.fixture
def shop(tmp_path: Path) -> SqliteShop:
    return sqlite_shop(tmp_path)


@pytest.fixture
def workspace(tmp_path: Path, shop: SqliteShop) -> Workspace:
    workspace = Workspace(folder=tmp_path)
    workspace.write(STREAMS, connections={"shop": {"url": shop.url}})
    return workspace


def expected(shop: SqliteShop, stream: str) -> list[tuple]:
    return texts(shop.rows(f"select * from {stream}"))


def actual(workspace: Workspace, stream: str) -> list[tuple]:
    return [
        row if "." in row[-1] or stream != "orders" else (*row[:-1], f"{row[-1]}.000000")
        for row in texts(row.values() for row in workspace.rows(f"shop.{stream}"))
    ]


def settle(workspace: Workspace, shop: SqliteShop, spark, stream: str, *, landed: bool, before: int) -> None:
    """One run mends everything; a second one finds nothing to do and makes no snapshot."""
    outcome = workspace.run(stream, spark=spark).streams[0]
    assert outcome.error is None, outcome.error
    if stream != "regions":
        assert outcome.outcome is (Result.UNCHANGED if landed else Result.LOADED)
    assert actual(workspace, stream) == expected(shop, stream)
    table = workspace.table(f"shop.{stream}")
    assert set(table.metadata.refs) == {"main"}, "a branch was left behind"
    if stream == "regions":
        return
    assert outcome.position["sequence"] == before + 1
    snapshots = workspace.snapshots(f"shop.{stream}")
    again = workspace.run(stream, spark=spark).streams[0]
    assert again.outcome is Result.UNCHANGED
    assert workspace.snapshots(f"shop.{stream}") == snapshots


# Where what a kill leaves differs most; every boundary is played in memory by `test_in_process`, and random moments by
# `faults`.
KILLS = [
    ("orders", Stage.PLAN, Moment.DONE),
    ("orders", Stage.WRITE, Moment.DONE),
    ("orders", Stage.VERIFY, Moment.DONE),
    ("orders", Stage.ADVANCE, Moment.PUBLISHED),
    ("events", Stage.WRITE, Moment.DONE),
    ("regions", Stage.ADVANCE, Moment.PUBLISHED),
    ("partitions", Stage.WRITE, Moment.DONE),
    ("partitions", Stage.ADVANCE, Moment.PUBLISHED),
]
PARTITIONS = {"kind": "checksum", "method": "by_integer", "column": "id", "modulus": 100}


@pytest.mark.parametrize(("stream", "stage", "moment"), KILLS, ids=str)
def test_kill(workspace, shop, spark, stream, stage, moment):
    """During a merge, a first load of an append or of everything, and a reload of partitions."""
    name, first = ("orders", False) if stream == "partitions" else (stream, stream != "orders")
    if stream == "partitions":
        orders = {**STREAMS["orders"], "strategy": PARTITIONS, "write": "replace"}
        workspace.write({"orders": orders}, connections={"shop": {"url": shop.url}})
    if not first:
        assert workspace.run(name, spark=spark).streams[0].error is None
        change(shop, "sqlite")
    kill_at(workspace, name, stage, moment)
    settle(workspace, shop, spark, name, landed=stage is Stage.ADVANCE, before=0 if first else 1)
    if first:
        change(shop, "sqlite")
        assert workspace.run(name, spark=spark).streams[0].outcome is Result.LOADED
        assert actual(workspace, name) == expected(shop, name)


@pytest.mark.parametrize("moment", [Moment.START, Moment.DONE])
def test_kill_where_a_load_is_seen_before_it_is_verified(workspace, shop, spark, moment):
    """Delta has no branch: the next run proves what it finds, and does not load it again."""
    lakes, stream = {"lake": {"format": "delta"}}, {"orders": STREAMS["orders"]}
    workspace.write(stream, connections={"shop": {"url": shop.url}}, lakes=lakes)
    assert workspace.run("orders", spark=spark).streams[0].outcome is Result.LOADED
    change(shop, "sqlite")
    kill_at(workspace, "orders", Stage.WRITE, moment)
    shop.sql("update orders set amount = 'after the crash', updated_at = '2025-03-01' where id in (7, 120)")
    outcome = workspace.run("orders", spark=spark).streams[0]
    assert (outcome.error, outcome.outcome, outcome.verified) == (None, Result.LOADED, True)
    assert outcome.position["sequence"] == (3 if moment is Moment.DONE else 2)
    found = delta_rows(str(workspace.folder / "warehouse" / "shop" / "orders"))
    assert texts((row["id"], row["amount"]) for row in found) == texts(
        row[:2] for row in shop.rows("select * from orders")
    )
    assert workspace.run("orders", spark=spark).streams[0].outcome is Result.UNCHANGED
