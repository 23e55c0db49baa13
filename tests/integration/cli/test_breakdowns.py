"""What breaks in the middle of a load: a clear end, a table as it was, and a next run that completes it."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import yaml

from integration.cli.conftest import ORDERS
from integration.cli.terminal import BROKEN, Terminal
from integration.network.conftest import at
from support.workspace import SqliteShop, Workspace
from tidegate.core.outcome import Result
from tidegate.engine.events import Moment, Stage
from tidegate.formats.iceberg import Iceberg
from tidegate.spark import jars

pytestmark = pytest.mark.spark

SMALL = {"spark.driver.memory": "1g", "spark.ui.enabled": False}
MANY = 20_000
root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount and become somebody else")


def configure(workspace: Workspace, shop: SqliteShop, **conf: object) -> None:
    """A Spark of its own for processes of their own."""
    spark = {"master": "local[2]", "conf": {**SMALL, **conf}}
    workspace.write({"orders": ORDERS}, connections={"shop": {"url": shop.url}}, spark=spark)


def add(shop: SqliteShop, rows: int, size: int = 20) -> None:
    """So many rows, of so many bytes that nothing makes smaller."""
    shop.sql(
        f"with recursive n(i) as (select 4 union all select i + 1 from n where i < {rows}) "
        f"insert into orders select i, hex(randomblob({size // 2})) from n"
    )


@pytest.fixture
def many(workspace, shop) -> Workspace:
    """So many rows that a write takes a while."""
    add(shop, MANY)
    configure(workspace, shop)
    return workspace


def complete(tidegate: Terminal, workspace: Workspace, rows: int) -> None:
    """The next run loads every row once and leaves no branch."""
    values = yaml.safe_load(workspace.file.read_text())
    values.pop("spark", None)  # this process has a Spark already
    workspace.write(**values)
    said = tidegate("run", "--json")
    assert said.exit_code == 0, said.everything
    (outcome,) = said.document["streams"]
    assert (outcome["outcome"], outcome["verified"]) == ("loaded", True)
    exact(workspace, rows)


def exact(workspace: Workspace, rows: int) -> None:
    assert sorted(row["id"] for row in workspace.rows("shop.orders")) == list(range(1, rows + 1))
    assert set(workspace.table("shop.orders").metadata.refs) == {"main"}


def test_the_jvm_dies(tidegate, many, spark):
    """By a hand, or by the kernel for its memory: at each attempt, then once."""
    process = tidegate.start("run")
    for _ in range(3):
        process.reach(": check ")
        os.kill(process.java, signal.SIGKILL)
    process.end().refuses("spark_lost", 1, "Spark's process ended", "spark.driver.memory")
    assert not many.has_table("shop.orders") or many.rows("shop.orders") == []
    process = tidegate.start("run")
    process.reach(": check ")
    os.kill(process.java, signal.SIGKILL)
    said = process.end()
    assert said.exit_code == 0, said.everything
    assert "attempt 2 of 3 after spark_lost: Spark's process ended" in said.err
    assert not any(mark in said.everything for mark in BROKEN), said.everything
    exact(many, MANY)


@root
def test_a_warehouse_that_may_not_be_written(tidegate, many, spark, tmp_path_factory):
    """As a user without rights: root is never refused."""
    jar_folder = tmp_path_factory.mktemp("jars")
    for jar in jars.resolve(Iceberg(name="lake", folder=many.folder).jars()):
        (jar_folder / jar.name).write_bytes(jar.read_bytes())
    warehouse = many.folder / "warehouse"
    warehouse.mkdir()
    above = [path for path in (many.folder, jar_folder, *many.folder.parents, *jar_folder.parents) if path != Path("/")]
    modes = {path: path.stat().st_mode for path in above}
    for path in above:
        path.chmod(path.stat().st_mode | 0o055)
    for path in (many.folder, many.folder / "shop.db"):
        os.chown(path, 65534, 65534)
    nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    options = {"prefix": nobody, "TIDEGATE_CACHE": str(jar_folder), "HOME": "/nonexistent"}
    try:
        tidegate.process("run", **options).refuses("write", 1, str(warehouse), "tidegate doctor")
        told = tidegate.process("doctor", **options)
        assert (told.exit_code, "error[warehouse of lake]" in told.err) == (1, True), told.everything
    finally:
        for path, mode in modes.items():
            path.chmod(mode)
    assert list(warehouse.rglob("*")) == []
    complete(tidegate, many, MANY)


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
        subprocess.run(["umount", "--lazy", str(folder)], check=True)  # a Spark may not have closed its last file yet


@root
def test_a_warehouse_that_is_full(tidegate, workspace, shop, spark):
    with disk(workspace.folder / "warehouse", "1m") as folder:
        assert tidegate("run").exit_code == 0
        before = workspace.snapshots("shop.orders")
        add(shop, 4000, 800)
        tidegate("run").refuses("write", 1, "warehouse", "make room")
        assert workspace.snapshots("shop.orders") == before
        assert sorted(row["id"] for row in workspace.rows("shop.orders")) == [1, 2, 3]
        branches = set(workspace.table("shop.orders").metadata.refs) - {"main"}
        assert all(name.startswith("tidegate_") for name in branches), "one stays where not even its end has room"
        subprocess.run(["mount", "-o", "remount,size=64m", str(folder)], check=True)
        complete(tidegate, workspace, 4000)


@root
def test_a_temporary_folder_that_is_full(tidegate, workspace, shop, spark, tmp_path):
    assert tidegate("run").exit_code == 0
    before = workspace.snapshots("shop.orders")
    add(shop, MANY, 100)
    with disk(tmp_path / "temporary", "256k") as folder:
        configure(workspace, shop, **{"spark.local.dir": str(folder)})
        tidegate.process("run").refuses("write", 1, "a disk is full", "spark.local.dir")
    assert workspace.snapshots("shop.orders") == before
    complete(tidegate, workspace, MANY)


@root
def test_a_disk_of_the_registry_that_is_full(workspace, shop, spark, tmp_path):
    with disk(tmp_path / "small", "2m") as small:
        places = {"connections": {"shop": {"url": shop.url}}, "registry": f"sqlite:///{small}/registry.db"}
        workspace.write({"orders": ORDERS}, **places)
        assert workspace.run(spark=spark).streams[0].error is None
        filler = small / "filler"

        def fill() -> None:
            with suppress(OSError), filler.open("wb", buffering=0) as file:
                while file.write(b"." * 512):
                    pass

        with workspace.project(spark) as project:
            for number, stage in enumerate((Stage.DETECT, Stage.WRITE, Stage.ADVANCE), 4):
                shop.sql(f"insert into orders values ({number}, 'more')")
                (outcome,) = project.run(on_event=at(stage, Moment.START, fill)).streams
                assert (outcome.error.code, str(small) in outcome.error.message) == ("registry_unavailable", True)
                assert "disk" in outcome.error.hint
                filler.unlink()
                (again,) = project.run().streams
                assert again.error is None, again.error
                exact(workspace, number)
            assert project.run().streams[0].outcome is Result.UNCHANGED


def test_too_little_memory(tidegate, workspace, shop, spark):
    assert tidegate("run").exit_code == 0
    before = workspace.snapshots("shop.orders")
    add(shop, 5, 48_000_000)
    configure(workspace, shop, **{"spark.driver.memory": "512m"})
    said = tidegate.process("run")
    said.refuses("out_of_memory", 1, "memory did not suffice", "spark.driver.memory")
    assert workspace.snapshots("shop.orders") == before
    configure(workspace, shop, **{"spark.driver.memory": "2g"})
    assert tidegate.process("run").exit_code == 0
    exact(workspace, 5)
