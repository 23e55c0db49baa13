"""Values that a column cannot keep end the load: the column is named, the value is not, nothing is published."""

import psycopg
import pytest

from integration.cli.terminal import Terminal
from support.workspace import SqliteShop, Workspace

pytestmark = pytest.mark.spark

ROWS = 3


def project(folder, url: str, capfd, strategy: dict) -> tuple[Workspace, Terminal]:
    workspace = Workspace(folder=folder)
    one = {
        "source": {"connection": "shop", "table": "orders"},
        "target": "lake.shop.orders",
        "key": ["id"],
        "strategy": strategy,
        "write": "merge",
    }
    workspace.write({"orders": one}, connections={"shop": {"url": url}})
    return workspace, Terminal(folder=folder, capfd=capfd)


def poisoned(workspace: Workspace, tidegate: Terminal, poison, secret: str, column: str, cure) -> None:
    """A good load, then the poison, then the cure."""
    assert tidegate("run").exit_code == 0
    before, snapshots = workspace.rows("shop.orders"), workspace.snapshots("shop.orders")
    poison()
    said = tidegate("run")
    said.refuses("schema_refused", 4, column)
    assert secret not in said.everything
    history = tidegate("history", "orders", "--json").out + tidegate("tasks", "--json").out
    assert secret not in history
    assert workspace.rows("shop.orders") == before
    assert workspace.snapshots("shop.orders") == snapshots
    assert set(workspace.table("shop.orders").metadata.refs) == {"main"}
    cure()
    said = tidegate("run", "--json")
    assert said.exit_code == 0, said.everything
    assert len(workspace.rows("shop.orders")) == ROWS + 1


SQLITE = {
    "text in an integer": ("amount", "'s3cret'", "s3cret"),
    "a float in an integer": ("amount", "17.125", "17.125"),
    "a number beyond an integer": ("amount", "9223372036854775808.0", "922337203685"),
    "text in a timestamp": ("at", "'s3cret o clock'", "s3cret"),
    "a day that is not there": ("at", "'2025-02-30 00:00:00'", "02-30"),
    "a number in a timestamp": ("at", "1735689600", "1735689600"),
    "too many digits": ("price", "'123456789.12'", "123456789"),
    "too fine": ("price", "'1.2345'", "1.2345"),
    "a blob in a text": ("name", "x'733363726574'", "s3cret"),
    "an endless number": ("price", "9e999", "inf"),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["full", "watermark"])
def test_sqlite(tmp_path, capfd, spark, kind):
    """One table a poison, so that one project shows them all."""
    shop = SqliteShop(path=tmp_path / "shop.db")
    strategy = {"kind": "full"} if kind == "full" else {"kind": "watermark", "column": "at", "clock": "database"}
    workspace = Workspace(folder=tmp_path)
    streams = {}
    for number, (column, value, _) in enumerate(SQLITE.values()):
        table = f"orders{number}"
        shop.sql(
            f"create table {table} (id integer primary key not null, amount integer, price decimal(8,2), name text, "
            "at timestamp)",
            f"insert into {table} values (1, 1, 1, 'a', '2025-01-01'), (2, 2, 2.5, 'b', '2025-01-02')",
            f"insert into {table} (id, at) values (3, '2025-01-03')",
            f"update {table} set {column} = {value} where id = 3",
        )
        streams[table] = {
            "source": {"connection": "shop", "table": table},
            "target": f"lake.shop.{table}",
            "key": ["id"],
            "strategy": strategy,
            "write": "merge",
        }
    workspace.write(streams, connections={"shop": {"url": shop.url}})
    tidegate = Terminal(folder=tmp_path, capfd=capfd)
    said = tidegate("run", "--json")
    assert said.exit_code == 4, said.everything
    for (name, (column, _, secret)), outcome in zip(SQLITE.items(), said.document["streams"], strict=True):
        error = outcome["error"]
        assert error, name
        assert (error["code"], repr(column) in error["message"]) == ("schema_refused", True), (name, error)
        assert secret not in error["message"] + error["hint"], (name, error)
    assert not any(workspace.has_table(f"shop.{name}") and workspace.rows(f"shop.{name}") for name in streams)
    shop.sql(*(f"delete from orders{number} where id = 3" for number in range(len(SQLITE))))
    if kind == "full":
        said = tidegate("run", "orders0", "orders8", "--json")
        assert said.exit_code == 0, said.everything
        assert len(workspace.rows("shop.orders8")) == 2


# The last of each is what must not be told: nothing that an identifier or a time could hold by chance.
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


@pytest.mark.slow
@pytest.mark.postgres
def test_postgresql(tmp_path, capfd, spark, pg_url):
    workspace = Workspace(folder=tmp_path)
    streams = {}
    with psycopg.connect(pg_url, autocommit=True) as shop:
        for number, (declared, value, _) in enumerate(POSTGRESQL.values()):
            shop.execute(f"create table orders{number} (id int primary key, {declared})")
            shop.execute(f"insert into orders{number} values (1, null), (2, {value})")
            streams[f"orders{number}"] = {
                "source": {"connection": "shop", "table": f"orders{number}"},
                "target": f"lake.shop.orders{number}",
                "key": ["id"],
                "strategy": {"kind": "full"},
                "write": "merge",
            }
    for name in ("orders5", "orders6"):
        streams[name]["source"]["columns"] = {"price": "decimal(38,4)"}
    workspace.write(streams, connections={"shop": {"url": pg_url}})
    tidegate = Terminal(folder=tmp_path, capfd=capfd)
    said = tidegate("run", "--json")
    assert said.exit_code == 4, said.everything
    for (name, (declared, _, secret)), outcome in zip(POSTGRESQL.items(), said.document["streams"], strict=True):
        error = outcome["error"]
        assert error, name
        assert (error["code"], repr(declared.split()[0]) in error["message"]) == ("schema_refused", True), (name, error)
        assert secret not in said.everything, name
    assert not any(workspace.has_table(f"shop.{name}") and workspace.rows(f"shop.{name}") for name in streams)
    with psycopg.connect(pg_url, autocommit=True) as shop:
        shop.execute("delete from orders0 where id = 2")
    assert tidegate("run", "orders0").exit_code == 0
    assert len(workspace.rows("shop.orders0")) == 1


def test_text_of_any_length_and_kind_arrives_or_is_refused(tmp_path, capfd, spark):
    shop = SqliteShop(path=tmp_path / "shop.db")
    big = "randomblob(5000000)"
    shop.sql(
        "create table orders (id integer primary key not null, name text)",
        f"insert into orders values (1, hex({big})), (2, 'a' || char(0) || 'b'), (3, ''), (4, char(128512, 10, 13))",
    )
    workspace, tidegate = project(tmp_path, shop.url, capfd, {"kind": "full"})
    said = tidegate("run", "--json")
    found = {row["id"]: row["name"] for row in workspace.rows("shop.orders")}
    if said.exit_code == 0:
        assert found == dict(shop.rows("select id, name from orders"))
        assert (len(found[1]), found[2]) == (10_000_000, "a\0b")
    else:
        assert found == {}, said.everything
        assert "'name'" in said.error["message"], said.error


def test_text_that_is_no_utf8(tmp_path, capfd, spark):
    shop = SqliteShop(path=tmp_path / "shop.db")
    shop.sql(
        "create table orders (id integer primary key not null, name text)",
        "insert into orders values (1, 'a'), (2, 'b'), (3, 'c')",
    )
    workspace, tidegate = project(tmp_path, shop.url, capfd, {"kind": "full"})
    poisoned(
        workspace,
        tidegate,
        poison=lambda: shop.sql("insert into orders values (4, cast(x'73336372657480ff' as text))"),
        secret="s3cret",
        column="not UTF-8",
        cure=lambda: shop.sql("update orders set name = 'd' where id = 4"),
    )
