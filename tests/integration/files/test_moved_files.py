"""Files that get another path after they were loaded, in a project with a folder that no URL would take as it is."""

from __future__ import annotations

import sqlite3

import duckdb
import pyarrow as pa
import pytest
from pyarrow import parquet

from integration.files.conftest import Quick
from integration.files.landing import NAMED, good, idle, loaded, run, stream, write_csv

pytestmark = pytest.mark.spark


def test_rows_of_a_moved_file_are_loaded_once(workspace, landing, spark):
    keep = {"strategy": {"kind": "files", "on_move": "keep"}}
    workspace.write({"t": stream(f"{landing.name}/**/*.csv", **keep)})
    write_csv(landing / "a.csv", (1, "one"))
    good(workspace, "t", spark)
    (landing / "old").mkdir()
    (landing / "a.csv").rename(landing / "old" / "b.csv")
    assert good(workspace, "t", spark).rows_read == 0
    idle(workspace, "t")
    (landing / "old" / "b.csv").rename(landing / "c.csv")
    write_csv(landing / "new.csv", (2, "two"))
    good(workspace, "t", spark)
    assert loaded(workspace, "t", "id", "name") == [(1, "one"), (2, "two")]
    with workspace.project(spark) as project:
        assert project.verify("t").streams[0].equal is True
    write_csv(landing / "c.csv", (1, "other"))
    assert run(workspace, "t", spark).error.code == "plan"


def test_a_project_in_a_folder_with_any_name(tmp_path, spark):
    folder = tmp_path / "größe #1 100%25 a+b x=[1] 'q'&"
    folder.mkdir()
    workspace = Quick(folder=folder)
    landing = folder / "in #2? 50%"
    landing.mkdir()
    with sqlite3.connect(folder / "s #%.db") as own:
        own.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)")
        own.execute("INSERT INTO t VALUES (1, 'x')")
    with duckdb.connect(str(folder / "d #%.duckdb")) as other:
        other.execute("CREATE TABLE t AS SELECT 1::BIGINT AS id, 'x' AS v")
    write_csv(landing / "a?#%41.csv", (1, "x"), header=("id", "v"))
    parquet.write_table(pa.table({"id": [1], "v": ["x"]}), landing / "b #%20.parquet")
    (landing / "c+ %.json").write_text('{"id": 1, "v": "x"}\n')
    streams = {
        form: {"source": {"path": f"in #2[?] 50%/*.{form}", "file_name": "f"}, "target": f"lake.s.{form}", **NAMED}
        for form in ("csv", "parquet", "json")
    }
    for name in ("lite", "duck"):
        streams[name] = {"source": f"{name}.t", "target": f"lake.s.{name}", "strategy": "full", "write": "replace"}
    workspace.write(streams, connections={"lite": "sqlite:///s #%.db", "duck": "duckdb:///d #%.duckdb"})
    for name in streams:
        good(workspace, name, spark)
        (row,) = workspace.rows(f"s.{name}")
        assert {"id": 1, "v": "x"}.items() <= row.items(), name
