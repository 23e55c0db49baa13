"""A replication slot loaded into tables of both formats by Spark, and read back by PyIceberg and delta-rs."""

import json
from dataclasses import dataclass

import psycopg
import pytest
import yaml

from integration.slot.conftest import write_ahead
from support.lake import QUICK, delta_rows
from support.workspace import Workspace
from tidegate.api import Project
from tidegate.core.outcome import Outcome, Result
from tidegate.engine.events import Moment, Stage
from tidegate.errors import SourceUnavailable
from tidegate.sources.change_log import spool
from tidegate.sources.change_log.slot import log, slot

pytestmark = [pytest.mark.postgres, pytest.mark.spark, pytest.mark.timeout(600)]

SLOT = "tidegate_orders"
NARROW = "create table orders (id bigint primary key, name text, day date, tags text[], big text)"
FEW = "insert into orders select i, 'n' || i, date '2024-02-28' + i, '{{}}', i::text from generate_series({0}, {1}) i"
WIDE = """
create table orders (
  id bigint primary key, name varchar(40), amount numeric(12, 3), exact numeric, price real, ratio double precision,
  ok boolean, day date, at time, seen timestamp, changed timestamptz, raw bytea, code char(8), ref uuid, doc jsonb,
  tags text[], sizes int[], flags bool[], host inet, big text
)
"""
MANY = """
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
    workspace.write({"orders": stream}, connections={"shop": {"url": pg_url}}, spark={"conf": QUICK}, **lakes)
    with psycopg.connect(pg_url, autocommit=True) as session:
        session.execute("set synchronous_commit = on")
        yield Loaded(workspace=workspace, session=session, spark=spark, format=request.param)


def test_the_table_then_its_log(loaded):
    """In every type; what is stored apart stays as it is where an event does not carry it."""
    loaded.sql(WIDE, MANY.format(1, 70))
    first = loaded.loads()
    assert first.effect == "mirror"
    loaded.proves()
    assert loaded.run().outcome is Result.UNCHANGED
    loaded.sql(
        MANY.format(101, 110),
        "update orders set name = 'changed', changed = now() where id <= 20",
        "update orders set amount = null, raw = '', tags = '{x,NULL}', day = 'epoch' where id between 30 and 35",
        "delete from orders where id between 40 and 45",
        "update orders set id = 1000 where id = 50",
        "begin; delete from orders where id = 60; insert into orders (id, name) values (60, 'again'); commit",
        "begin; insert into orders (id) values (2000); delete from orders where id = 2000; commit",
    )
    second = loaded.loads()
    assert second.effect == "apply"
    assert loaded.confirmed() == second.position["state"]["lsn"]
    loaded.proves()
    loaded.sql("truncate orders", MANY.format(7, 9))
    loaded.loads()
    loaded.proves()
    assert loaded.run().outcome is Result.UNCHANGED
    spooled = loaded.workspace.folder / ".tidegate" / "spool"
    assert not [path for path in spooled.rglob("*") if path.is_file()]
    assert json.dumps(second.to_dict())


only_iceberg = pytest.mark.parametrize("loaded", ["iceberg"], indirect=True)


@only_iceberg
def test_what_happens_around_the_first_load_is_neither_lost_nor_doubled(loaded, monkeypatch):
    """Between slot and snapshot, and between snapshot and commit; then the run is cut off before it can confirm."""
    loaded.sql(NARROW, FEW.format(1, 60))
    claim = slot.SlotOptions.claim

    def claims(options):
        claim(options)
        loaded.sql(
            FEW.format(61, 62), "update orders set name = 'meanwhile' where id < 5", "delete from orders where id = 9"
        )

    monkeypatch.setattr(slot.SlotOptions, "claim", claims)
    before = loaded.run(on_event=at(Stage.READ, Moment.DONE, lambda: loaded.sql("delete from orders where id = 61")))
    assert (before.error, before.outcome) == (None, Result.LOADED)
    assert {row["id"] for row in loaded.rows()} >= {61, 62}
    assert 9 not in {row["id"] for row in loaded.rows()}
    loaded.sql(FEW.format(100, 100 + spool.CHUNK), "update orders set big = 'small' where id = 100")
    monkeypatch.setattr(slot.SlotOptions, "acknowledge", interrupted_after(before))
    with pytest.raises(KeyboardInterrupt):
        loaded.run()
    assert loaded.confirmed() == before.position["state"]["lsn"]
    loaded.proves()
    monkeypatch.undo()
    healed = loaded.run()
    assert (healed.error, healed.outcome) == (None, Result.UNCHANGED)
    assert loaded.confirmed() == healed.position["state"]["lsn"] != before.position["state"]["lsn"]
    loaded.sql("update orders set name = 'once more' where id = 100")
    assert loaded.loads().rows_updated == 1
    loaded.proves()


@only_iceberg
def test_a_server_that_does_not_take_the_confirmation_is_told_later(loaded, monkeypatch):
    loaded.sql(NARROW, FEW.format(1, 5))
    loaded.loads()
    confirmed = loaded.confirmed()
    loaded.sql("delete from orders where id = 1")

    def away(_options, _state):
        raise SourceUnavailable("the server is away")

    monkeypatch.setattr(slot.SlotOptions, "acknowledge", away)
    outcome = loaded.loads()
    assert any("the server is away" in note for note in outcome.notes)
    assert loaded.confirmed() == confirmed
    monkeypatch.undo()
    assert loaded.run().outcome is Result.UNCHANGED
    assert loaded.confirmed() == outcome.position["state"]["lsn"]
    write_ahead(loaded.session, log.QUIET_BYTES)
    moved = loaded.loads()
    assert (moved.rows_read, moved.rows_inserted, moved.rows_updated, moved.rows_deleted) == (0, 0, 0, 0)
    assert loaded.confirmed() == moved.position["state"]["lsn"] != outcome.position["state"]["lsn"]
    assert loaded.run().outcome is Result.UNCHANGED


@only_iceberg
def test_two_runs_at_once_publish_once(loaded):
    loaded.sql(NARROW, FEW.format(1, 5))
    loaded.loads()
    loaded.sql("update orders set name = 'both' where id = 3", "update orders set id = 30 where id = 4")
    values = yaml.safe_load(loaded.workspace.file.read_text())
    values["registry"] = f"sqlite:///{loaded.workspace.folder / 'other.db'}"

    def other() -> None:
        with Project.from_dict(values, folder=loaded.workspace.folder, spark=loaded.spark) as project:
            assert project.run("orders").streams[0].outcome is Result.LOADED

    late = loaded.run(on_event=at(Stage.VERIFY, Moment.DONE, other))
    assert late.error.code == "position_moved"
    loaded.proves()
    assert loaded.run().outcome is Result.UNCHANGED
    loaded.proves()


@only_iceberg
def test_a_value_that_no_column_keeps_stops_and_is_not_shown(loaded):
    loaded.sql(NARROW, FEW.format(1, 5))
    loaded.loads()
    loaded.sql("update orders set day = 'infinity' where id = 3", "update orders set tags = '{{q},{r}}' where id = 4")
    stopped = loaded.run()
    assert (stopped.outcome, stopped.error.code) == (Result.STOPPED, "check_failed")
    assert "2 rows: events that cannot be applied" in stopped.error.message
    assert f"slot {SLOT}, LSN" in stopped.error.message
    assert "column 'day'" in stopped.error.message
    assert "infinity" not in stopped.error.message


def at(stage: Stage, moment: Moment, action):
    """A listener that acts once at a boundary."""
    done = []

    def listen(event) -> None:
        if (event.stage, event.moment) == (stage, moment) and not done:
            done.append(event)
            action()

    return listen


def interrupted_after(load):
    """Ends the run once its own load is published; what is acknowledged before that is of the load given."""

    def acknowledge(_options, state) -> None:
        if state["lsn"] != load.position["state"]["lsn"]:
            raise KeyboardInterrupt

    return acknowledge


@only_iceberg
def test_excluded_columns_never_arrive(loaded):
    """Neither from the table nor from its log; what happens only there does no harm."""
    file = loaded.workspace.folder / "tidegate.yaml"
    project = yaml.safe_load(file.read_text())
    project["streams"]["orders"]["source"]["exclude"] = ["day", "tag?"]
    file.write_text(yaml.safe_dump(project))
    loaded.sql(NARROW, FEW.format(1, 5))
    loaded.loads()
    loaded.proves()
    loaded.sql(
        "update orders set day = 'infinity', tags = '{secret}'",  # no column of the lake could keep such a day
        FEW.format(6, 7),
        "update orders set name = 'changed' where id = 2",
        "delete from orders where id = 3",
    )
    loaded.loads()
    loaded.proves()
    assert {row["id"]: row["name"] for row in loaded.rows()} == {
        1: "n1", 2: "changed", 4: "n4", 5: "n5", 6: "n6", 7: "n7",
    }  # fmt: skip
    assert {name for row in loaded.rows() for name in row} == {"id", "name", "big"}
    loaded.sql("alter table orders drop column tags")
    assert loaded.run().outcome is Result.UNCHANGED
    loaded.sql("update orders set day = null where id = 1")
    loaded.run()
    loaded.proves()
