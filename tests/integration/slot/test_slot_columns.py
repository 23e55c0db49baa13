"""Tables and publications that change between two loads of a slot: every row arrives, or the stream stops.

The table is read by PyIceberg and compared with what psycopg finds at the source.
"""

from __future__ import annotations

from dataclasses import dataclass

import psycopg
import pytest

from support.lake import QUICK
from support.workspace import Workspace
from tidegate.core.outcome import Outcome, Result

pytestmark = [pytest.mark.postgres, pytest.mark.spark, pytest.mark.timeout(600), pytest.mark.slow]

SLOT = "tidegate_orders"
SECOND = {"connection": "shop", "slot": "tidegate_second", "table": "public.orders"}
PLAIN = "create table orders (id bigint primary key, v text, w text)"
PARTITIONED = (
    "create table orders (id bigint primary key, v text, w text) partition by range (id)",
    "create table orders_1 partition of orders for values from (0) to (100)",
)
PUBLISHED = f"alter publication {SLOT} set"
INSERTED = "insert into orders values (6, 'six', 'sechs')"
CHANGED = "update orders set v = 'changed' where id = 1"
DELETED = "delete from orders where id = 2"


@dataclass(kw_only=True)
class Shop:
    """A table and its slot, loaded once."""

    workspace: Workspace
    session: psycopg.Connection
    spark: object

    def sql(self, *statements: str) -> None:
        for statement in statements:
            self.session.execute(statement)

    def project(self, table: str = "public.orders", name: str = "orders", **more: object) -> None:
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
        self.workspace.write({name: stream}, connections={"shop": {"url": url}}, spark={"conf": QUICK})

    def run(self, name: str = "orders") -> Outcome:
        return self.workspace.run(name, spark=self.spark).streams[0]

    def is_equal(self, table: str = "orders", target: str = "shop.orders") -> None:
        cursor = self.session.execute(f"select * from {table}")
        names = [column.name for column in cursor.description]
        wanted = {row[0]: row for row in cursor.fetchall()}
        found = self.workspace.rows(target)
        assert {row["id"]: tuple(row[name] for name in names) for row in found} == wanted


@pytest.fixture
def shop(request, pg_url, tmp_path, spark):
    with psycopg.connect(pg_url, autocommit=True) as session:
        session.execute("set synchronous_commit = on")
        made = Shop(workspace=Workspace(folder=tmp_path), session=session, spark=spark)
        made.sql(*getattr(request, "param", [PLAIN]))
        made.sql("insert into orders select i, 'v' || i, 'w' || i from generate_series(1, 5) i")
        made.project()
        assert made.run().outcome == Result.LOADED
        yield made


@pytest.mark.parametrize(
    "changes",
    [
        [INSERTED, CHANGED, DELETED, "alter table orders rename v to vv"],
        ["alter table orders rename v to t", INSERTED, "update orders set t = 'changed' where id = 1",
         "alter table orders rename t to v"],
        ["alter table orders rename v to t", "alter table orders rename w to v", "alter table orders rename t to w",
         INSERTED, CHANGED, "alter table orders rename v to t", "alter table orders rename w to v",
         "alter table orders rename t to w"],
        [INSERTED, "alter table orders add x text", "update orders set x = 'x' where id = 1", DELETED,
         "alter table orders rename w to ww"],
        [INSERTED, "alter table orders drop v", "update orders set w = 'later' where id = 1", DELETED],
        [INSERTED, "alter table orders drop v", "alter table orders add x int", "update orders set x = 7 where id = 1"],
        ["alter table orders rename to other", "insert into other values (6, 'six', 'sechs')",
         "delete from other where id = 1", "alter table other rename to orders", CHANGED.replace("1", "3")],
        ["create schema attic", "alter table orders set schema attic", "delete from attic.orders where id = 1",
         "alter table attic.orders set schema public", INSERTED],
    ],
    ids=["renamed", "renamed for a while", "exchanged for a while", "added and renamed", "dropped", "replaced",
         "table renamed for a while", "table moved for a while"],
)  # fmt: skip
def test_every_row_arrives(shop, changes):
    shop.sql(*changes)
    found = shop.run()
    assert (found.error, found.outcome, found.verified) == (None, Result.LOADED, True)
    shop.is_equal()
    shop.sql("insert into orders (id) values (50)")
    assert shop.run().outcome == Result.LOADED
    shop.is_equal()


LONG = "(select string_agg(md5(i::text), '') from generate_series(1, 500) i)"
"""A value that is stored beside its row, so that an update of another column does not carry it."""


@pytest.mark.parametrize("checks", [[], [{"row_count": {"min": 1000}}]], ids=["at once", "after a load that failed"])
def test_a_value_that_no_event_carries_keeps_its_place_under_another_name(shop, checks):
    beside = {"name": "beside", "target": "lake.shop.beside", "source": SECOND}
    shop.project(**beside)
    assert shop.run("beside").outcome == Result.LOADED
    shop.sql(f"update orders set v = {LONG} where id = 1")
    assert shop.run("beside").outcome == Result.LOADED
    shop.sql("alter table orders rename v to vv", "update orders set w = 'later' where id = 1")
    if checks:
        shop.project(**beside, checks=checks)
        assert shop.run("beside").error.code == "check_failed"
    shop.project(**beside)
    found = shop.run("beside")
    assert (found.error, found.verified) == (None, True)
    shop.sql("delete from orders where id = 2")
    assert shop.run("beside").verified
    shop.is_equal(target="shop.beside")


def test_past_versions_keep_their_values_under_another_name(shop):
    shop.sql("alter table orders replica identity full")
    beside = {"name": "beside", "target": "lake.shop.beside", "source": SECOND, "write": "scd2"}
    shop.project(**beside)
    assert shop.run("beside").outcome == Result.LOADED
    shop.sql("update orders set v = 'second' where id = 1")
    assert shop.run("beside").outcome == Result.LOADED
    shop.sql("alter table orders rename v to vv", "update orders set w = 'later' where id = 1")
    found = shop.run("beside")
    assert (found.error, found.verified) == (None, True)
    versions = [row for row in shop.workspace.rows("shop.beside") if row["id"] == 1]
    versions.sort(key=lambda row: row["valid_from"])
    assert [(row["vv"], row["w"]) for row in versions] == [("v1", "w1"), ("second", "w1"), ("second", "later")]


def test_a_renamed_table_is_followed(shop):
    shop.sql(INSERTED, DELETED, "alter table orders rename to orders_2")
    assert shop.run().error.code == "column_missing"
    shop.project("public.orders_2")
    assert shop.run().outcome == Result.LOADED
    shop.is_equal("orders_2")


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
def test_a_column_that_took_the_name_of_another_one_stops_it(shop, changes, changed):
    """Rows that no event brings have other values now."""
    shop.sql(*changed, *changes)
    found = shop.run()
    assert (found.error.code, found.outcome) == ("history_gone", Result.STOPPED)
    assert "tidegate resync" in found.error.hint


@pytest.mark.parametrize("shop", [[PLAIN], PARTITIONED], indirect=True, ids=["table", "partitioned"])
@pytest.mark.parametrize(
    ("option", "back"),
    [
        ("publish = 'insert'", "publish = 'insert, update, delete, truncate'"),
        ("publish_via_partition_root = false", "publish_via_partition_root = true"),
    ],
)
def test_a_publication_that_had_other_options_for_a_while_stops_it(shop, option, back):
    shop.sql(f"{PUBLISHED} ({option})", DELETED, CHANGED, f"{PUBLISHED} ({back})", INSERTED)
    found = shop.run()
    assert (found.error.code, found.outcome) == ("history_gone", Result.STOPPED)


def test_a_key_that_nothing_enforces_is_refused(pg_url, tmp_path, spark):
    with psycopg.connect(pg_url, autocommit=True) as session:
        shop = Shop(workspace=Workspace(folder=tmp_path), session=session, spark=spark)
        shop.sql("create table orders (id bigint, v text)", "alter table orders replica identity full")
        shop.project()
        found = shop.run()
        assert (found.error.code, found.outcome) == ("config", Result.FAILED)
        assert "the log does not tell which one changed" in found.error.message
        shop.sql("alter table orders alter id set not null", "create unique index on orders (id)")
        assert shop.run().error is None


def test_a_changed_type_leads_on(shop):
    shop.sql("alter table orders alter w type int using 7", INSERTED.replace("'sechs'", "6"))
    found = shop.run()
    assert found.error.code == "schema_refused"
    assert "`tidegate resync orders --replace --yes`" in found.error.hint
    with shop.workspace.project(shop.spark) as project:
        assert project.resync("orders", replace=True).exit_code == 0
    shop.is_equal()
