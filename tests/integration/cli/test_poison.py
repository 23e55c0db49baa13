"""Values that a column cannot keep end the load: the column is named, the value is not, nothing is published."""

import psycopg
import pytest

from integration.cli.conftest import ORDERS
from integration.cli.terminal import Terminal
from support.workspace import SqliteShop, Workspace

pytestmark = pytest.mark.spark

# Of each: the column, as it is declared; the value; what must not be told, which nothing else says by chance.
SQLITE = {
    "text in an integer": ("amount integer", "'s3cret'", "s3cret"),
    "a float in an integer": ("amount integer", "17.125", "17.125"),
    "a number beyond an integer": ("amount integer", "9223372036854775808.0", "922337203685"),
    "text in a timestamp": ("at timestamp", "'s3cret o clock'", "s3cret"),
    "a day that is not there": ("at timestamp", "'2025-02-30 00:00:00'", "02-30"),
    "a number in a timestamp": ("at timestamp", "1735689600", "1735689600"),
    "too many digits": ("price decimal(8,2)", "'123456789.12'", "123456789"),
    "too fine": ("price decimal(8,2)", "'1.2345'", "1.2345"),
    "a blob in a text": ("name text", "x'733363726574'", "s3cret"),
    "no UTF-8 in a text": ("name text", "cast(x'73336372657480ff' as text)", "s3cret"),
    "an endless number": ("price decimal(8,2)", "9e999", "inf"),
}
POSTGRESQL = {
    "endless timestamp": ("at timestamp", "'infinity'", "infinity"),
    "before Christ": ("at timestamptz", "'0044-03-15 00:00:00 BC'", "0044-03-15"),
    "far away": ("at timestamp", "'12025-01-01'", "12025-01-01"),
    "endless day": ("day date", "'-infinity'", "infinity"),
    "not a number": ("price numeric(10,2)", "'NaN'", "NaN"),
    "endless number": ("price numeric", "'Infinity'", "Infinity"),
    "too long a number": ("price numeric", "'1" + "0" * 40 + "'", "0" * 40),
    "an array of arrays": ("list int[]", "'{{771771771,772},{773,774}}'", "771771771"),
}


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def test_values_that_no_column_keeps(request, tmp_path, capfd, spark, kind):
    """One table a poison, so that one project shows them all; once it is gone, its stream loads again."""
    if kind == "sqlite":
        poisons, shop = SQLITE, SqliteShop(path=tmp_path / "shop.db")
        url, run = shop.url, shop.sql
    else:
        poisons, url = POSTGRESQL, request.getfixturevalue("pg_url")

        def run(*statements):
            with psycopg.connect(url, autocommit=True) as admin:
                for statement in statements:
                    admin.execute(statement)

    streams, tables = {}, [f"orders{number}" for number in range(len(poisons))]
    for table, (declared, _, _) in zip(tables, poisons.values(), strict=True):
        run(f"create table {table} (id integer primary key not null, {declared})")
        run(f"insert into {table} values (1, null)")
        source = {"connection": "shop", "table": table}
        source |= {"columns": {"price": "decimal(38,4)"}} if declared == "price numeric" else {}
        streams[table] = {**ORDERS, "source": source, "target": f"lake.shop.{table}"}
    workspace, tidegate = Workspace(folder=tmp_path), Terminal(folder=tmp_path, capfd=capfd)
    workspace.write(streams, connections={"shop": {"url": url}})
    assert tidegate("run", tables[0]).exit_code == 0
    for table, (_, value, _) in zip(tables, poisons.values(), strict=True):
        run(f"insert into {table} values (2, {value})")

    said = tidegate("run", "--json")
    assert said.exit_code == 4, said.everything
    for (name, (declared, _, secret)), outcome in zip(poisons.items(), said.document["streams"], strict=True):
        assert outcome["error"], name
        assert outcome["error"]["code"] == "schema_refused", (name, outcome["error"])
        wanted = "not UTF-8" if "UTF-8" in name else repr(declared.split()[0])
        assert wanted in outcome["error"]["message"], (name, outcome["error"])
        assert secret not in outcome["error"]["message"] + outcome["error"]["hint"], name
    tidegate("run", tables[0]).refuses("schema_refused", 4, repr(next(iter(poisons.values()))[0].split()[0]))
    kept = tidegate("history", tables[0], "--json").out + tidegate("tasks", "--json").out
    assert next(iter(poisons.values()))[2] not in kept
    assert [row["id"] for row in workspace.rows(f"shop.{tables[0]}")] == [1]
    assert set(workspace.table(f"shop.{tables[0]}").metadata.refs) == {"main"}
    assert not any(workspace.has_table(f"shop.{name}") and workspace.rows(f"shop.{name}") for name in tables[1:])

    run(*(f"delete from {table} where id = 2" for table in tables))
    run(f"insert into {tables[0]} values (3, null)")
    said = tidegate("run", tables[0], tables[-1], "--json")
    assert said.exit_code == 0, said.everything
    assert [[row["id"] for row in workspace.rows(f"shop.{name}")] for name in (tables[0], tables[-1])] == [[1, 3], [1]]


def test_text_of_any_length_and_kind_arrives(workspace, tidegate, shop, spark):
    big = "hex(randomblob(5000000))"
    shop.sql(f"update orders set amount = {big} where id = 1", "update orders set amount = '' where id = 2")
    shop.sql("update orders set amount = 'a' || char(0) || 'b' where id = 3")
    shop.sql("insert into orders values (4, char(128512, 10, 13))")
    said = tidegate("run", "--json")
    assert said.exit_code == 0, said.everything
    found = {row["id"]: row["amount"] for row in workspace.rows("shop.orders")}
    assert found == dict(shop.rows("select id, amount from orders"))
    assert (len(found[1]), found[3]) == (10_000_000, "a\0b")
