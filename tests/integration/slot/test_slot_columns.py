"""Tables and publications that change between two loads of a slot: every row arrives, or the stream stops."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
import pytest

from integration.slot.conftest import SlotShop
from support.lake import QUICK
from support.workspace import Workspace
from tidegate.core.outcome import Outcome, Result
from tidegate.errors import HistoryGone

pytestmark = pytest.mark.postgres

SLOT = "tidegate_orders"
PLAIN = ("create table orders (id bigint primary key, v text, w text)",)
PARTITIONED = (
    "create table orders (id bigint primary key, v text, w text) partition by range (id)",
    "create table orders_1 partition of orders for values from (0) to (100)",
)
FILLED = "insert into orders select i, 'v' || i, 'w' || i from generate_series(1, 5) i"
PUBLISHED = f"alter publication {SLOT} set"
INSERTED = "insert into orders values (6, 'six', 'sechs')"
CHANGED = "update orders set v = 'changed' where id = 1"
DELETED = "delete from orders where id = 2"


def followed(shop: SlotShop, *made: str) -> dict:
    """The position after the first load."""
    shop.sql(*made, FILLED)
    shop.claim()
    return shop.after(None).state


@pytest.mark.parametrize(
    ("touched", "changes"),
    [
        ("1 2 6", [INSERTED, CHANGED, DELETED, "alter table orders rename v to vv"]),
        ("1 6", ["alter table orders rename v to t", INSERTED, "update orders set t = 'changed' where id = 1",
                 "alter table orders rename t to v"]),
        ("1 6", ["alter table orders rename v to t", "alter table orders rename w to v",
                 "alter table orders rename t to w", INSERTED, CHANGED, "alter table orders rename v to t",
                 "alter table orders rename w to v", "alter table orders rename t to w"]),
        ("1 2 6", [INSERTED, "alter table orders add x text", "update orders set x = 'x' where id = 1", DELETED,
                   "alter table orders rename w to ww"]),
        ("1 2 6", [INSERTED, "alter table orders drop v", "update orders set w = 'later' where id = 1", DELETED]),
        ("1 6", [INSERTED, "alter table orders drop v", "alter table orders add x int",
                 "update orders set x = 7 where id = 1"]),
        ("1 3 6", ["alter table orders rename to other", "insert into other values (6, 'six', 'sechs')",
                   "delete from other where id = 1", "alter table other rename to orders", CHANGED.replace("1", "3")]),
        ("1 6", ["create schema attic", "alter table orders set schema attic", "delete from attic.orders where id = 1",
                 "alter table attic.orders set schema public", INSERTED]),
    ],
    ids=["renamed", "renamed for a while", "exchanged for a while", "added and renamed", "dropped", "replaced",
         "table renamed for a while", "table moved for a while"],
)  # fmt: skip
def test_every_row_is_told_in_the_columns_that_the_table_has_now(shop: SlotShop, touched: str, changes: list[str]):
    state = followed(shop, *PLAIN)
    shop.sql(*changes)
    _, events = shop.read(state)
    found: dict[str, tuple | None] = {}
    for event in sorted(events, key=lambda event: event.order):
        found[event.values[0]] = None if event.deleted else tuple(event.values)
    there = shop.session.execute("select * from orders").fetchall()
    expected = {str(row[0]): tuple(None if value is None else str(value) for value in row) for row in there}
    assert found == {key: expected.get(key) for key in touched.split()}


@pytest.mark.parametrize(
    "changes",
    [
        ["alter table orders add v2 text", "alter table orders drop v", "alter table orders rename v2 to v"],
        ["alter table orders drop v", "alter table orders add v text default 'new'"],
        ["alter table orders rename v to t", "alter table orders rename w to v", "alter table orders rename t to w"],
    ],
    ids=["online", "dropped and added", "exchanged"],
)
@pytest.mark.parametrize("changed", [[], [INSERTED]], ids=["without events", "with events"])
def test_a_column_that_took_the_name_of_another_one_stops_it(shop: SlotShop, changes, changed):
    """Rows that no event brings have other values now."""
    state = followed(shop, *PLAIN)
    shop.sql(*changed, *changes)
    with pytest.raises(HistoryGone):
        shop.read(state)


@pytest.mark.parametrize("made", [PLAIN, PARTITIONED], ids=["table", "partitioned"])
@pytest.mark.parametrize(
    ("option", "back"),
    [
        ("publish = 'insert'", "publish = 'insert, update, delete, truncate'"),
        ("publish_via_partition_root = false", "publish_via_partition_root = true"),
    ],
)
def test_a_publication_that_had_other_options_for_a_while_stops_it(shop: SlotShop, made, option, back):
    state = followed(shop, *made)
    shop.sql(f"{PUBLISHED} ({option})", DELETED, CHANGED, f"{PUBLISHED} ({back})", INSERTED)
    with pytest.raises(HistoryGone):
        shop.read(state)


@dataclass(kw_only=True)
class Loaded:
    """A table and its slot, loaded once."""

    workspace: Workspace
    session: psycopg.Connection
    spark: object

    def sql(self, *statements: str) -> None:
        for statement in statements:
            self.session.execute(statement)

    def project(self, table: str = "public.orders", **more: object) -> None:
        stream = {
            "source": {"connection": "shop", "slot": SLOT, "table": table},
            "target": "lake.shop.orders",
            "key": ["id"],
            "strategy": "cdc",
            "write": "merge",
            "contract": {"rename": "evolve"},
            **more,
        }
        url = f"postgresql://postgres@{self.session.info.host}:{self.session.info.port}/{self.session.info.dbname}"
        self.workspace.write({"orders": stream}, connections={"shop": {"url": url}}, spark={"conf": QUICK})

    def run(self) -> Outcome:
        return self.workspace.run("orders", spark=self.spark).streams[0]

    def loads(self) -> None:
        outcome = self.run()
        assert (outcome.error, outcome.outcome, outcome.verified) == (None, Result.LOADED, True)

    def is_equal(self, table: str = "orders") -> None:
        cursor = self.session.execute(f"select * from {table}")
        names = [column.name for column in cursor.description]
        expected = {row[0]: row for row in cursor.fetchall()}
        assert {row["id"]: tuple(row[name] for name in names) for row in self.workspace.rows("shop.orders")} == expected


@pytest.fixture
def loaded(pg_url, tmp_path, spark) -> Iterator[Loaded]:
    with psycopg.connect(pg_url, autocommit=True) as session:
        session.execute("set synchronous_commit = on")
        made = Loaded(workspace=Workspace(folder=tmp_path), session=session, spark=spark)
        made.sql(*PLAIN, FILLED)
        yield made


LONG = "(select string_agg(md5(i::text), '') from generate_series(1, 500) i)"
"""A value that is stored beside its row, so that an update of another column does not carry it."""


@pytest.mark.spark
def test_a_value_that_no_event_carries_keeps_its_place_under_another_name(loaded: Loaded):
    """Also after a load that failed; then the table has another name, and a type that leads to a resync."""
    loaded.project()
    loaded.loads()
    loaded.sql(f"update orders set v = {LONG} where id = 1")
    loaded.loads()
    loaded.sql("alter table orders rename v to vv", "update orders set w = 'later' where id = 1")
    loaded.project(checks=[{"row_count": {"min": 1000}}])
    assert loaded.run().error.code == "check_failed"
    loaded.project()
    loaded.loads()
    loaded.sql("alter table orders rename to orders_2", "delete from orders_2 where id = 2")
    assert loaded.run().error.code == "column_missing"
    loaded.project("public.orders_2")
    loaded.loads()
    loaded.is_equal("orders_2")
    loaded.sql("alter table orders_2 alter w type int using 7", "insert into orders_2 values (6, 'six', 6)")
    found = loaded.run()
    assert found.error.code == "schema_refused"
    assert "`tidegate resync orders --replace --yes`" in found.error.hint
    with loaded.workspace.project(loaded.spark) as project:
        assert project.resync("orders", replace=True).exit_code == 0
    loaded.is_equal("orders_2")


@pytest.mark.spark
def test_past_versions_keep_their_values_under_another_name(loaded: Loaded):
    loaded.sql("alter table orders replica identity full")
    loaded.project(write="scd2")
    loaded.loads()
    loaded.sql("update orders set v = 'second' where id = 1")
    loaded.loads()
    loaded.sql("alter table orders rename v to vv", "update orders set w = 'later' where id = 1")
    loaded.loads()
    versions = [row for row in loaded.workspace.rows("shop.orders") if row["id"] == 1]
    versions.sort(key=lambda row: row["valid_from"])
    assert [(row["vv"], row["w"]) for row in versions] == [("v1", "w1"), ("second", "w1"), ("second", "later")]


@pytest.mark.spark
def test_a_key_that_changed_has_the_value_of_now_in_a_table_and_none_in_a_history(loaded: Loaded):
    """What the log does not carry is looked up, and may be of a later change: no version shows that."""
    loaded.sql(f"update orders set v = {LONG} where id < 3")
    loaded.project()
    loaded.loads()
    loaded.sql(
        "update orders set id = 101 where id = 1",
        "update orders set v = 'later' where id = 101",
        "update orders set id = 102 where id = 2",
        "update orders set id = 103 where id = 3",
        "delete from orders where id = 103",
    )
    loaded.loads()
    loaded.is_equal()
    loaded.project(write="scd2", target="lake.shop.history")
    history = loaded.workspace
    with history.project(loaded.spark) as project:
        assert project.run("orders", full_refresh=True).exit_code == 0
    loaded.sql("update orders set id = 202 where id = 102", "update orders set v = 'later' where id = 202")
    refused = loaded.run()
    assert (refused.error.code, "without every column" in refused.error.message) == ("check_failed", True)
    assert sorted(row["id"] for row in history.rows("shop.history")) == [4, 5, 101, 102]
