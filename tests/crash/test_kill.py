"""SIGKILL of the whole process group at every boundary of every stage, then one run: nothing lost, nothing twice."""

from pathlib import Path

import pytest

from support.kills import kill_at
from support.lake import delta_rows
from support.shops import STREAMS, change, sqlite_shop, texts
from support.workspace import SqliteShop, Workspace
from tidegate.core.outcome import Result
from tidegate.engine.events import BOUNDARIES, Moment, Stage

pytestmark = pytest.mark.slow


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


# Where what a kill leaves differs; the matrix plays every boundary with every strategy and writer, in one process.
DIFFERENT = [
    (Stage.PLAN, Moment.DONE),
    (Stage.WRITE, Moment.DONE),
    (Stage.VERIFY, Moment.DONE),
    (Stage.ADVANCE, Moment.PUBLISHED),
]
EVERY = [
    pytest.param(*boundary, id=str(boundary), marks=() if boundary in DIFFERENT else pytest.mark.exhaustive)
    for boundary in BOUNDARIES
]


@pytest.mark.spark
@pytest.mark.parametrize(("stage", "moment"), EVERY)
def test_kill_during_a_merge(workspace, shop, spark, stage, moment):
    first = workspace.run("orders", spark=spark).streams[0]
    assert first.outcome is Result.LOADED, first.error
    change(shop, "sqlite")
    kill_at(workspace, "orders", stage, moment)
    landed = stage is Stage.ADVANCE and moment is not Moment.START
    settle(workspace, shop, spark, "orders", landed=landed, before=1)


FIRST_LOADS = [(Stage.PLAN, Moment.DONE), (Stage.WRITE, Moment.DONE), (Stage.ADVANCE, Moment.PUBLISHED)]


@pytest.mark.spark
@pytest.mark.parametrize("stream", ["events", "regions"])
@pytest.mark.parametrize(("stage", "moment"), FIRST_LOADS, ids=str)
def test_kill_during_a_first_load(workspace, shop, spark, stream, stage, moment):
    kill_at(workspace, stream, stage, moment)
    landed = stage is Stage.ADVANCE
    settle(workspace, shop, spark, stream, landed=landed, before=0)
    change(shop, "sqlite")
    assert workspace.run(stream, spark=spark).streams[0].outcome is Result.LOADED
    assert actual(workspace, stream) == expected(shop, stream)


SEEN = [(Stage.WRITE, Moment.START), (Stage.WRITE, Moment.DONE), (Stage.VERIFY, Moment.DONE)]


@pytest.mark.spark
@pytest.mark.parametrize(("stage", "moment"), SEEN, ids=str)
def test_kill_where_a_load_is_seen_before_it_is_verified(workspace, shop, spark, stage, moment):
    """Delta has no branch: the next run proves what it finds, and does not load it again."""
    lakes, stream = {"lake": {"format": "delta"}}, {"orders": STREAMS["orders"]}
    workspace.write(stream, connections={"shop": {"url": shop.url}}, lakes=lakes)
    assert workspace.run("orders", spark=spark).streams[0].outcome is Result.LOADED
    change(shop, "sqlite")
    kill_at(workspace, "orders", stage, moment)
    landed = moment is Moment.DONE
    shop.sql("update orders set amount = 'after the crash', updated_at = '2025-03-01' where id in (7, 120)")
    outcome = workspace.run("orders", spark=spark).streams[0]
    assert (outcome.error, outcome.outcome, outcome.verified) == (None, Result.LOADED, True)
    assert outcome.position["sequence"] == (3 if landed else 2)
    found = delta_rows(str(workspace.folder / "warehouse" / "shop" / "orders"))
    assert texts((row["id"], row["amount"]) for row in found) == texts(
        row[:2] for row in shop.rows("select * from orders")
    )
    assert workspace.run("orders", spark=spark).streams[0].outcome is Result.UNCHANGED


RELOADS = [(Stage.WRITE, Moment.DONE), (Stage.VERIFY, Moment.DONE), (Stage.ADVANCE, Moment.PUBLISHED)]


@pytest.mark.spark
@pytest.mark.parametrize(("stage", "moment"), RELOADS, ids=str)
def test_kill_during_a_reload_of_partitions(workspace, shop, spark, stage, moment):
    strategy = {"kind": "checksum", "method": "by_integer", "column": "id", "modulus": 100}
    orders = {**STREAMS["orders"], "strategy": strategy, "write": "replace"}
    workspace.write({"orders": orders}, connections={"shop": {"url": shop.url}})
    assert workspace.run("orders", spark=spark).streams[0].slices_changed == 6
    change(shop, "sqlite")
    kill_at(workspace, "orders", stage, moment)
    settle(workspace, shop, spark, "orders", landed=stage is Stage.ADVANCE, before=1)
