"""What `init` writes is a project that can be checked at once, whatever the tables are called."""

import re
import sqlite3
from contextlib import closing

import pytest

from tidegate import config
from tidegate.cli.project_file import grouped, render
from tidegate.cli.proposal import Login, Proposals, login, proposal
from tidegate.core.ids import Connection
from tidegate.core.ports.dialect import TableFacts
from tidegate.core.schema import BIGINT, DOUBLE, TEXT, TIMESTAMP, Column, Schema
from tidegate.core.yaml_text import scalar
from tidegate.sources.database.source import table_facts

ACCESS = Login(url="postgresql://h/shop", masked="postgresql://h/shop", variable=None, name="shop")


def facts(**values) -> TableFacts:
    columns = values.pop("columns", {"id": BIGINT, "created_at": TIMESTAMP, "updated_at": TIMESTAMP})
    nullable = values.pop("nullable", ())
    about = {
        "schema": "public",
        "table": "orders",
        "columns": Schema(
            columns=tuple(Column(name=name, type=kind, nullable=name in nullable) for name, kind in columns.items())
        ),
        "unsupported": {},
        "primary_key": ("id",),
        "indexes": (("id",), ("updated_at", "id")),
        "rows": 10,
    }
    return TableFacts(**{**about, **values})


CLOCKED = {"updated_at": "trigger touch"}


def test_a_column_that_the_database_is_proven_to_set_is_followed_by_its_clock():
    found = proposal(facts(clocked=CLOCKED), ACCESS, alone=True)
    assert found.advice.strategy == "{kind: watermark, column: updated_at, clock: database}"
    assert (found.key, found.write, found.layout) == (("id",), "merge", None)
    assert (found.name, found.table, found.target) == ("orders", "public.orders", "lake.shop.orders")
    assert found.advice.reasons == ("trigger touch sets updated_at whenever a row changes, by the database's clock",)
    assert found.advice.deletes == "{detect: key_diff}"


def test_rows_of_before_the_trigger_may_have_no_time():
    found = proposal(facts(clocked=CLOCKED, nullable={"updated_at"}), ACCESS, alone=True)
    assert found.advice.strategy == "{kind: watermark, column: updated_at, clock: database, on_null: include}"


def test_a_column_that_nothing_proves_is_followed_safely():
    found = proposal(facts(), ACCESS, alone=True)
    expected = "{kind: watermark, column: updated_at, clock: application, safety_lag: 15m, lookback: 1d}"
    assert (found.advice.strategy, found.advice.deletes) == (expected, "{detect: key_diff}")


def test_a_scan_is_announced():
    assert "scans the table" in " ".join(proposal(facts(indexes=(("id",),)), ACCESS, alone=True).advice.reasons)


@pytest.mark.parametrize(
    "name", ["updated_at", "UPDATED", "modified_on", "last_update", "changed_ts", "mtime", "UpdatedAt"]
)
def test_times_of_change_have_many_names(name):
    found = proposal(facts(columns={"id": BIGINT, name: TIMESTAMP}), ACCESS, alone=True)
    assert f"column: {name}" in found.advice.strategy


@pytest.mark.parametrize(
    "values",
    [
        {"columns": {"id": BIGINT, "updated_at": TEXT}},
        {"columns": {"id": BIGINT}},
        {"nullable": {"updated_at"}},
        {"columns": {"id": BIGINT, "ratio": DOUBLE}},
    ],
)
def test_a_table_without_a_trustworthy_cursor_is_compared(values):
    found = proposal(facts(**values), ACCESS, alone=True)
    assert (found.advice.strategy, found.write, found.advice.deletes) == ("{kind: smart}", "merge", None)
    assert "deleted at the source" in found.advice.reasons[-1]
    assert ("ratio" in found.advice.reasons[0]) is ("ratio" in values.get("columns", {}))


def test_a_large_one_is_compared_by_ranges_of_its_key():
    found = proposal(facts(columns={"id": BIGINT}, rows=50_000_000), ACCESS, alone=True)
    assert found.advice.strategy == "{kind: smart, partition_by: id, modulus: 100000}"


def test_a_table_without_a_key_is_replaced_when_it_differs():
    found = proposal(facts(primary_key=()), ACCESS, alone=True)
    assert (found.advice.strategy, found.write, found.key) == ("{kind: checksum}", "replace", ())
    found = proposal(facts(primary_key=(), columns={"ratio": DOUBLE}), ACCESS, alone=True)
    assert (found.advice.strategy, found.write) == ("{kind: full}", "replace")


def test_types_that_need_lines_get_them():
    wide = Schema(columns=(Column(name="id", type=BIGINT), Column(name="value", type=TEXT, native="numeric")))
    odd = {"place": "point", "a b": "tsrange"}
    values = facts(unsupported=odd)
    about = {**{name: getattr(values, name) for name in TableFacts.__dataclass_fields__}, "columns": wide}
    found = proposal(TableFacts(**about), ACCESS, alone=True)
    assert found.options == 'columns: {place: text, "a b": text}'
    assert "place (point), a b (tsrange)" in found.remarks[0]
    assert "value is numeric, which becomes a string" in found.remarks[1]
    found = proposal(TableFacts(**{**about, "as_text": ()}), ACCESS, alone=True)
    assert found.options == 'exclude: [place, "a b"]'
    found = proposal(TableFacts(**{**about, "as_text": ("a b",)}), ACCESS, alone=True)
    assert found.options == 'columns: {"a b": text}, exclude: [place]'
    assert "a b (tsrange); read as text" in found.remarks[0]
    assert "place (point); left out" in found.remarks[1]


def many(number: int) -> list[TableFacts]:
    return [facts(table=f"t{n}", columns={"id": BIGINT}) for n in range(number)]


def test_a_schema_of_many_tables_becomes_a_pattern(tmp_path):
    odd = [
        facts(table="log", primary_key=()),
        facts(table="places", unsupported={"at": "point"}, columns={"id": BIGINT}),
    ]
    streams = tuple(proposal(each, ACCESS, alone=True) for each in [*many(60), *odd])
    found = Proposals(streams=streams, others=(("public", "payroll"), ("other", "t")))
    pattern, *rest = grouped(found).streams
    assert [each.name for each in rest] == ["log", "places"]
    assert (pattern.name, pattern.table, pattern.target) == ("shop.*", "public.*", "lake.shop.{table}")
    assert (pattern.key, pattern.without) == ((), ("log", "places", "payroll"))
    (tmp_path / "tidegate.yaml").write_text(render(ACCESS, grouped(found)), encoding="utf-8")
    (first, *_) = config.load(tmp_path, environ={}).streams
    assert (first.is_pattern, first.exclude) == (True, ("log", "places", "payroll"))


def test_few_tables_stay_streams():
    found = Proposals(streams=tuple(proposal(each, ACCESS, alone=True) for each in many(10)))
    assert grouped(found) is found


def test_a_large_table_gets_a_layout():
    found = proposal(facts(rows=5_000_000), ACCESS, alone=True)
    assert found.layout == '{partition_by: ["months(created_at)"], sort_by: [id]}'


def test_tables_of_one_name_are_told_apart():
    found = proposal(facts(schema="sales"), ACCESS, alone=False)
    assert (found.name, found.target) == ("sales.orders", "lake.sales.orders")


def test_a_password_never_reaches_the_file(tmp_path):
    found = login("postgresql://app:hun%40ter2@db.example:5432/My-Shop?sslmode=require", tmp_path)
    assert found.masked == "postgresql://app:${MY_SHOP_PASSWORD}@db.example:5432/My-Shop?sslmode=require"
    text = render(found, Proposals(streams=(proposal(facts(), found, alone=True),)))
    assert "hun" not in text
    (tmp_path / "tidegate.yaml").write_text(text, encoding="utf-8")
    loaded = config.load(tmp_path, environ={"MY_SHOP_PASSWORD": "hun@ter2"})
    assert loaded.connections["my_shop"].url == found.url


@pytest.mark.parametrize(
    "text",
    [
        "orders",
        "a b",
        "true",
        "No",
        "1",
        "a: b",
        "a#b",
        "${x}",
        '"',
        "'",
        "a\n",
        "🙂",
        "-",
        "*a",
        "&a",
        "`",
        "a\u2028b",
        "a\x85b",
    ],
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
        database.execute("CREATE VIEW recent AS SELECT * FROM orders")
    said = tidegate("init", "sqlite:///shop.db", "--json")
    assert said.exit_code == 0, said.err
    assert len(said.document["streams"]) == 2
    text = (tmp_path / "tidegate.yaml").read_text(encoding="utf-8")
    assert 'url: "sqlite:///shop.db"' in text
    assert "#   main.recent: a view" in text
    assert re.search(r"strategy: \{kind: watermark, column: updated_at", text)
    assert tidegate("check").exit_code == 0
    # Each proposed source answers; the plan shows that the names were written as they are.
    assert tidegate("plan", "--json").exit_code == 0


TRIGGER = "CREATE TRIGGER touch AFTER UPDATE{of} ON t{when} BEGIN UPDATE t SET at = {now} WHERE id = NEW.id; END"


@pytest.mark.parametrize(
    ("default", "trigger", "proven"),
    [
        ("CURRENT_TIMESTAMP", TRIGGER.format(of="", when="", now="CURRENT_TIMESTAMP"), True),
        ("CURRENT_TIMESTAMP", TRIGGER.format(of="", when="", now="datetime('now')"), True),
        ("CURRENT_TIMESTAMP", TRIGGER.format(of="", when="", now="datetime('now', 'localtime')"), False),
        ("CURRENT_TIMESTAMP", TRIGGER.format(of="", when=" WHEN NEW.id > 3", now="CURRENT_TIMESTAMP"), False),
        ("CURRENT_TIMESTAMP", TRIGGER.format(of=" OF note", when="", now="CURRENT_TIMESTAMP"), False),
        ("CURRENT_TIMESTAMP", None, False),
        ("CURRENT_TIMESTAMP", TRIGGER.format(of="", when="", now="CURRENT_TIMESTAMP").lower(), True),
    ],
)
def test_what_proves_that_sqlite_sets_a_column(default, trigger, proven, tmp_path):
    with closing(sqlite3.connect(tmp_path / "shop.db")) as database, database:
        database.execute(f"CREATE TABLE t (id INTEGER PRIMARY KEY, note TEXT, at TIMESTAMP NOT NULL DEFAULT {default})")
        if trigger:
            database.execute(trigger)
            database.execute(re.sub("(?i)touch after update", "added AFTER INSERT", trigger).replace(" OF note", ""))
    (found,) = table_facts(Connection(name="shop", url=f"sqlite:///{tmp_path}/shop.db"))
    assert found.clocked == ({"at": "trigger touch"} if proven else {})


def test_init_takes_the_tables_that_are_asked_for(tmp_path, tidegate):
    with closing(sqlite3.connect(tmp_path / "shop.db")) as database, database:
        for name in ("orders", "items", "tmp_orders"):
            database.execute(f"CREATE TABLE {name} (id INTEGER PRIMARY KEY NOT NULL)")
    said = tidegate("init", "sqlite:///shop.db", "--tables", "main.*orders", "--exclude", "tmp*", "--json")
    assert said.document["streams"] == ["orders"]
    said = tidegate("init", "sqlite:///shop.db", "--project", "other", "--tables", "customers")
    assert said.exit_code == 2
    assert "the database has main.items, main.orders, main.tmp_orders" in said.err


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
