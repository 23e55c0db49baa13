"""The clock of the machine jumps in the middle of a load, and back before the next one: no row is lost or doubled."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from support.clock import Clock
from support.kills import CRASH, environment
from support.workspace import SqliteShop, Workspace
from tidegate.engine.events import Stage

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

STREAMS = {
    "new": {
        "source": {"connection": "shop", "table": "orders"},
        "target": "lake.shop.new",
        "strategy": {"kind": "sequence", "column": "id"},
        "write": "append",
    },
    "changed": {
        "source": {"connection": "shop", "table": "orders"},
        "target": "lake.shop.changed",
        "key": ["id"],
        "strategy": {"kind": "watermark", "column": "at"},
        "write": "merge",
    },
}
SPARK = {"master": "local[1]", "conf": {"spark.driver.memory": "1g", "spark.ui.enabled": False}}
FEW, MORE = 50, 120
HOUR = 3600


@pytest.fixture
def shop(tmp_path: Path) -> SqliteShop:
    made = SqliteShop(path=tmp_path / "shop.db")
    made.sql("create table orders (id integer primary key autoincrement, at timestamp not null, name text)")
    write(made, FEW)
    return made


def write(shop: SqliteShop, rows: int) -> None:
    """So many rows, by the clock that is right; old enough for a bound of now."""
    now = datetime.now(UTC) - timedelta(seconds=5)
    shop.sql(
        *(
            f"insert into orders (at, name) values ('{now + timedelta(milliseconds=n):%Y-%m-%d %H:%M:%S.%f}', 'n{n}')"
            for n in range(rows)
        )
    )


@pytest.fixture
def workspace(tmp_path: Path, shop: SqliteShop, spark) -> Workspace:
    """Both streams are loaded once, and more rows have come."""
    made = Workspace(folder=tmp_path)
    made.write(STREAMS, connections={"shop": {"url": shop.url}})
    assert run(made, spark) == [None, None]
    write(shop, MORE)
    return made


def run(workspace: Workspace, spark) -> list[str | None]:
    """What went wrong with each stream, by the clock that is right."""
    with workspace.project(spark) as project:
        return [each.error and each.error.code for each in project.run().streams]


def stepped(workspace: Workspace, clock: Clock, stage: Stage, seconds: int, *, others: bool = False) -> list[dict]:
    """A run in whose middle the clock jumps; what became of each stream."""
    clock.jump(0)
    here = workspace.file.read_text()
    workspace.file.write_text(here + yaml.safe_dump({"spark": SPARK}))
    what = [str(workspace.folder), stage, str(seconds), str(clock.file), "yes" if others else "no"]
    done = subprocess.run(
        [sys.executable, str(CRASH / "stepping.py"), *what],
        env={**environment(), **clock.environment},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    workspace.file.write_text(here)  # this process has a Spark already
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    assert [round(each / 60) for each in found["jumped"]] == [round(seconds / 60)]
    return found["outcomes"]


def shown(workspace: Workspace, stream: str) -> list[tuple]:
    return sorted((row["id"], row["name"]) for row in workspace.rows(f"shop.{stream}"))


def exact(workspace: Workspace, shop: SqliteShop) -> None:
    for stream in STREAMS:
        assert shown(workspace, stream) == shop.rows("select id, name from orders order by id"), stream


@pytest.mark.parametrize("seconds", [pytest.param(-HOUR, id="an hour back"), pytest.param(24 * HOUR, id="a day ahead")])
def test_a_clock_that_jumps_in_the_middle_of_a_load(workspace, shop, machine_clock, spark, seconds):
    """An Iceberg table takes no commit with a time before its last one, so there a day ahead lasts a day."""
    before = {stream: shown(workspace, stream) for stream in STREAMS}
    refused = []
    for each in stepped(workspace, machine_clock, Stage.WRITE, seconds):
        if each["error"]:
            assert each["error"] in ("write", "history_gone"), each
            assert "clock" in each["message"], each
            assert shown(workspace, each["stream"]) == before[each["stream"]]
            refused += [each["stream"]] if each["error"] == "history_gone" else []
    assert {None, *run(workspace, spark)} == {None, *("history_gone" for _ in refused)}
    with workspace.project(spark) as project:
        assert all(stream.error is None for each in refused for stream in project.resync(each, replace=True).streams)
    exact(workspace, shop)
    write(shop, FEW)
    behind = run(workspace, spark)
    if any(behind):
        assert (behind, seconds) == (["write", "write"], 24 * HOUR)
        assert not any(each["error"] for each in stepped(workspace, machine_clock, Stage.DETECT, 25 * HOUR))
    exact(workspace, shop)


def test_a_lease_that_a_jump_has_ended_lets_nobody_load_twice(workspace, shop, machine_clock, spark):
    """For the other runner, a day later by the same clock, the lease of the first has run out."""
    found = stepped(workspace, machine_clock, Stage.WRITE, 24 * HOUR, others=True)
    assert len(found) == 2 * len(STREAMS)
    assert {each["error"] for each in found} <= {None, "lease_held", "lease_lost", "position_moved"}, found
    assert {each["stream"] for each in found if each["outcome"] == "loaded"} == set(STREAMS)
    exact(workspace, shop)
