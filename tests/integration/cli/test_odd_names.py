"""Names of every kind go through the whole way, each in a stream of one project; none becomes syntax."""

from contextlib import closing

import psycopg
import pytest
from psycopg import sql
from pyiceberg.catalog.sql import SqlCatalog

from integration.cli.terminal import Terminal
from support.workspace import SqliteShop, Workspace
from tidegate.core.ids import join_name, split_name

NAMES = (
    '"; drop table canary;--',
    'it\'s "quoted"',
    "`a``b`",
    "$x {y} %(a)s %s :b $1",
    "a.b..c",
    "two  blanks",
    "🙂 ñandú 表",
    "select",
    "a=b;c,(d)[e]{f}<g>|h~i",
    "../a\\b/c",
    "line\\nfeed",
)
FIRST = [(1, "one"), (2, "two")]
THEN = [(1, "one"), (2, "zwei"), (3, "three")]


def write(folder, url: str, tables: dict[str, str]) -> Workspace:
    """A project with a stream for each table, which is written as SQL has it; `$${` stands for a plain `${`."""
    streams = {}
    for name, table in tables.items():
        odd = name.replace("${", "$${")
        streams[name] = {
            "source": {"connection": "the shop", "table": table.replace("${", "$${")},
            "target": ["lake", odd, odd],
            "key": [odd],
            "strategy": {"kind": "watermark", "column": f"{odd}.at"[:63], "clock": "database"},
            "write": "merge",
        }
    workspace = Workspace(folder=folder)
    workspace.write(streams, connections={"the shop": {"url": url}})
    return workspace


def load(tidegate: Terminal, workspace: Workspace, names: list[str]) -> dict[str, list[tuple]]:
    """What PyIceberg reads of each table after a run, under the names that the source has."""
    said = tidegate("run", "--json")
    assert said.exit_code == 0, said.everything
    assert {each["stream"]: each["verified"] for each in said.document["streams"]} == dict.fromkeys(names, True)
    found = {}
    with closing(SqlCatalog("lake", uri=f"sqlite:///{workspace.folder / '.tidegate' / 'catalog.db'}")) as catalog:
        for name in names:
            rows = catalog.load_table((name, name)).scan().to_arrow().to_pylist()
            found[name] = sorted((row[name], row[f"{name}.amount"[:63]]) for row in rows)
    return found


@pytest.mark.spark
def test_sqlite(tmp_path, capfd, spark):
    shop = SqliteShop(path=tmp_path / "shop.db")
    shop.sql("create table canary (id integer)")
    tables, changes = {}, []
    for name in NAMES:
        quoted, amount, at = ('"' + text.replace('"', '""') + '"' for text in (name, f"{name}.amount", f"{name}.at"))
        tables[name] = quoted
        shop.sql(
            f"create table {quoted} ({quoted} integer primary key not null, {amount} text, {at} timestamp)",
            f"insert into {quoted} values (1, 'one', '2025-01-01 00:00:00'), (2, 'two', '2025-01-02 00:00:00')",
        )
        changes.append(f"update {quoted} set {amount} = 'zwei', {at} = '2025-01-03 00:00:00' where {quoted} = 2")
        changes.append(f"insert into {quoted} values (3, 'three', '2025-01-03 00:00:00')")
    workspace, tidegate = write(tmp_path, shop.url, tables), Terminal(folder=tmp_path, capfd=capfd)
    assert load(tidegate, workspace, list(NAMES)) == dict.fromkeys(NAMES, FIRST)
    shop.sql(*changes)
    assert load(tidegate, workspace, list(NAMES)) == dict.fromkeys(NAMES, THEN)
    assert {each["outcome"] for each in tidegate("run", "--json").document["streams"]} == {"unchanged"}
    assert shop.rows("select count(*) from canary") == [(0,)]


@pytest.mark.postgres
@pytest.mark.spark
def test_postgresql(tmp_path, capfd, spark, postgres):
    """The database and a column have names of 63 letters, the most that there may be."""
    longest = "x" * 63
    names, database = [*NAMES, "y" * 56], postgres.create_database(longest)
    try:
        with psycopg.connect(database, autocommit=True) as admin:
            admin.execute("create table canary (id int)")
            for name in names:
                columns = [sql.Identifier(text) for text in (name, f"{name}.amount", f"{name}.at")]
                admin.execute(sql.SQL("create schema {}").format(columns[0]))
                statement = "create table {0}.{0} ({0} int primary key, {1} text, {2} timestamp)"
                admin.execute(sql.SQL(statement).format(*columns))
                statement = "insert into {0}.{0} values (1, 'one', '2025-01-01'), (2, 'two', '2025-01-02')"
                admin.execute(sql.SQL(statement).format(columns[0]))
        tables = {name: '"{0}"."{0}"'.format(name.replace('"', '""')) for name in names}
        workspace, tidegate = write(tmp_path, database, tables), Terminal(folder=tmp_path, capfd=capfd)
        assert load(tidegate, workspace, names) == dict.fromkeys(names, FIRST)
        with psycopg.connect(database, autocommit=True) as admin:
            for name in map(sql.Identifier, names):
                admin.execute(sql.SQL("delete from {0}.{0} where {0} = 2").format(name))
                statement = "insert into {0}.{0} values (2, 'zwei', '2025-01-03'), (3, 'three', '2025-01-03')"
                admin.execute(sql.SQL(statement).format(name))
        assert load(tidegate, workspace, names) == dict.fromkeys(names, THEN)
        with psycopg.connect(database) as reader:
            assert reader.execute("select count(*) from canary").fetchone() == (0,)
    finally:
        postgres.drop_database(longest)


def test_the_text_of_a_target_is_its_parts():
    for name in NAMES:
        assert split_name(join_name(("lake", name, name))) == ("lake", name, name)
