"""The commands around a slot, which move no rows and start no Spark."""

import json

import pytest

from integration.slot.conftest import write_ahead
from support.workspace import Workspace
from tidegate.cli.app import main
from tidegate.sources.change_log.slot import slot

pytestmark = pytest.mark.postgres

SLOT = "tidegate_orders"


def stream(table: str = "public.orders", **more) -> dict:
    return {
        "source": {"connection": "shop", "slot": SLOT, "table": table},
        "target": f"lake.{table}",
        "key": ["id"],
        "strategy": "cdc",
        "write": "merge",
        **more,
    }


@pytest.fixture
def workspace(shop, tmp_path) -> Workspace:
    shop.sql("create table orders (id bigint primary key, name text)")
    made = Workspace(folder=tmp_path)
    made.write({"orders": stream()}, connections={"shop": {"url": shop.url}})
    return made


@pytest.fixture
def tidegate(workspace, capsys):
    def call(*words: str) -> tuple[int, dict, str]:
        code = main([*words, "--json", "--project", str(workspace.folder)])
        told = capsys.readouterr()
        return code, json.loads(told.out), told.err

    return call


def test_a_slot_is_listed_and_dropped_when_that_is_said_twice(shop, tidegate):
    (absent,) = tidegate("slot", "list")[1]["slots"]
    assert (absent["stream"], absent["name"], absent["exists"]) == ("orders", SLOT, False)
    assert tidegate("slot", "drop", SLOT, "--yes")[0] == 2
    shop.claim()
    shop.sql("create table lines as select repeat('x', 1000) from generate_series(1, 1000)")
    (kept,) = tidegate("slot", "list", "orders")[1]["slots"]
    assert (kept["where"], kept["exists"], kept["active"], kept["status"]) == ("shop", True, False, "reserved")
    assert kept["bytes"] >= kept["behind"] > 1_000_000
    code, document, _ = tidegate("slot", "drop", SLOT)
    assert (code, document["error"]["hint"]) == (2, f"`tidegate slot drop {SLOT} --yes`.")
    assert shop.options.retained().exists
    assert tidegate("slot", "drop", SLOT, "--yes")[1]["dropped"]["name"] == SLOT
    assert not shop.options.retained().exists


def test_a_slot_of_somebody_else_is_never_dropped(shop, tidegate):
    shop.sql("select pg_create_logical_replication_slot('theirs', 'pgoutput')")
    code, document, _ = tidegate("slot", "drop", "theirs", "--yes")
    assert (code, "no stream of this project" in document["error"]["message"]) == (2, True)
    assert shop.rows("select 1 from pg_replication_slots where slot_name = 'theirs'")


def test_people_see_a_table_and_what_is_wrong(workspace, shop, capsys):
    shop.claim()
    write_ahead(shop.session, slot.KEPT_BYTES)
    assert main(["slot", "list", "--project", str(workspace.folder)]) == 0
    told = capsys.readouterr().out
    assert told.splitlines()[0].split() == [
        "slot",
        "stream",
        "connection",
        "exists",
        "active",
        "status",
        "keeps",
        "behind",
    ]
    assert "note: orders: slot tidegate_orders retains" in told


def test_the_doctor_looks_at_the_slot(shop, tidegate):
    def found() -> dict:
        return next(one for one in tidegate("doctor")[1]["findings"] if one["name"] == "slot of orders")

    assert "the first run creates it" in found()["detail"]
    shop.claim()
    assert found()["ok"]
    write_ahead(shop.session, slot.KEPT_BYTES)
    assert (found()["ok"], "tidegate run orders" in found()["hint"]) == (False, True)


def test_a_plan_makes_no_slot(shop, tidegate):
    code, document, _ = tidegate("plan")
    (planned,) = document["streams"]
    assert (code, planned["outcome"], planned["error"]) == (0, "changed", None)
    assert not shop.options.retained().exists
    assert not shop.rows("select 1 from pg_publication")


def test_two_streams_of_one_slot_are_refused(workspace, shop, tidegate):
    both = {"orders": stream(), "lines": stream("public.lines")}
    workspace.write(both, connections={"shop": {"url": shop.url}})
    code, document, _ = tidegate("run", "orders")
    assert (code, document["error"]["code"]) == (2, "incompatible")
    assert "the slot tidegate_orders is also used by stream 'lines'" in document["error"]["message"]
    workspace.write(
        {**both, "lines": {**stream("public.lines"), "source": {**stream("public.lines")["source"], "slot": "other"}}},
        connections={"shop": {"url": shop.url}},
    )
    assert tidegate("check")[0] == 0


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ({"slot": "Big Letters"}, "not a valid replication slot name"),
        ({"slot": SLOT, "envelope": "rows"}, "envelope: is not for a replication slot"),
        ({"slot": SLOT, "connection": "files"}, "only PostgreSQL has replication slots"),
    ],
)
def test_what_a_slot_cannot_be_is_refused_with_its_line(workspace, shop, tidegate, source, reason):
    one = {**stream(), "source": {**stream()["source"], **source}}
    workspace.write({"orders": one}, connections={"shop": {"url": shop.url}, "files": {"url": "sqlite:///x.db"}})
    code, document, _ = tidegate("run")
    assert code == 2
    assert reason in document["error"]["message"]
    assert "tidegate.yaml:" in document["error"]["message"]


def test_a_server_that_keeps_no_logical_log_is_told_how_to(shop, monkeypatch):
    from tidegate.dialects.postgresql.session import PostgresqlSession
    from tidegate.errors import ConfigError

    rows = PostgresqlSession.rows

    def replica(self, sql):
        return [(False, "replica")] if "wal_level" in sql else rows(self, sql)

    monkeypatch.setattr(PostgresqlSession, "rows", replica)
    with pytest.raises(ConfigError, match="wal_level is replica") as refused:
        shop.claim()
    assert "ALTER SYSTEM" in refused.value.hint
