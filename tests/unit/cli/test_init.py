"""What `init` writes is a project that can be checked at once, whatever the tables are called."""

import re
import sqlite3
from contextlib import closing

import pytest

from tidegate import config
from tidegate.cli.proposal import Login, login, proposal, render, scalar
from tidegate.core.ports.dialect import TableFacts
from tidegate.core.schema import BIGINT, TEXT, TIMESTAMP, Column, Schema

ACCESS = Login(url="postgresql://h/shop", masked="postgresql://h/shop", variable=None, name="shop")


def facts(**values) -> TableFacts:
    columns = values.pop("columns", {"id": BIGINT, "created_at": TIMESTAMP, "updated_at": TIMESTAMP})
    about = {
        "schema": "public",
        "table": "orders",
        "columns": Schema(columns=tuple(Column(name=name, type=kind) for name, kind in columns.items())),
        "unsupported": {},
        "primary_key": ("id",),
        "indexes": (("id",), ("updated_at", "id")),
        "rows": 10,
    }
    return TableFacts(**{**about, **values})


def test_a_table_with_key_and_time_of_change_gets_a_watermark():
    found = proposal(facts(), ACCESS, alone=True)
    assert found.strategy == "{kind: watermark, column: updated_at, clock: database}"
    assert (found.key, found.write, found.layout) == (("id",), "merge", None)
    assert (found.name, found.table, found.target) == ("orders", "public.orders", "lake.shop.orders")
    assert "index" not in found.strategy_reason


def test_a_scan_is_announced():
    assert "scans the table" in proposal(facts(indexes=(("id",),)), ACCESS, alone=True).strategy_reason


@pytest.mark.parametrize("name", ["updated_at", "UPDATED", "modified_on", "last_update", "changed_ts", "mtime"])
def test_times_of_change_have_many_names(name):
    found = proposal(facts(columns={"id": BIGINT, name: TIMESTAMP}), ACCESS, alone=True)
    assert f"column: {name}" in found.strategy


@pytest.mark.parametrize(
    "values", [{"primary_key": ()}, {"columns": {"id": BIGINT, "updated_at": TEXT}}, {"columns": {"id": BIGINT}}]
)
def test_everything_else_is_read_whole(values):
    found = proposal(facts(**values), ACCESS, alone=True)
    assert (found.strategy, found.write) == ("{kind: full}", "replace")


def test_a_large_table_gets_a_layout():
    found = proposal(facts(rows=5_000_000), ACCESS, alone=True)
    assert found.layout == '{partition_by: ["months(created_at)"], sort_by: [id]}'


def test_tables_of_one_name_are_told_apart():
    found = proposal(facts(schema="sales"), ACCESS, alone=False)
    assert (found.name, found.target) == ("sales.orders", "lake.sales.orders")


def test_a_password_never_reaches_the_file(tmp_path):
    found = login("postgresql://app:hun%40ter2@db.example:5432/My-Shop?sslmode=require", tmp_path)
    assert found.masked == "postgresql://app:${MY_SHOP_PASSWORD}@db.example:5432/My-Shop?sslmode=require"
    text = render(found, [proposal(facts(), found, alone=True)])
    assert "hun" not in text
    (tmp_path / "tidegate.yaml").write_text(text, encoding="utf-8")
    loaded = config.load(tmp_path, environ={"MY_SHOP_PASSWORD": "hun@ter2"})
    assert loaded.connections["my_shop"].url == found.url


@pytest.mark.parametrize(
    "text", ["orders", "a b", "true", "No", "1", "a: b", "a#b", "${x}", '"', "'", "a\n", "🙂", "-", "*a", "&a", "`"]
)
def test_any_text_survives_the_file(text, tmp_path):
    table = "{table}" if "*" in text else "b"
    (tmp_path / "tidegate.yaml").write_text(
        f"connections: {{c: 'sqlite://'}}\nstreams:\n  {scalar(text, is_key=True)}:\n    source: "
        f"{{connection: c, table: {scalar(text)}}}\n    target: {scalar(f'lake.a.{table}')}\n"
        "    strategy: full\n    write: replace\n",
        encoding="utf-8",
    )
    (stream,) = config.load(tmp_path, environ={}).streams
    assert (stream.name, stream.source.items["table"].text()) == (text, text)


def test_init_from_a_database_then_check(tmp_path, tidegate):
    with closing(sqlite3.connect(tmp_path / "shop.db")) as database, database:
        database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY NOT NULL, updated_at TIMESTAMP NOT NULL)")
        database.execute('CREATE TABLE "odd. ${name} `*` ""x""" (a INTEGER)')
    said = tidegate("init", "sqlite:///shop.db", "--json")
    assert said.exit_code == 0, said.err
    assert len(said.document["streams"]) == 2
    text = (tmp_path / "tidegate.yaml").read_text(encoding="utf-8")
    assert 'url: "sqlite:///shop.db"' in text
    assert re.search(r"strategy: \{kind: watermark, column: updated_at", text)
    assert tidegate("check").exit_code == 0
    # Each proposed source answers; the plan shows that the names were written as they are.
    assert tidegate("plan", "--json").exit_code == 0


def test_init_without_a_url_writes_a_project_that_can_be_checked(tmp_path, tidegate):
    assert tidegate("init", "--project", "new").exit_code == 0
    assert tidegate("check", "--project", "new").exit_code == 0
    assert (tmp_path / "new" / "tidegate.yaml").is_file()


def test_init_overwrites_nothing(folder, tidegate):
    before = (folder / "tidegate.yaml").read_text(encoding="utf-8")
    said = tidegate("init")
    assert (said.exit_code, (folder / "tidegate.yaml").read_text(encoding="utf-8")) == (2, before)
    assert "already exists" in said.err


@pytest.mark.parametrize(
    ("url", "part"),
    [
        ("shop.db", "is not a database URL"),
        ("sqlite:///absent.db", "absent.db"),
        ("nosuch://app:hunter2@h/d", "nosuch"),
        ("postgresql://app:hunter2@127.0.0.1:1/d", "error[source_unavailable]"),
    ],
)
def test_init_from_something_else_leaves_no_file(url, part, tmp_path, tidegate):
    said = tidegate("init", url)
    assert said.exit_code in (1, 2)
    assert part in said.err
    assert "hunter2" not in said.err + said.out
    assert not (tmp_path / "tidegate.yaml").exists()
    assert not (tmp_path / "absent.db").exists()
