"""A backfill is killed at random while its stream goes on loading: in the end the table is the source."""

from __future__ import annotations

import random
import signal
from pathlib import Path

import pytest

from support.kills import backfilling
from support.workspace import SqliteShop, Workspace
from tidegate.core.backfill import Progress
from tidegate.engine.backfill.backfill import Request

pytestmark = pytest.mark.slow

ROWS, KILLS = 240, 2
SEED = 20250131


@pytest.mark.spark
@pytest.mark.timeout(1800)
def test_a_backfill_is_killed_while_loads_go_on(tmp_path: Path, spark) -> None:
    chance = random.Random(SEED)
    shop = SqliteShop(path=tmp_path / "shop.db")
    shop.sql("create table t (id integer primary key, name text, at timestamp)")
    values = ", ".join(f"({n}, 'n', '2025-01-01 00:{n // 60:02}:{n % 60:02}.000000')" for n in range(ROWS))
    shop.sql(f"insert into t values {values}")
    workspace = Workspace(folder=tmp_path)
    stream = {"source": {"connection": "shop", "table": "t"}, "target": "lake.out.t", "key": ["id"], "write": "merge"}
    strategy = {"kind": "watermark", "column": "at"}
    workspace.write({"t": {**stream, "strategy": strategy}}, connections={"shop": {"url": shop.url}})
    assert workspace.run("t", spark=spark).exit_code == 0
    shop.sql("update t set name = 'late'")  # nothing but a backfill brings that

    with workspace.project(spark) as project:
        request = Request(begin="2025-01-01 00:00:00", end="2025-01-01 00:03:59.000001", chunk=20)
        planned = project.backfills.start("t", request, on_progress=lambda _: project.backfills.pause("t"))
        assert len(planned.chunks) > 8
    for kill in range(KILLS):
        child = backfilling(workspace, "t", chance.uniform(0, 6))
        step = 0
        while child.poll() is None:
            step += 1
            moved = chance.randrange(ROWS)
            at = f"2025-02-{1 + kill:02} 00:{step // 60 % 60:02}:{step % 60:02}.000000"
            shop.sql(
                f"update t set name = 'live {kill}.{step}', at = '{at}' where id = {moved}",
                f"insert into t values ({1000 * (kill + 1) + step}, 'new', '{at}')",
            )
            outcome = workspace.run("t", spark=spark).streams[0]
            assert outcome.error is None, outcome.error
        assert child.returncode in (-signal.SIGKILL, 0), child.returncode

    with workspace.project(spark) as project:
        (left,) = project.backfills.list("t")
        done = left if left.status is Progress.DONE else project.backfills.resume("t")
        assert done.status is Progress.DONE
        assert project.run("t").exit_code == 0
        (proof,) = project.verify("t", level="rows").streams
        assert (proof.equal, proof.rows_different) == (True, 0)
    wanted = sorted((key, name) for key, name in shop.rows("select id, name from t"))
    assert sorted((row["id"], row["name"]) for row in workspace.rows("out.t")) == wanted
