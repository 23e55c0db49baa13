"""What a load that its check refuses leaves of the table: nothing where none was, and what was there as it was."""

from pathlib import Path

import pytest
from deltalake import DeltaTable

from support.workspace import SqliteShop, Workspace

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def shop(tmp_path: Path) -> SqliteShop:
    found = SqliteShop(path=tmp_path / "shop.db")
    found.sql("create table items (id integer primary key, price int)", "insert into items values (1, 10), (2, -5)")
    return found


def write(workspace: Workspace, shop: SqliteShop, lake: str, strategy: str) -> None:
    items = {
        "source": {"connection": "shop", "table": "items"},
        "target": "lake.shop.items",
        "key": ["id"],
        "strategy": strategy,
        "write": "merge",
        "checks": [{"expression": "price >= 0"}],
    }
    workspace.write({"items": items}, connections={"shop": {"url": shop.url}}, lakes={"lake": {"format": lake}})


def metadata(workspace: Workspace, lake: str) -> object:
    """All that a table says of itself, as PyIceberg or delta-rs reads it."""
    if lake == "delta":
        table = DeltaTable(str(workspace.folder / "warehouse" / "shop" / "items"))
        return table.version(), table.schema().to_json(), table.metadata().configuration
    found = workspace.table("shop.items").metadata
    return found.current_snapshot_id, found.current_schema_id, found.properties, found.refs


def ends(workspace: Workspace, spark) -> str | None:
    (outcome,) = workspace.run("items", spark=spark).streams
    return outcome.error.code if outcome.error else None


@pytest.mark.parametrize("lake", ["iceberg", "delta"])
def test_a_refused_load_leaves_no_table_and_no_column(tmp_path: Path, shop: SqliteShop, spark, lake: str) -> None:
    workspace = Workspace(folder=tmp_path)
    write(workspace, shop, lake, "full")
    assert ends(workspace, spark) == "check_failed"
    assert not (tmp_path / "warehouse" / "shop").exists()

    shop.sql("update items set price = 5 where id = 2")
    assert ends(workspace, spark) is None
    before = metadata(workspace, lake)
    shop.sql("alter table items add column colour text", "insert into items values (3, -1, 'red')")
    assert ends(workspace, spark) == "check_failed"
    assert metadata(workspace, lake) == before

    shop.sql("update items set price = 1 where id = 3")
    assert ends(workspace, spark) is None
    assert metadata(workspace, lake) != before
