"""What cannot be done is refused: one error, its code, what repairs it, and nothing is harmed."""

import shutil
import sqlite3
from contextlib import closing

import pytest
from pyiceberg.exceptions import NoSuchTableError

from integration.cli.conftest import ORDERS
from support.workspace import Workspace


def both(tidegate, *words, code, exit_code, wanted=()):
    """For people and for programs."""
    tidegate(*words).refuses(code, exit_code, *wanted)
    said = tidegate(*words, "--json")
    assert said.exit_code == exit_code
    assert said.error["code"] == code
    assert said.error["hint"]
    return said


def streams(workspace: Workspace, shop, **changes):
    workspace.write({"orders": {**ORDERS, **changes}}, connections={"shop": {"url": shop.url}})


def untouched(workspace: Workspace) -> None:
    """No table, no warehouse."""
    assert not (workspace.folder / "warehouse").exists()
    assert not (workspace.folder / ".tidegate" / "catalog.db").exists()


@pytest.mark.parametrize("command", ["check", "plan", "run", "doctor"])
def test_a_wrong_key(tidegate, workspace, command):
    text = workspace.file.read_text().replace("strategy:", "stratgy:")
    workspace.file.write_text(text)
    both(tidegate, command, code="config", exit_code=2, wanted=["tidegate.yaml:", "stratgy", "did you mean 'strategy'"])
    untouched(workspace)


def test_yaml_that_is_none(tidegate, workspace):
    workspace.file.write_text("streams: {orders: [\n")
    both(tidegate, "run", code="config", exit_code=2, wanted=["tidegate.yaml:"])


def test_a_variable_that_is_not_set(tidegate, workspace, monkeypatch):
    monkeypatch.delenv("NO_SUCH_PASSWORD", raising=False)
    url = "postgresql://app:${NO_SUCH_PASSWORD}@127.0.0.1/shop"
    workspace.write({"orders": ORDERS}, connections={"shop": {"url": url}})
    both(tidegate, "run", code="config", exit_code=2, wanted=["NO_SUCH_PASSWORD", "export"])


def test_an_unknown_stream(tidegate, workspace):
    both(tidegate, "run", "ordres", code="config", exit_code=2, wanted=["'ordres'", "orders"])
    untouched(workspace)


def test_a_kind_that_nobody_provides(tidegate, workspace, shop):
    streams(workspace, shop, strategy={"kind": "watermrak"})
    both(tidegate, "run", code="unknown_plugin", exit_code=2, wanted=["watermrak", "watermark"])


def test_a_connection_to_no_known_database(tidegate, workspace):
    workspace.write({"orders": ORDERS}, connections={"shop": {"url": "oracel://h/d"}})
    both(tidegate, "run", code="unknown_plugin", exit_code=2, wanted=["oracel"])


@pytest.mark.parametrize("command", ["plan", "run"])
def test_a_table_without_the_key_column(tidegate, workspace, shop, command):
    streams(workspace, shop, key=["nr"])
    both(tidegate, command, code="column_missing", exit_code=2, wanted=["'nr'", "amount, id", "tidegate check"])
    untouched(workspace)


@pytest.mark.parametrize("command", ["plan", "run"])
def test_a_table_that_is_not_there(tidegate, workspace, shop, command):
    streams(workspace, shop, source={"connection": "shop", "table": "ordres"})
    both(tidegate, command, code="column_missing", exit_code=2, wanted=["ordres"])
    untouched(workspace)


def test_a_cursor_that_is_not_there(tidegate, workspace, shop):
    streams(workspace, shop, strategy={"kind": "watermark", "column": "chnaged_at"})
    both(tidegate, "run", code="column_missing", exit_code=2, wanted=["chnaged_at", "amount, id"])


def test_a_database_file_that_is_not_there(tidegate, workspace):
    workspace.write({"orders": ORDERS}, connections={"shop": {"url": "sqlite:///nowhere/shop.db"}})
    both(tidegate, "run", code="source_refused", exit_code=1, wanted=["does not exist", "connections:"])
    assert not (workspace.folder / "nowhere").exists()


def test_a_database_file_that_is_none(tidegate, workspace, shop):
    shop.path.write_text("id,amount\n1,one\n" * 100)
    both(tidegate, "run", code="source_refused", exit_code=1, wanted=["is not a SQLite database"])


@pytest.mark.parametrize("damage", ["text", "torn"])
def test_a_registry_that_is_damaged(tidegate, workspace, damage):
    tidegate("status")
    registry = workspace.folder / ".tidegate" / "registry.db"
    if damage == "text":
        registry.write_text("no database at all\n" * 300)
    else:
        whole = registry.read_bytes()
        registry.write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))
    before = registry.read_bytes()
    both(tidegate, "run", code="registry", exit_code=1, wanted=["registry.db", "tidegate state repair"])
    assert registry.read_bytes() == before
    untouched(workspace)


def test_a_registry_in_a_folder_that_is_a_file(tidegate, workspace, shop):
    (workspace.folder / "full").write_text("")
    workspace.write({"orders": ORDERS}, connections={"shop": {"url": shop.url}}, registry="sqlite:///full/r.db")
    both(tidegate, "run", code="registry", exit_code=1, wanted=["registry:"])


def test_a_catalog_that_is_damaged(tidegate, workspace):
    (workspace.folder / ".tidegate").mkdir()
    (workspace.folder / ".tidegate" / "catalog.db").write_text("no database at all\n" * 300)
    both(tidegate, "run", code="write", exit_code=1, wanted=["catalog.db", "tidegate doctor"])


@pytest.mark.parametrize("version", ["11.0.2", "1.8.0_402", None])
def test_java_that_is_too_old_or_absent(tidegate, workspace, monkeypatch, tmp_path, version):
    from pyspark.sql import SparkSession

    # A session of another test would do the work.
    monkeypatch.setattr(SparkSession, "getActiveSession", classmethod(lambda _: None))
    home = tmp_path / "jdk"
    (home / "bin").mkdir(parents=True)
    java = home / "bin" / "java"
    if version:
        java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2019-01-15' >&2\n")
        java.chmod(0o755)
        monkeypatch.setenv("JAVA_HOME", str(home))
    else:
        monkeypatch.delenv("JAVA_HOME", raising=False)
        monkeypatch.setenv("PATH", str(home / "bin"))
    wanted = ["Java 17" if not version else "too old", "apt-get install openjdk-17"]
    both(tidegate, "run", code="environment", exit_code=2, wanted=wanted)
    untouched(workspace)


def test_two_streams_into_one_table_are_stopped(tidegate, workspace, shop, spark):
    shop.sql("create table others as select * from orders")
    two = {**ORDERS, "source": {"connection": "shop", "table": "others"}}
    workspace.write({"orders": ORDERS}, connections={"shop": {"url": shop.url}})
    assert tidegate("run").exit_code == 0
    before = workspace.snapshots("shop.orders")
    workspace.write({"others": two}, connections={"shop": {"url": shop.url}})
    both(
        tidegate,
        "run",
        code="position_missing",
        exit_code=4,
        wanted=["was the stream renamed?", "uid:", "another target"],
    )
    assert workspace.snapshots("shop.orders") == before
    assert set(workspace.table("shop.orders").metadata.refs) == {"main"}


def test_a_table_with_rows_of_somebody_else(tidegate, workspace, spark):
    import pyarrow as pa
    from pyiceberg.catalog.sql import SqlCatalog

    (workspace.folder / ".tidegate").mkdir()
    catalog = SqlCatalog(
        "lake",
        uri=f"sqlite:///{workspace.folder / '.tidegate' / 'catalog.db'}",
        warehouse=f"file://{workspace.folder / 'warehouse'}",
    )
    catalog.create_namespace("shop")
    rows = pa.table({"id": pa.array([7], pa.int64()), "amount": ["theirs"]})
    catalog.create_table("shop.orders", schema=rows.schema).append(rows)
    both(tidegate, "run", code="position_missing", exit_code=4, wanted=["tidegate state adopt orders"])
    both(tidegate, "run", "--full-refresh", code="config", exit_code=2, wanted=["--yes"])
    assert workspace.rows("shop.orders") == [{"id": 7, "amount": "theirs"}]


@pytest.mark.slow
def test_duplicate_keys(tidegate, workspace, shop, spark):
    assert tidegate("run").exit_code == 0
    before = workspace.rows("shop.orders")
    shop.sql(
        "drop table orders",
        "create table orders (id integer, amount text)",
        "insert into orders values (1, 'one'), (1, 'eins'), (2, 'two')",
    )
    said = both(tidegate, "run", code="duplicate_keys", exit_code=4, wanted=["order_by"])
    assert "eins" not in said.everything
    assert workspace.rows("shop.orders") == before
    assert set(workspace.table("shop.orders").metadata.refs) == {"main"}
    shop.sql("delete from orders where amount = 'eins'")
    assert tidegate("run").exit_code == 0
    assert {row["id"] for row in workspace.rows("shop.orders")} >= {1, 2}


def test_a_null_in_the_key(tidegate, workspace, shop, spark):
    shop.sql(
        "drop table orders", "create table orders (id integer, amount text)", "insert into orders values (null, 'x')"
    )
    both(tidegate, "run", code="check_failed", exit_code=4, wanted=["id", "query:"])
    with pytest.raises(NoSuchTableError):
        workspace.table("shop.orders")


def test_a_warehouse_that_is_a_file(tidegate, workspace, spark):
    (workspace.folder / "warehouse").write_text("")
    tidegate("run").refuses("write", 1, "warehouse", "tidegate doctor")
    (workspace.folder / "warehouse").unlink()
    assert tidegate("run").exit_code == 0
    assert len(workspace.rows("shop.orders")) == 3


def test_a_table_whose_metadata_is_gone(tidegate, workspace, spark):
    assert tidegate("run").exit_code == 0
    aside = workspace.folder / "aside"
    shutil.move(workspace.folder / "warehouse", aside)
    both(tidegate, "run", code="write", exit_code=1, wanted=["metadata", "restore it"])
    shutil.rmtree(workspace.folder / "warehouse", ignore_errors=True)
    shutil.move(aside, workspace.folder / "warehouse")
    assert tidegate("run").exit_code == 0


def test_a_registry_that_is_damaged_is_rebuilt_from_the_tables(tidegate, workspace, shop, spark):
    assert tidegate("run").exit_code == 0
    registry = workspace.folder / ".tidegate" / "registry.db"
    registry.write_text("no database at all\n" * 300)
    tidegate("run").refuses("registry", 1, "tidegate state repair")
    registry.unlink()
    assert tidegate("state", "repair").exit_code == 0
    with closing(sqlite3.connect(registry)) as database:
        ((sequence,),) = database.execute("select sequence from positions").fetchall()
    assert sequence == 1
    shop.sql("insert into orders values (4, 'four')")
    (outcome,) = tidegate("run", "--json").document["streams"]
    assert (outcome["outcome"], outcome["rows_inserted"], outcome["position"]["sequence"]) == ("loaded", 1, 2)
