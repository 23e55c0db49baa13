"""Names of every kind go through the whole way, or are refused before anything happens; none becomes syntax."""

import psycopg
import pytest
from psycopg import sql

from integration.cli.terminal import Terminal
from support.workspace import SqliteShop, Workspace
from tidegate.core.ids import join_name

pytestmark = pytest.mark.spark

NAMES = {
    "injection": '"; drop table canary;--',
    "quotes": 'it\'s "quoted"',
    "backticks": "`a``b`",
    "placeholders": "$x {y} %(a)s %s :b $1",
    "dots": "a.b..c",
    "blanks": "two  blanks",
    "emoji": "🙂 ñandú 表",
    "reserved": "select",
    "operators": "a=b;c,(d)[e]{f}<g>|h~i",
    "slashes": "../a\\b/c",
    "longest": "x" * 63,
    "backslash_n": "line\\nfeed",
}


def stream(name: str, target: list[str], **source) -> dict:
    return {
        "source": {"connection": "the shop", **source},
        "target": target,
        "key": [name],
        "strategy": {"kind": "watermark", "column": f"{name}.at"[:63], "clock": "database"},
        "write": "merge",
    }


def written(name: str) -> str:
    """As a project file holds it: `$${` stands for a plain `${`."""
    return name.replace("${", "$${")


def table(workspace: Workspace, *parts: str):
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog("lake", uri=f"sqlite:///{workspace.folder / '.tidegate' / 'catalog.db'}")
    return catalog.load_table(parts)


def loads_twice(tidegate: Terminal, workspace: Workspace, name: str, change) -> None:
    """Two loads, and PyIceberg sees what the source holds under the names that it has."""
    said = tidegate("run", "--json")
    assert said.exit_code == 0, said.everything
    change()
    said = tidegate("run", name, "--json")
    assert said.exit_code == 0, said.everything
    (outcome,) = said.document["streams"]
    assert (outcome["stream"], outcome["rows_read"], outcome["verified"]) == (name, 2, True)
    assert tidegate("run", name, "--json").document["streams"][0]["outcome"] == "unchanged"
    rows = table(workspace, name, name).scan().to_arrow().to_pylist()
    assert sorted((row[name], row[f"{name}.amount"[:63]]) for row in rows) == [(1, "one"), (2, "zwei"), (3, "three")]


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_sqlite(tmp_path, capfd, spark, name):
    quoted, amount, at = ('"' + text[:63].replace('"', '""') + '"' for text in (name, f"{name}.amount", f"{name}.at"))
    if len(name) == 63:
        pytest.skip("SQLite knows no such limit; PostgreSQL's test has it")
    shop = SqliteShop(path=tmp_path / "shop.db")
    shop.sql(
        "create table canary (id integer)",
        f"create table {quoted} ({quoted} integer primary key not null, {amount} text, {at} timestamp)",
        f"insert into {quoted} values (1, 'one', '2025-01-01 00:00:00'), (2, 'two', '2025-01-02 00:00:00')",
    )
    workspace = Workspace(folder=tmp_path)
    odd = written(name)
    streams = {name: {**stream(odd, ["lake", odd, odd], table=quoted.replace("${", "$${"))}}
    workspace.write(streams, connections={"the shop": {"url": shop.url}})
    tidegate = Terminal(folder=tmp_path, capfd=capfd)

    def change() -> None:
        shop.sql(
            f"update {quoted} set {amount} = 'zwei', {at} = '2025-01-03 00:00:00' where {quoted} = 2",
            f"insert into {quoted} values (3, 'three', '2025-01-03 00:00:00')",
        )

    loads_twice(tidegate, workspace, name, change)
    assert shop.rows("select count(*) from canary") == [(0,)]


@pytest.mark.postgres
@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_postgresql(tmp_path, capfd, spark, postgres, name):
    database = postgres.create_database(name)
    try:
        names = [sql.Identifier(text[:63]) for text in (name, f"{name}.amount", f"{name}.at")]
        whole = sql.SQL("{0}.{0}").format(names[0])
        with psycopg.connect(database, autocommit=True) as admin:
            admin.execute("create table canary (id int)")
            admin.execute(sql.SQL("create schema {}").format(names[0]))
            columns = (
                sql.SQL("({} int primary key, {} text, {} timestamp)").format(*names)
                if len(name) < 63
                else (sql.SQL("({} int primary key, amount text, at timestamp)").format(names[0]))
            )
            admin.execute(sql.SQL("create table {} {}").format(whole, columns))
            rows = "(1, 'one', '2025-01-01'), (2, 'two', '2025-01-02')"
            admin.execute(sql.SQL("insert into {} values " + rows).format(whole))
        workspace = Workspace(folder=tmp_path)
        odd = written(name)
        one = stream(odd, ["lake", odd, odd], table='"{0}"."{0}"'.format(odd.replace('"', '""')))
        if len(name) == 63:
            one["strategy"]["column"] = "at"
        workspace.write({name: one}, connections={"the shop": {"url": database}})
        tidegate = Terminal(folder=tmp_path, capfd=capfd)

        def change() -> None:
            with psycopg.connect(database, autocommit=True) as admin:
                admin.execute(sql.SQL("delete from {} where {} = 2").format(whole, names[0]))
                rows = "(2, 'zwei', '2025-01-03'), (3, 'three', '2025-01-03')"
                admin.execute(sql.SQL("insert into {} values " + rows).format(whole))

        if len(name) == 63:
            said = tidegate("run", "--json")
            assert said.exit_code == 0, said.everything
            rows = table(workspace, name, name).scan().to_arrow().to_pylist()
            assert sorted((row[name], row["amount"]) for row in rows) == [(1, "one"), (2, "two")]
        else:
            loads_twice(tidegate, workspace, name, change)
        with psycopg.connect(database) as reader:
            assert reader.execute("select count(*) from canary").fetchone() == (0,)
    finally:
        postgres.drop_database(name)


def test_a_name_with_a_zero_byte_or_without_a_letter_is_refused(tmp_path, capfd):
    shop = SqliteShop(path=tmp_path / "shop.db")
    shop.sql("create table canary (id integer)")
    workspace = Workspace(folder=tmp_path)
    tidegate = Terminal(folder=tmp_path, capfd=capfd)
    odd = (["lake", "a\0b", "c"], ["lake", "", "c"], ["lake", " a", "c"], ["lake", "a", "$${x}"], "lake..c", "lake.c")
    for target in odd:
        one = {"source": {"connection": "s", "table": "canary"}, "target": target, "strategy": {"kind": "full"}}
        workspace.write({"canary": {**one, "write": "replace"}}, connections={"s": {"url": shop.url}})
        tidegate("run").refuses("config", 2, "target")
        assert not (tmp_path / ".tidegate" / "catalog.db").exists()


def test_the_text_of_a_target_is_its_parts():
    from tidegate.core.ids import split_name

    for name in NAMES.values():
        assert split_name(join_name(("lake", name, name))) == ("lake", name, name)
