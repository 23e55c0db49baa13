"""`verify --repair` by every type of key: the table is the source's again, and no other row was touched."""

from __future__ import annotations

import json
from pathlib import Path

import psycopg
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from support.lake import QUICK, delta_rows
from support.workspace import Workspace
from tidegate.formats.delta import Delta

pytestmark = [pytest.mark.spark, pytest.mark.postgres, pytest.mark.timeout(900), pytest.mark.slow]

VALUES = {
    "uuid": ("uuid", [f"123e4567-e89b-12d3-a456-42661417400{n}" for n in range(6)]),
    "bytes": ("bytea", [f"\\x00{n}f" for n in range(6)]),
    "address": ("inet", ["10.0.0.1", "10.0.0.1/24", "::1", "::2", "2001:db8::/32", "10.1.0.0/16"]),
}
DAYS = [f"2025-01-0{n}" for n in range(1, 7)]
STRATEGY = {"kind": "watermark", "column": "at"}


def streams() -> dict:
    """One of each type, in either format by turns; and one whose key is two columns."""
    found = {}
    for place, name in enumerate([*VALUES, "both"]):
        key = ["k"] if name != "both" else ["k", "flag", "day"]
        target = f"{('ice', 'del')[place % 2]}.out.{name}"
        source = {"connection": "shop", "table": f"t_{name}"}
        found[name] = {"source": source, "target": target, "key": key, "strategy": STRATEGY, "write": "merge"}
    return found


def place(project, name: str) -> str:
    """The table as Spark's SQL names it."""
    (stream,) = project.streams(name)
    location = stream.format._location(stream.target) if isinstance(stream.format, Delta) else None
    return f"delta.`{location}`" if location else str(stream.target)


def read(workspace: Workspace, spark, name: str) -> list[dict]:
    """What PyIceberg or delta-rs reads, with texts for values."""
    with workspace.project(spark) as project:
        (stream,) = project.streams(name)
    if isinstance(stream.format, Delta):
        rows = delta_rows(stream.format._location(stream.target))
    else:
        catalog = SqlCatalog("ice", uri=f"sqlite:///{workspace.folder / '.tidegate' / 'catalog.db'}")
        rows = catalog.load_table(("out", name)).scan().to_arrow().to_pylist()
    return sorted(rows, key=lambda row: json.dumps(row, default=str))


def damaged(name: str, table: str) -> list[str]:
    """A row lost, one changed, one too many; what a person with SQL does to a table."""
    flag = ", flag, day" if name == "both" else ""
    other = "'00000000-0000-0000-0000-00000000000f'" if name == "both" else "k"
    extra = f"INSERT INTO {table} (k, v, at{flag}) SELECT {other}, 77, at{flag} FROM {table} WHERE v = 5"
    return [f"DELETE FROM {table} WHERE v = 1", f"UPDATE {table} SET v = 99 WHERE v = 2", extra]


def test_every_type_of_key_is_repaired(tmp_path: Path, pg_url: str, spark) -> None:
    with psycopg.connect(pg_url, autocommit=True) as connection:
        for name, (kind, values) in VALUES.items():
            connection.execute(f"CREATE TABLE t_{name} (k {kind} PRIMARY KEY, v integer, at timestamp)")
            for v, value in enumerate(values):
                row = (value, v, f"2025-01-0{v + 1}")
                connection.execute(f"INSERT INTO t_{name} VALUES (%s, %s, %s)", row)
        connection.execute(
            "CREATE TABLE t_both (k uuid, flag boolean, day date, v integer, at timestamp, PRIMARY KEY (k, flag, day))"
        )
        for v in range(6):
            row = (VALUES["uuid"][1][v % 2], v % 3 == 0, DAYS[v // 2], v, DAYS[v])
            connection.execute("INSERT INTO t_both VALUES (%s, %s, %s, %s, %s)", row)
    workspace = Workspace(folder=tmp_path)
    lakes = {"ice": {"format": "iceberg"}, "del": {"format": "delta"}}
    workspace.write(streams(), connections={"shop": {"url": pg_url}}, lakes=lakes, spark={"conf": QUICK})
    loads = workspace.run(spark=spark).streams
    assert [(load.stream, load.error) for load in loads if load.error] == []
    before = {name: read(workspace, spark, name) for name in streams()}
    assert {name: len(rows) for name, rows in before.items()} == dict.fromkeys(streams(), 6)
    with workspace.project(spark) as project:
        session = project.sessions.load_session()
        for name in streams():
            for statement in damaged(name, place(project, name)):
                session.sql(statement)
        project.sessions.release(session)
        found = project.verify(level="rows").streams
        assert [each.error for each in found] == [None] * 4
        assert {each.stream: each.rows_different for each in found} == dict.fromkeys(streams(), 3)
        mended = project.verify(repair=True).streams
    assert [(each.stream, each.error) for each in mended if each.error] == []
    assert {each.stream: (each.equal, each.repaired_rows) for each in mended} == dict.fromkeys(streams(), (True, 3))
    assert {name: read(workspace, spark, name) for name in streams()} == before
