"""A load on Delta that was seen and never verified: what the next run may go on from, and what it must not."""

from __future__ import annotations

import pytest

from support.lake import QUICK, delta_rows
from support.workspace import SqliteShop, Workspace
from tidegate.engine.events import Moment, Stage
from tidegate.testing import Crash, crash_at

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600), pytest.mark.slow]
INSERT = "insert into t values ({0}, '2025-01-{0:02} 00:00:00', 'row {0}')"


@pytest.fixture(params=["merge", "scd2"])
def interrupted(request, tmp_path, spark):
    """Six rows were loaded; two more are in the table, and the load ended before it was verified."""
    shop, workspace = SqliteShop(path=tmp_path / "shop.db"), Workspace(folder=tmp_path)
    shop.sql("create table t (id integer primary key not null, at timestamp not null, name text)")
    shop.sql(*map(INSERT.format, range(1, 7)))
    stream = {
        "source": {"connection": "shop", "table": "t"},
        "target": "lake.out.t",
        "key": ["id"],
        "strategy": {"kind": "watermark", "column": "at", "lookback": "4d"},
        "write": request.param,
    }
    lakes = {"lake": {"format": "delta"}}
    workspace.write({"t": stream}, connections={"shop": {"url": shop.url}}, lakes=lakes, spark={"conf": QUICK})
    assert outcome(workspace, spark) == "verified"
    shop.sql(INSERT.format(7), INSERT.format(8), "update t set name = 'late', at = '2025-01-06 12:00:00' where id = 6")
    with pytest.raises(Crash):
        workspace.run("t", spark=spark, on_event=crash_at((Stage.WRITE, Moment.DONE)))
    assert current(workspace) == {**{n: f"row {n}" for n in range(1, 9)}, 6: "late"}
    return workspace, shop


def current(workspace: Workspace) -> dict[int, str]:
    rows = delta_rows(str(workspace.folder / "warehouse" / "out" / "t"))
    return {row["id"]: row["name"] for row in rows if row.get("valid_to") is None}


def outcome(workspace: Workspace, spark) -> str:
    """The code of the error; `verified` without one."""
    (found,) = workspace.run("t", spark=spark).streams
    return found.error.code if found.error else "verified" if found.verified else "not verified"


def tamper(workspace: Workspace, spark, statement: str) -> None:
    with workspace.project(spark) as project:
        session = project.sessions.load_session()
        session.sql(statement.format(f"delta.`{workspace.folder / 'warehouse' / 'out' / 't'}`"))


def test_rows_that_the_source_has_lost_do_not_stop_a_stream_that_looks_for_no_deletes(interrupted, spark):
    workspace, shop = interrupted
    shop.sql("delete from t where id in (2, 5)", INSERT.format(9))
    assert outcome(workspace, spark) == "verified"
    assert current(workspace) == {**{n: f"row {n}" for n in range(1, 10)}, 6: "late"}


@pytest.mark.parametrize(
    "wrong",
    [
        "delete from {} where id = 7",
        "delete from {} where id = 3",
        "update {} set name = 'wrong' where id = 6 and name = 'late'",
        "update {} set id = 77 where id = 7",
        "insert into {0} select 99, * except (id) from {0} where id = 7",
    ],
)
def test_wrong_rows_of_the_load_stop_it_also_where_the_source_has_lost_some(interrupted, spark, wrong):
    workspace, shop = interrupted
    shop.sql("delete from t where id in (2, 5)")
    tamper(workspace, spark, wrong)
    assert outcome(workspace, spark) == "verify_failed"


@pytest.mark.parametrize("options", [{}, pytest.param({"column": "at"}, marks=pytest.mark.exhaustive)])
def test_a_strategy_that_can_compare_every_row_settles_it_where_the_source_has_gone_on(tmp_path, spark, options):
    """Rows of the load, and older ones, are changed and deleted in a way that no column shows."""
    shop, workspace = SqliteShop(path=tmp_path / "shop.db"), Workspace(folder=tmp_path)
    shop.sql("create table t (id integer primary key not null, at timestamp not null, name text)")
    shop.sql(*map(INSERT.format, range(1, 7)))
    stream = {
        "source": {"connection": "shop", "table": "t"},
        "target": "lake.out.t",
        "key": ["id"],
        "strategy": {"kind": "smart", **options},
        "write": "merge",
    }
    lakes = {"lake": {"format": "delta"}}
    workspace.write({"t": stream}, connections={"shop": {"url": shop.url}}, lakes=lakes, spark={"conf": QUICK})
    assert outcome(workspace, spark) == "verified"
    shop.sql(INSERT.format(7))
    with pytest.raises(Crash):
        workspace.run("t", spark=spark, on_event=crash_at((Stage.WRITE, Moment.DONE)))
    shop.sql("update t set name = 'changed' where id in (2, 7)", "delete from t where id = 3")
    assert outcome(workspace, spark) == "verified"
    assert current(workspace) == {1: "row 1", 2: "changed", 4: "row 4", 5: "row 5", 6: "row 6", 7: "changed"}
    shop.sql(INSERT.format(8))
    assert outcome(workspace, spark) == "verified"
