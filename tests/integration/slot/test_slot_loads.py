"""A replication slot loaded into tables of both formats by Spark, and read back by PyIceberg and delta-rs."""

import json
from dataclasses import dataclass

import psycopg
import pytest

from support.lake import delta_rows
from support.workspace import Workspace
from tidegate.core.outcome import Outcome, Result

pytestmark = [pytest.mark.postgres, pytest.mark.spark]

SLOT = "tidegate_orders"
ORDERS = """
create table orders (
  id bigint primary key, name varchar(40), amount numeric(12, 3), exact numeric, price real, ratio double precision,
  ok boolean, day date, at time, seen timestamp, changed timestamptz, raw bytea, code char(8), ref uuid, doc jsonb,
  tags text[], sizes int[], flags bool[], host inet, big text
)
"""
ROW = """
insert into orders select i, 'n' || i, i / 7.0, i / 3.0, i / 3.0, 1 / i::float8, i % 2 = 0, date '2024-02-28' + i,
  time '23:59:59.5' - i * interval '1 second', timestamp '1999-12-31 23:59:59.000001' + i * interval '1 hour',
  timestamptz '2024-03-31 00:30:00+00' + i * interval '15 minutes', decode(lpad(to_hex(i), 4, '0'), 'hex'), 'c' || i,
  md5(i::text)::uuid, jsonb_build_object('i', i, 'é', 'ü'), array['a', null, 'x,"y', i::text], array[i, null, -i],
  array[i % 2 = 0, null], ('10.0.0.' || i % 250)::inet,
  case when i % 10 = 0 then (select string_agg(md5(i::text || k), '') from generate_series(1, 300) k) end
from generate_series({0}, {1}) i
"""


@dataclass(kw_only=True)
class Loaded:
    """A shop, and the table that its slot is loaded into."""

    workspace: Workspace
    session: psycopg.Connection
    spark: object
    format: str

    def sql(self, *statements: str) -> None:
        for statement in statements:
            self.session.execute(statement)

    def run(self, **options) -> Outcome:
        return self.workspace.run("orders", spark=self.spark, **options).streams[0]

    def loads(self) -> Outcome:
        outcome = self.run()
        assert (outcome.error, outcome.outcome, outcome.verified) == (None, Result.LOADED, True)
        return outcome

    def proves(self) -> None:
        """The table is the source's, row by row, by whoever reads it."""
        with self.workspace.project(self.spark) as project:
            (found,) = project.verify("orders", level="rows").streams
        assert (found.error, found.equal, found.rows_different) == (None, True, 0)
        mine = {row["id"]: row["big"] for row in self.rows()}
        assert mine == dict(self.session.execute("select id, big from orders").fetchall())

    def rows(self) -> list[dict]:
        if self.format == "delta":
            return delta_rows(str(self.workspace.folder / "warehouse" / "shop" / "orders"))
        return self.workspace.rows("shop.orders")

    def confirmed(self) -> str:
        asked = "select confirmed_flush_lsn::text from pg_replication_slots where slot_name = %s"
        return self.session.execute(asked, (SLOT,)).fetchone()[0]


@pytest.fixture(params=["iceberg", "delta"])
def loaded(request, pg_url, tmp_path, spark):
    """Slots go with their database."""
    workspace = Workspace(folder=tmp_path)
    stream = {
        "source": {"connection": "shop", "slot": SLOT, "table": "public.orders"},
        "target": "lake.shop.orders",
        "key": ["id"],
        "strategy": "cdc",
        "write": "merge",
    }
    lakes = {"lakes": {"lake": {"format": "delta"}}} if request.param == "delta" else {}
    workspace.write({"orders": stream}, connections={"shop": {"url": pg_url}}, **lakes)
    with psycopg.connect(pg_url, autocommit=True) as session:
        session.execute("set synchronous_commit = on")
        session.execute(ORDERS)
        yield Loaded(workspace=workspace, session=session, spark=spark, format=request.param)


def test_the_table_then_its_log(loaded):
    loaded.sql(ROW.format(1, 100))
    first = loaded.loads()
    assert first.meaning == "all"
    loaded.proves()
    assert loaded.run().outcome is Result.UNCHANGED
    loaded.sql(
        ROW.format(101, 130),
        "update orders set name = 'changed', changed = now() where id <= 20",  # what is stored apart stays as it is
        "update orders set amount = null, tags = '{}', raw = '', day = 'epoch' where id between 30 and 35",
        "delete from orders where id between 40 and 45",
        "update orders set id = 1000 where id = 51",
        "begin; delete from orders where id = 60; insert into orders (id, name) values (60, 'again'); commit",
        "begin; insert into orders (id) values (2000); delete from orders where id = 2000; commit",
    )
    second = loaded.loads()
    assert second.meaning == "changelog"
    assert loaded.confirmed() == second.position["state"]["lsn"]
    loaded.proves()
    loaded.sql("truncate orders", ROW.format(7, 9))
    loaded.loads()
    loaded.proves()
    assert loaded.run().outcome is Result.UNCHANGED
    assert not list((loaded.workspace.folder / ".tidegate" / "spool" / SLOT).iterdir())
    assert json.dumps(second.to_dict())
