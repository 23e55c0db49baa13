"""What cannot be done is refused: one error, its code, what repairs it, and nothing is harmed."""

import re
import shutil
import sqlite3
from contextlib import closing

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from integration.cli.conftest import ORDERS


def both(tidegate, *words, code, exit_code, wanted=()):
    """For people and for programs."""
    tidegate(*words).refuses(code, exit_code, *wanted)
    said = tidegate(*words, "--json")
    assert (said.exit_code, said.error["code"], bool(said.error["hint"])) == (exit_code, code, True)


FULL = {"kind": "full"}


@pytest.mark.parametrize(
    ("words", "changes", "code", "exit_code", "wanted"),
    [
        (["run"], {"strategy": {"kind": "watermrak"}}, "unknown_plugin", 2, ["watermrak", "watermark"]),
        (["run"], {"key": ["nr"]}, "column_missing", 2, ["'nr'", "amount, id", "tidegate check"]),
        (["plan"], {"source": {"connection": "shop", "table": "ordres"}}, "column_missing", 2, ["ordres"]),
        (
            ["run"],
            {"strategy": {"kind": "watermark", "column": "chnaged_at"}},
            "column_missing",
            2,
            ["chnaged_at", "amount, id"],
        ),
        *((["run"], {"target": target}, "config", 2, ["target"]) for target in (["lake", "a\0b", "c"], "lake..c")),
        *(
            (["run"], {"target": target}, "config", 2, ["target"])
            for target in (["lake", "", "c"], ["lake", " a", "c"], ["lake", "a", "$${x}"], "lake.c")
        ),
    ],
)
@pytest.mark.usefixtures("no_spark")
def test_a_stream_that_cannot_run(tidegate, workspace, shop, words, changes, code, exit_code, wanted):
    workspace.write({"orders": {**ORDERS, **changes}}, connections={"shop": {"url": shop.url}})
    both(tidegate, *words, code=code, exit_code=exit_code, wanted=wanted)
    assert not (workspace.folder / "warehouse").exists()
    assert not (workspace.folder / ".tidegate" / "catalog.db").exists()


@pytest.mark.parametrize(
    ("url", "code", "exit_code", "wanted"),
    [
        ("oracel://h/d", "unknown_plugin", 2, ["oracel"]),
        ("postgresql://app:${NO_SUCH_PASSWORD}@127.0.0.1/shop", "config", 2, ["NO_SUCH_PASSWORD", "export"]),
        ("sqlite:///nowhere/shop.db", "source_refused", 1, ["does not exist", "connections:"]),
        ("sqlite:///tidegate.yaml", "source_refused", 1, ["is not a SQLite database"]),
    ],
)
@pytest.mark.usefixtures("no_spark")
def test_a_source_that_is_none(tidegate, workspace, url, code, exit_code, wanted):
    workspace.write({"orders": ORDERS}, connections={"shop": {"url": url}})
    both(tidegate, "run", code=code, exit_code=exit_code, wanted=wanted)
    assert not (workspace.folder / "nowhere").exists()


NONSENSE = b"no database at all\n" * 300


@pytest.mark.parametrize(
    ("file", "text", "code", "wanted"),
    [
        (".tidegate/registry.db", NONSENSE, "registry", ["registry.db", "tidegate state repair"]),
        (".tidegate/registry.db", b"\xff", "registry", ["registry.db", "tidegate state repair"]),
        (".tidegate/catalog.db", NONSENSE, "write", ["catalog.db", "tidegate doctor"]),
    ],
    ids=["registry of text", "torn registry", "catalog of text"],
)
@pytest.mark.usefixtures("no_spark")
def test_a_file_that_is_damaged_stays_as_it_is(tidegate, workspace, file, text, code, wanted):
    tidegate("status")
    damaged = workspace.folder / file
    if len(text) == 1:
        whole = damaged.read_bytes()
        text = whole[:4096] + text * (len(whole) - 4096)
    damaged.write_bytes(text)
    both(tidegate, "run", code=code, exit_code=1, wanted=wanted)
    assert damaged.read_bytes() == text
    assert not (workspace.folder / "warehouse").exists()


@pytest.mark.usefixtures("no_spark")
def test_a_registry_in_a_folder_that_is_a_file(tidegate, workspace, shop):
    (workspace.folder / "full").write_text("")
    workspace.write({"orders": ORDERS}, connections={"shop": {"url": shop.url}}, registry="sqlite:///full/r.db")
    both(tidegate, "run", code="registry", exit_code=1, wanted=["registry:"])


@pytest.mark.usefixtures("no_spark")
def test_a_table_with_rows_of_somebody_else(tidegate, workspace):
    (workspace.folder / ".tidegate").mkdir()
    place = {"uri": f"sqlite:///{workspace.folder}/.tidegate/catalog.db", "warehouse": f"{workspace.folder}/warehouse"}
    with closing(SqlCatalog("lake", **place)) as catalog:
        catalog.create_namespace("shop")
        rows = pa.table({"id": pa.array([7], pa.int64()), "amount": ["theirs"]})
        catalog.create_table("shop.orders", schema=rows.schema).append(rows)
    both(tidegate, "run", code="position_missing", exit_code=4, wanted=["tidegate state adopt orders"])
    both(tidegate, "run", "--full-refresh", code="config", exit_code=2, wanted=["--yes"])
    assert workspace.rows("shop.orders") == [{"id": 7, "amount": "theirs"}]


@pytest.mark.spark
def test_what_a_loaded_table_survives(tidegate, workspace, shop, spark):
    """A warehouse that is none, a second stream, metadata and a registry that are gone: refused, repaired, loaded."""
    warehouse, aside = workspace.folder / "warehouse", workspace.folder / "aside"
    registry = workspace.folder / ".tidegate" / "registry.db"
    warehouse.write_text("")
    tidegate("run").refuses("write", 1, "warehouse", "tidegate doctor")
    warehouse.unlink()
    assert tidegate("run").exit_code == 0
    before = workspace.snapshots("shop.orders")

    workspace.write({"sales": ORDERS}, connections={"shop": {"url": shop.url}})
    renamed = ["was loaded by stream 'orders'", "was the stream renamed?", "uid:", "another target"]
    both(tidegate, "run", code="position_missing", exit_code=4, wanted=renamed)
    uid = re.search(r"`uid: (\S+)`", tidegate("plan", "sales", "--json").error["hint"])[1]
    workspace.write({"sales": {**ORDERS, "uid": uid}}, connections={"shop": {"url": shop.url}})
    assert tidegate("plan", "--json").document["streams"][0]["outcome"] == "unchanged"
    workspace.write({"orders": ORDERS}, connections={"shop": {"url": shop.url}})

    shutil.move(warehouse, aside)
    both(tidegate, "run", code="write", exit_code=1, wanted=["metadata", "restore it"])
    shutil.rmtree(warehouse, ignore_errors=True)
    shutil.move(aside, warehouse)

    registry.write_bytes(NONSENSE)
    tidegate("run").refuses("registry", 1, "tidegate state repair")
    registry.unlink()
    assert tidegate("state", "repair").exit_code == 0
    with closing(sqlite3.connect(registry)) as database:
        assert database.execute("select sequence from positions").fetchall() == [(1,)]
    assert workspace.snapshots("shop.orders") == before
    assert set(workspace.table("shop.orders").metadata.refs) == {"main"}
    shop.sql("insert into orders values (4, 'four')")
    (outcome,) = tidegate("run", "--json").document["streams"]
    assert (outcome["outcome"], outcome["rows_inserted"], outcome["position"]["sequence"]) == ("loaded", 1, 2)

    shop.sql("drop table orders", "create table orders (id integer, amount text)")
    shop.sql("insert into orders values (null, 1)")
    before = workspace.rows("shop.orders")
    both(tidegate, "run", code="check_failed", exit_code=4, wanted=["id", "query:"])
    assert workspace.rows("shop.orders") == before
