"""`verify --repair` by every type of key: the table is the source's again, and no other row was touched."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from support.lake import QUICK, delta_rows
from support.shops import PostgresShop
from support.workspace import Workspace

pytestmark = [pytest.mark.spark, pytest.mark.postgres, pytest.mark.timeout(900)]

VALUES = {
    "uuid": ("uuid", [f"123e4567-e89b-12d3-a456-42661417400{n}" for n in range(6)]),
    "bytes": ("bytea", [f"\\x00{n}f" for n in range(6)]),
    "address": ("inet", ["10.0.0.1", "10.0.0.1/24", "::1", "::2", "2001:db8::/32", "10.1.0.0/16"]),
}
KINDS = {name: ("ice", "del")[place % 2] for place, name in enumerate([*VALUES, "both"])}
"""One of each type, in either format by turns; and one whose key is two columns and a day."""


def place(folder: Path, name: str) -> str:
    """The table as Spark's SQL names it."""
    return f"ice.out.{name}" if KINDS[name] == "ice" else f"delta.`{folder / 'warehouse' / 'out' / name}`"


def read(folder: Path, name: str) -> list[dict]:
    """What PyIceberg or delta-rs reads."""
    if KINDS[name] == "del":
        rows = delta_rows(str(folder / "warehouse" / "out" / name))
    else:
        catalog = SqlCatalog("ice", uri=f"sqlite:///{folder / '.tidegate' / 'catalog.db'}")
        rows = catalog.load_table(("out", name)).scan().to_arrow().to_pylist()
    return sorted(rows, key=lambda row: json.dumps(row, default=str))


def damage(name: str, table: str) -> list[str]:
    """A row lost, one changed, one too many; what a person with SQL does to a table."""
    flag = ", flag, day" if name == "both" else ""
    other = "'00000000-0000-0000-0000-00000000000f'" if name == "both" else "k"
    extra = f"INSERT INTO {table} (k, v, at{flag}) SELECT {other}, 77, at{flag} FROM {table} WHERE v = 5"
    return [f"DELETE FROM {table} WHERE v = 1", f"UPDATE {table} SET v = 99 WHERE v = 2", extra]


def test_every_type_of_key_is_repaired(tmp_path: Path, pg_url: str, spark) -> None:
    shop, workspace = PostgresShop(url=pg_url), Workspace(folder=tmp_path)
    for name, (kind, values) in VALUES.items():
        rows = ", ".join(f"('{value}', {v}, '2025-01-0{v + 1}')" for v, value in enumerate(values))
        shop.sql(f"CREATE TABLE t_{name} (k {kind} PRIMARY KEY, v integer, at timestamp)")
        shop.sql(f"INSERT INTO t_{name} VALUES {rows}")
    uuids = VALUES["uuid"][1]
    both = (f"('{uuids[v % 2]}', {v % 3 == 0}, '2025-01-0{1 + v // 2}', {v}, '2025-01-0{v + 1}')" for v in range(6))
    key = "PRIMARY KEY (k, flag, day)"
    shop.sql(f"CREATE TABLE t_both (k uuid, flag boolean, day date, v integer, at timestamp, {key})")
    shop.sql(f"INSERT INTO t_both VALUES {', '.join(both)}")
    streams = {
        name: {
            "source": {"connection": "shop", "table": f"t_{name}"},
            "target": f"{kind}.out.{name}",
            "key": ["k"] if name != "both" else ["k", "flag", "day"],
            "strategy": {"kind": "watermark", "column": "at"},
            "write": "merge",
        }
        for name, kind in KINDS.items()
    }
    lakes = {"ice": {"format": "iceberg"}, "del": {"format": "delta"}}
    workspace.write(streams, connections={"shop": {"url": pg_url}}, lakes=lakes, spark={"conf": QUICK})
    assert {load.stream: load.error for load in workspace.run(spark=spark).streams} == dict.fromkeys(streams)
    before = {name: read(tmp_path, name) for name in streams}
    assert {name: len(rows) for name, rows in before.items()} == dict.fromkeys(streams, 6)
    with workspace.project(spark) as project:
        session = project.sessions.load_session()
        for name in streams:
            for statement in damage(name, place(tmp_path, name)):
                session.sql(statement)
        project.sessions.release(session)
        found = project.verify(level="rows").streams
        assert {each.stream: (each.error, each.rows_different) for each in found} == dict.fromkeys(streams, (None, 3))
        mended = project.verify(repair=True).streams
    assert {each.stream: (each.error, each.equal, each.repaired_rows) for each in mended} == dict.fromkeys(
        streams, (None, True, 3)
    )
    assert {name: read(tmp_path, name) for name in streams} == before
