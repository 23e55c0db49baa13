"""What a position claims of the table's rows is gone once something else than a load of the stream has changed them."""

from __future__ import annotations

import pytest

from tidegate.core.outcome import Result

pytestmark = [pytest.mark.spark]

TABLE = "create table items (id integer primary key, value text, changed_at timestamp not null)"
THIRD = "insert into items values (3, 'c', '2025-01-10 11:00:00')"


@pytest.fixture
def engine() -> str:
    return "sqlite"


@pytest.fixture
def items(workspace, shop, spark):
    """Runs the stream and tells its rows; PyIceberg reads the table, the database its own rows."""
    shop.sql(TABLE, "insert into items values (1, 'a', '2025-01-10 10:00:00'), (2, 'b', '2025-01-10 10:00:01')")
    return Items(workspace, shop, spark)


class Items:
    def __init__(self, workspace, shop, spark):
        self.workspace, self.shop, self.spark = workspace, shop, spark

    def write(self, strategy, **options) -> None:
        stream = {
            "source": {"connection": "shop", "table": "items"},
            "target": "lake.shop.items",
            "key": ["id"],
            "strategy": strategy,
            "write": "merge",
            **options,
        }
        self.workspace.write({"items": stream}, connections={"shop": {"url": self.shop.url}})

    def run(self, *statements):
        self.shop.sql(*statements)
        (outcome,) = self.workspace.run("items", spark=self.spark).streams
        assert outcome.error is None, outcome.error
        return outcome

    def equal(self) -> bool:
        there = sorted(self.shop.rows("select id, value from items"))
        return sorted((row["id"], row["value"]) for row in self.workspace.rows("shop.items")) == there


COLUMN = {"kind": "watermark", "column": "changed_at"}
STRATEGIES = {
    "snapshot_diff": "snapshot_diff",
    "smart": {"kind": "smart", "column": "changed_at", "full_every": "1ms"},
    "lookback": {**COLUMN, "lookback": "2h"},
    "lookbacks": {**COLUMN, "lookback": ["0s", "2d"]},
}


@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
def test_rows_that_went_back_with_the_position_are_found(items, strategy):
    """A row changes without a word and back again; the table has seen the one, and the position knows the other."""
    items.write(strategy)
    items.run()
    items.run("update items set value = 'wrong' where id = 1", THIRD)
    assert items.equal()
    items.shop.sql("update items set value = 'a' where id = 1", "delete from items where id = 3")
    with items.workspace.project(items.spark) as project:
        project.state.rewind("items", 1)
    items.run()
    if "lookback" in str(strategy):  # no cursor tells that a row went
        items.shop.sql(THIRD)
    assert items.equal()


def test_a_key_that_a_repair_brought_is_missed_when_it_goes(items):
    items.write(COLUMN, deletes={"detect": "key_diff"})
    items.run()
    items.shop.sql("insert into items values (3, 'late', '2025-01-09 00:00:00')")
    assert items.run().outcome is Result.UNCHANGED, "it is older than the position"
    with items.workspace.project(items.spark) as project:
        assert project.verify("items", repair=True).streams[0].equal
    assert items.equal()
    items.run("delete from items where id = 3")
    assert items.equal()


def test_a_key_that_a_later_load_brought_is_missed_when_the_position_goes_back(items):
    items.write(COLUMN, deletes={"detect": "key_diff"})
    items.run()
    items.run(THIRD)
    items.shop.sql("delete from items where id = 3")
    with items.workspace.project(items.spark) as project:
        project.state.rewind("items", 1)
    items.run()
    assert items.equal()
