"""A dimension from end to end: every version of its rows, whatever happens to the runs, on both formats."""

from datetime import datetime

import pytest

from support.lake import QUICK, delta_rows
from support.workspace import SqliteShop, Workspace
from tidegate.core.outcome import Result
from tidegate.engine.events import Moment, Stage
from tidegate.testing import Crash, crash_at

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600), pytest.mark.slow]

CUSTOMERS = {
    "source": {"connection": "shop", "table": "customers"},
    "target": "lake.shop.customers",
    "key": ["id"],
    "strategy": {"kind": "watermark", "column": "updated_at"},
    "write": "scd2",
}


@pytest.fixture
def shop(tmp_path) -> SqliteShop:
    shop = SqliteShop(path=tmp_path / "shop.db")
    shop.sql(
        "create table customers (id integer primary key, city text, updated_at timestamp)",
        "insert into customers values (1, 'Bern', '2025-01-01 00:00:00'), (2, 'Genf', '2025-01-01 00:00:00'), "
        "(3, 'Chur', '2025-01-02 00:00:00')",
    )
    return shop


@pytest.fixture
def workspace(request, tmp_path, shop) -> Workspace:
    workspace = Workspace(folder=tmp_path)
    write(workspace, shop, CUSTOMERS, getattr(request, "param", "iceberg"))
    return workspace


on_both = pytest.mark.parametrize("workspace", ["iceberg", "delta"], indirect=True)


def write(workspace: Workspace, shop: SqliteShop, stream: dict, lake: str) -> None:
    workspace.write(
        {"customers": stream},
        connections={"shop": {"url": shop.url}},
        lakes={"lake": {"format": lake}},
        spark={"conf": QUICK},
    )


def lake(workspace: Workspace) -> str:
    return "delta" if "format: delta" in workspace.file.read_text() else "iceberg"


def rows(workspace: Workspace) -> list[dict]:
    if lake(workspace) == "delta":
        return delta_rows(str(workspace.folder / "warehouse" / "shop" / "customers"))
    return workspace.rows("shop.customers")


def versions(workspace: Workspace) -> list[tuple]:
    found = [
        (row["id"], row["city"], told(row["valid_from"]), told(row["valid_to"]), row["is_current"])
        for row in rows(workspace)
    ]
    return sorted(found, key=lambda row: (row[0], row[2]))


def told(value: datetime | None) -> str | None:
    return None if value is None else value.strftime("%m-%d")


def run(workspace: Workspace, spark, **options):
    outcome = workspace.run(spark=spark, **options).streams[0]
    assert outcome.error is None, outcome.error
    return outcome


@on_both
def test_a_dimension_through_its_life(workspace, shop, spark):
    assert run(workspace, spark).verified is True
    assert [row[-1] for row in versions(workspace)] == [True] * 3
    assert run(workspace, spark).outcome is Result.UNCHANGED

    shop.sql("update customers set city = 'Basel', updated_at = '2025-02-01 00:00:00' where id = 1")
    with pytest.raises(Crash):
        workspace.run(spark=spark, on_event=crash_at((Stage.VERIFY, Moment.START)))
    workspace.forget_registry()
    run(workspace, spark)
    moved = [
        (1, "Bern", "01-01", "02-01", False),
        (1, "Basel", "02-01", None, True),
        (2, "Genf", "01-01", None, True),
        (3, "Chur", "01-02", None, True),
    ]
    assert versions(workspace) == moved
    assert run(workspace, spark).outcome is Result.UNCHANGED

    with workspace.project(spark) as project:
        assert project.verify(level="rows").streams[0].equal is True
    # Changed without a word: a comparison finds it, and a repair dates it by itself.
    shop.sql("update customers set city = 'Zug' where id = 2")
    with workspace.project(spark) as project:
        assert project.verify(level="rows").streams[0].equal is False
        assert project.verify(repair=True).streams[0].error is None
        assert project.verify(level="rows").streams[0].equal is True
    assert [row[1:] for row in versions(workspace) if row[0] == 2][1][0] == "Zug"
    assert len(versions(workspace)) == 5


def test_other_options_are_refused_until_the_table_is_loaded_anew(workspace, shop, spark):
    run(workspace, spark)
    before = rows(workspace)
    write(workspace, shop, {**CUSTOMERS, "write": {"kind": "scd2", "track_history": ["city"]}}, lake(workspace))
    shop.sql("update customers set city = 'Basel', updated_at = '2025-02-01 00:00:00' where id = 1")
    refused = workspace.run(spark=spark).streams[0]
    assert refused.error is not None
    assert refused.error.exit_code == 4
    assert "--full-refresh" in refused.error.hint
    write(workspace, shop, {**CUSTOMERS, "write": "merge"}, lake(workspace))
    assert "another writer" in workspace.run(spark=spark).streams[0].error.message
    assert rows(workspace) == before
    write(workspace, shop, {**CUSTOMERS, "write": {"kind": "scd2", "track_history": ["city"]}}, lake(workspace))
    run(workspace, spark, full_refresh=True)
    assert [row[1] for row in versions(workspace)] == ["Basel", "Genf", "Chur"]
    shop.sql("update customers set updated_at = '2025-03-01 00:00:00' where id = 1")
    run(workspace, spark)
    assert len(versions(workspace)) == 3, "what is not tracked is updated in place"


def test_a_full_load_closes_what_is_gone_and_new_columns_make_versions(workspace, shop, spark):
    write(workspace, shop, {**CUSTOMERS, "strategy": "full"}, lake(workspace))
    run(workspace, spark)
    shop.sql("delete from customers where id = 3", "update customers set city = 'Basel' where id = 1")
    outcome = run(workspace, spark)
    assert outcome.verified is True
    current = {(row["id"], row["city"]) for row in rows(workspace) if row["is_current"]}
    assert current == {(1, "Basel"), (2, "Genf")}
    assert len(rows(workspace)) == 4
    shop.sql("alter table customers add column phone text", "update customers set phone = '1' where id = 2")
    run(workspace, spark)
    assert [row["phone"] for row in rows(workspace) if row["id"] == 2 and row["is_current"]] == ["1"]
    with workspace.project(spark) as project:
        assert project.verify(level="rows").streams[0].equal is True
