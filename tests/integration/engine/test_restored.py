"""A source that was restored stays refused until everything was loaded, however far it is written afterwards."""

from __future__ import annotations

import shutil

import pytest

from support.lake import QUICK
from support.workspace import SqliteShop, Workspace
from tidegate.engine.backfill.backfill import Request
from tidegate.errors import HistoryGone

pytestmark = [pytest.mark.spark, pytest.mark.slow]
STREAM = {
    "source": {"connection": "shop", "table": "t"},
    "target": "lake.out.t",
    "key": ["id"],
    "strategy": {"kind": "watermark", "column": "at"},
    "write": "merge",
}
INSERT = "insert into t (at, name) values ('2025-01-{:02} 00:00:00', '{}')"


@pytest.mark.parametrize("looked", [True, False], ids=["a run between", "no run between"])
def test_restored_file_stays_refused_until_a_resync(tmp_path, spark, looked):
    shop, workspace = SqliteShop(path=tmp_path / "shop.db"), Workspace(folder=tmp_path)
    shop.sql("create table t (id integer primary key, at timestamp not null, name text)", INSERT.format(1, "first"))
    workspace.write({"t": STREAM}, connections={"shop": {"url": shop.url}}, spark={"conf": QUICK})

    def error(project) -> str:
        (outcome,) = project.run("t").streams
        assert outcome.error is not None
        return outcome.error.code

    with workspace.project(spark) as project:
        shutil.copyfile(tmp_path / "shop.db", tmp_path / "backup.db")
        shop.sql(INSERT.format(2, "lost"), INSERT.format(3, "lost"), "update t set name = 'lost', at = '2025-01-04'")
        assert project.run("t").streams[0].rows_read == 3
        shutil.copyfile(tmp_path / "backup.db", tmp_path / "shop.db")
        assert not looked or error(project) == "history_gone"
        for day in range(5, 25):
            shop.sql(INSERT.format(day, "new"))
        assert error(project) == "history_gone"
        (planned,) = project.plan("t").streams
        assert planned.error is not None
        assert "tidegate resync t" in planned.error.hint
        with pytest.raises(HistoryGone):
            project.backfills.start("t", Request(begin="2025-01-01", end="2025-01-02"))
        (outcome,) = project.resync("t", replace=True).streams
        assert outcome.error is None
        assert [(row["id"], row["name"]) for row in sorted(workspace.rows("out.t"), key=lambda row: row["id"])] == [
            (1, "first"),
            *((number, "new") for number in range(2, 22)),
        ]
        shop.sql(INSERT.format(25, "later"))
        assert project.run("t").streams[0].rows_read == 1
        assert project.verify("t", level="rows").streams[0].equal
