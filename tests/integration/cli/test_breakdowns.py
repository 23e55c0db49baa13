"""What breaks in the middle of a load: a clear end, a table as it was, and a next run that completes it."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import yaml

from integration.cli.conftest import ORDERS
from integration.cli.terminal import BROKEN, Terminal
from support.workspace import Workspace
from tidegate.core.outcome import Result
from tidegate.engine.events import Event, Moment, Stage
from tidegate.formats.iceberg import Iceberg
from tidegate.spark import jars

pytestmark = pytest.mark.spark

SMALL = {"master": "local[2]", "conf": {"spark.driver.memory": "1g", "spark.ui.enabled": False}}
MANY = 20_000
root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount and become somebody else")


@pytest.fixture
def many(workspace, shop) -> Workspace:
    """So many rows that a write takes a while."""
    shop.sql(
        f"with recursive n(i) as (select 4 union all select i + 1 from n where i < {MANY}) "
        "insert into orders select i, 'amount ' || i from n"
    )
    workspace.write({"orders": ORDERS}, connections={"shop": {"url": shop.url}}, spark=SMALL)
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
    assert sorted(row["id"] for row in workspace.rows("shop.orders")) == list(range(1, rows + 1))
    assert set(workspace.table("shop.orders").metadata.refs) == {"main"}


def shows_nothing(workspace: Workspace) -> bool:
    return not workspace.has_table("shop.orders") or workspace.rows("shop.orders") == []


@pytest.mark.slow
def test_the_jvm_dies_in_the_middle(tidegate, many, spark):
    """By a hand, or by the kernel for its memory."""
    process = tidegate.start("run")
    process.reach(": check ")
    os.kill(process.java, signal.SIGKILL)
    said = process.end()
    assert said.exit_code == 0, said.everything
    assert "attempt 2 of 3 after spark_lost: Spark's process ended" in said.err
    assert not any(mark in said.everything for mark in BROKEN), said.everything
    assert sorted(row["id"] for row in many.rows("shop.orders")) == list(range(1, MANY + 1))
    assert set(many.table("shop.orders").metadata.refs) == {"main"}


@pytest.mark.slow
def test_a_jvm_that_dies_at_each_attempt(tidegate, many, spark):
    process = tidegate.start("run")
    for _ in range(3):
        process.reach(": check ")
        os.kill(process.java, signal.SIGKILL)
    process.end().refuses("spark_lost", 1, "Spark's process ended", "spark.driver.memory")
    assert shows_nothing(many)
    complete(tidegate, many, MANY)


@pytest.mark.slow
def test_ctrl_c_in_the_middle_of_a_write(tidegate, many, spark):
    process = tidegate.start("run")
    process.reach(": check ")
    time.sleep(0.5)  # the write has begun
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does it: to everybody
    said = process.end()
    assert said.exit_code == 130, said.everything
    assert said.err.splitlines()[-1].startswith(("interrupted", "error[interrupted]: interrupted"))
    assert "Traceback" not in said.everything
    assert ": write " not in said.err, "the interruption came too late to test anything"
    assert shows_nothing(many)
    complete(tidegate, many, MANY)


@pytest.mark.slow
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
    try:
        nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
        said = tidegate.process("run", prefix=nobody, TIDEGATE_CACHE=str(jar_folder), HOME="/nonexistent")
        said.refuses("write", 1, str(warehouse), "tidegate doctor")
        told = tidegate.process("doctor", prefix=nobody, TIDEGATE_CACHE=str(jar_folder), HOME="/nonexistent")
        assert told.exit_code == 1
        assert "error[warehouse of lake]" in told.err
    finally:
        for path, mode in modes.items():
            path.chmod(mode)
    assert list(warehouse.rglob("*")) == []
    complete(tidegate, many, MANY)


@pytest.fixture
def tiny(workspace) -> Iterator[Path]:
    """A warehouse on a disk of one megabyte."""
    folder = workspace.folder / "warehouse"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"a disk cannot be mounted here: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)  # a Spark may not have closed its last file yet


@pytest.mark.slow
@root
def test_a_disk_that_is_full(tidegate, workspace, shop, spark, tiny):
    assert tidegate("run").exit_code == 0
    before = workspace.snapshots("shop.orders")
    shop.sql(
        "with recursive n(i) as (select 4 union all select i + 1 from n where i < 4000) "
        "insert into orders select i, hex(randomblob(400)) from n"
    )
    tidegate("run").refuses("write", 1, "warehouse", "make room")
    assert workspace.snapshots("shop.orders") == before
    assert len(workspace.rows("shop.orders")) == 3
    subprocess.run(["mount", "-o", "remount,size=64m", str(tiny)], check=True)
    complete(tidegate, workspace, 4000)


@pytest.mark.postgres
@pytest.mark.parametrize("stage", [Stage.DETECT, Stage.PLAN, Stage.READ, Stage.CHECK, Stage.WRITE])
def test_a_source_that_breaks_off(tmp_path, spark, pg_url, stage):
    """The server ends every session of the load at the end of a stage, once."""
    with psycopg.connect(pg_url, autocommit=True) as admin:
        admin.execute("create table orders (id int primary key, amount text)")
        admin.execute("insert into orders select i, 'a' || i from generate_series(1, 1000) i")
    workspace = Workspace(folder=tmp_path)
    workspace.write({"orders": ORDERS}, connections={"shop": {"url": pg_url}})
    cuts = []

    def cut(event: Event) -> None:
        if (event.stage, event.moment) == (stage, Moment.DONE) and not cuts:
            with psycopg.connect(pg_url, autocommit=True) as admin:
                ended = admin.execute(
                    "select pg_terminate_backend(pid) from pg_stat_activity "
                    "where application_name = 'tidegate' and datname = current_database()"
                ).fetchall()
            cuts.append(len(ended))

    with workspace.project(spark) as project:
        (outcome,) = project.run(on_event=cut).streams
    assert cuts
    assert cuts[0] > 0
    if outcome.error:
        assert outcome.error.code == "source_unavailable"
        assert shows_nothing(workspace)
        (outcome,) = workspace.run(spark=spark).streams
    assert (outcome.outcome, outcome.verified) == (Result.LOADED, True)
    assert sorted(row["id"] for row in workspace.rows("shop.orders")) == list(range(1, 1001))
    assert set(workspace.table("shop.orders").metadata.refs) == {"main"}
