"""Too little memory, and no room for temporary files or the registry: that is said, and no row is lost by it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from integration.cli.test_breakdowns import complete, root
from integration.network.conftest import at
from support.workspace import SqliteShop, Workspace
from tidegate.core.outcome import Result
from tidegate.engine.events import Moment, Stage

pytestmark = [pytest.mark.spark, pytest.mark.exhaustive, pytest.mark.timeout(300)]

ROWS, LONG = 20_000, 5
ORDERS = {
    "source": {"connection": "shop", "table": "orders"},
    "target": "lake.shop.orders",
    "key": ["id"],
    "strategy": {"kind": "full"},
    "write": "merge",
}


def written(shop: SqliteShop, rows: int, size: int) -> None:
    """Rows of so many bytes that nothing makes smaller."""
    shop.sql(
        f"with recursive n(i) as (select 4 union all select i + 1 from n where i < {rows}) "
        f"insert into orders select i, hex(randomblob({size // 2})) from n"
    )


def loads_with(workspace: Workspace, shop: SqliteShop, conf: dict) -> None:
    spark = {"master": "local[2]", "conf": {"spark.ui.enabled": False, **conf}}
    workspace.write({"orders": ORDERS}, connections={"shop": {"url": shop.url}}, spark=spark)


@contextmanager
def disk(folder: Path, size: str) -> Iterator[Path]:
    """A disk of its own, as big as that."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"a disk cannot be mounted here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@root
def test_a_temporary_folder_that_is_full(tidegate, workspace, shop, spark, tmp_path):
    assert tidegate("run").exit_code == 0
    before = workspace.snapshots("shop.orders")
    written(shop, ROWS, 100)
    with disk(tmp_path / "temporary", "256k") as folder:
        loads_with(workspace, shop, {"spark.local.dir": str(folder), "spark.driver.memory": "1g"})
        tidegate.process("run").refuses("write", 1, "a disk is full", "spark.local.dir")
    assert workspace.snapshots("shop.orders") == before
    assert len(workspace.rows("shop.orders")) == 3
    complete(tidegate, workspace, ROWS)


def test_too_little_memory(tidegate, workspace, shop, spark):
    assert tidegate("run").exit_code == 0
    before = workspace.snapshots("shop.orders")
    written(shop, LONG, 48_000_000)
    loads_with(workspace, shop, {"spark.driver.memory": "512m"})
    said = tidegate.process("run")
    said.refuses("spark_lost" if "[spark_lost]" in said.err else "write", 1, "memory", "spark.driver.memory")
    assert workspace.snapshots("shop.orders") == before
    loads_with(workspace, shop, {"spark.driver.memory": "2g"})
    assert tidegate.process("run").exit_code == 0
    assert sorted(row["id"] for row in workspace.rows("shop.orders")) == list(range(1, LONG + 1))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with disk(tmp_path / "small", "2m") as folder:
        yield folder


@root
@pytest.mark.parametrize("stage", [Stage.DETECT, Stage.WRITE, Stage.ADVANCE])
def test_a_disk_of_the_registry_that_is_full(workspace, shop, spark, small_disk, stage):
    places = {"connections": {"shop": {"url": shop.url}}, "registry": f"sqlite:///{small_disk}/registry.db"}
    workspace.write({"orders": ORDERS}, **places)
    assert workspace.run(spark=spark).streams[0].error is None
    shop.sql("insert into orders values (4, 'four')")
    filler = small_disk / "filler"

    def fill() -> None:
        with suppress(OSError), filler.open("wb", buffering=0) as file:
            while file.write(b"." * 512):
                pass

    with workspace.project(spark) as project:
        (outcome,) = project.run(on_event=at(stage, Moment.START, fill)).streams
        assert outcome.error.code == "registry_unavailable"
        assert str(small_disk) in outcome.error.message
        assert "disk" in outcome.error.hint
        filler.unlink()
        (again,) = project.run().streams
        assert again.error is None, again.error
        assert [row["id"] for row in workspace.rows("shop.orders")] == [1, 2, 3, 4]
        assert project.run().streams[0].outcome is Result.UNCHANGED
