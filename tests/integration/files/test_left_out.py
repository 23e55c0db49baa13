"""Columns of files that a stream leaves out: never in the table, whatever they hold, and no reason to change it."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc, parquet

from integration.files.landing import good, idle, loaded, run, stream

fastavro = pytest.importorskip("fastavro")
pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

SENTINEL = "never-to-be-seen-outside"


def _csv(path: Path, rows: list[dict[str, Any]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def _json(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def _avro(path: Path, rows: list[dict[str, Any]]) -> None:
    types = {int: "long", str: "string", list: {"type": "array", "items": "string"}}
    inner = {"type": "record", "name": "inner", "fields": [{"name": "a", "type": "string"}]}
    fields = [{"name": name, "type": types.get(type(value), inner)} for name, value in rows[0].items()]
    with path.open("wb") as file:
        fastavro.writer(file, fastavro.parse_schema({"type": "record", "name": "r", "fields": fields}), rows)


WRITERS: dict[str, Callable[[Path, list[dict[str, Any]]], None]] = {
    "csv": _csv,
    "json": _json,
    "parquet": lambda path, rows: parquet.write_table(pa.Table.from_pylist(rows), path),
    "orc": lambda path, rows: orc.write_table(pa.Table.from_pylist(rows), path),
    "avro": _avro,
}


def held(workspace) -> list[str]:
    """Files of the project beside its sources in which the value of the column stands."""
    folders = (workspace.folder / name for name in (".tidegate", "warehouse"))
    files = (path for folder in folders if folder.exists() for path in folder.rglob("*") if path.is_file())
    return [path.name for path in files if SENTINEL.encode() in path.read_bytes()]


@pytest.mark.parametrize("form", WRITERS)
def test_what_is_left_out_never_arrives_in_any_format(workspace, landing, spark, form):
    write = WRITERS[form]
    chosen = {"source": {"exclude": ["secret"], "file_name": "from_file"}}
    workspace.write({"t": stream(f"{landing.name}/*.{form}", **chosen)}, connections={})
    write(landing / f"1.{form}", [{"id": 1, "secret": {"a": SENTINEL}, "name": "one"}])
    good(workspace, "t", spark)
    write(landing / f"2.{form}", [{"secret": SENTINEL, "id": 2, "name": "two"}])  # of another type, at another place
    write(landing / f"3.{form}", [{"id": 3, "name": "three"}])
    good(workspace, "t", spark)
    write(landing / f"4.{form}", [{"id": 4, "name": "four"}])
    good(workspace, "t", spark)
    idle(workspace, "t")
    rows = [(number, name, f"{number}.{form}") for number, name in enumerate(("one", "two", "three", "four"), 1)]
    assert loaded(workspace, "t", "id", "name", "from_file") == rows
    assert [field.name for field in workspace.table("s.t").schema().fields] == ["id", "name", "from_file"]
    assert held(workspace) == []
    with workspace.project(spark) as project:
        assert project.verify("t", level="rows").streams[0].equal is True


@pytest.mark.parametrize("form", ["csv", "json", "parquet"])
@pytest.mark.parametrize(("strategy", "write"), [("files", "merge"), ("full", "replace"), ("snapshot_diff", "merge")])
def test_only_what_is_included_arrives_and_tells_rows_apart(workspace, landing, spark, form, strategy, write):
    chosen = {"source": {"include": ["id", "n*"]}, "strategy": strategy, "write": write, "key": ["id"]}
    workspace.write({"t": stream(f"{landing.name}/*.{form}", **chosen)}, connections={})
    file = landing / f"1.{form}"
    WRITERS[form](file, [{"id": 1, "secret": SENTINEL, "name": "one"}, {"id": 2, "secret": "b", "name": "two"}])
    good(workspace, "t", spark)
    WRITERS[form](file, [{"id": 1, "secret": 7, "name": "one"}, {"id": 2, "secret": 8, "name": "zwei"}])
    changed = good(workspace, "t", spark)
    assert loaded(workspace, "t", "id", "name") == [(1, "one"), (2, "zwei")]
    assert strategy != "snapshot_diff" or (changed.rows_updated, changed.rows_inserted) == (1, 0)
    assert [field.name for field in workspace.table("s.t").schema().fields] == ["id", "name"]
    assert held(workspace) == []
    assert WRITERS[form](file, [{"id": 1, "secret": 9, "name": "one"}, {"id": 2, "secret": 9, "name": "zwei"}]) is None
    same = good(workspace, "t", spark)
    assert strategy != "snapshot_diff" or (same.rows_updated, same.rows_inserted, same.rows_deleted) == (0, 0, 0)


@pytest.mark.parametrize("form", WRITERS)
def test_a_name_that_no_file_has_is_an_error(workspace, landing, spark, form):
    """It may be the column that must not be read, under a wrong name."""
    workspace.write({"t": stream(f"{landing.name}/*.{form}", source={"exclude": ["sercet"]})}, connections={})
    WRITERS[form](landing / f"1.{form}", [{"id": 1, "secret": SENTINEL}])
    refused = run(workspace, "t", spark).error
    assert refused.code == "config"
    assert "has no column 'sercet'; did you mean 'secret'?" in refused.message
    assert not workspace.has_table("s.t")
    assert held(workspace) == []


def test_folders_and_columns_that_came_later(workspace, landing, spark):
    chosen = {"source": {"exclude": ["region", "mail*"]}}
    workspace.write({"t": stream(f"{landing.name}/**/*.parquet", **chosen)}, connections={})
    (landing / "region=eu").mkdir()
    WRITERS["parquet"](landing / "region=eu" / "1.parquet", [{"id": 1}])
    good(workspace, "t", spark)
    WRITERS["parquet"](landing / "region=eu" / "2.parquet", [{"id": 2, "mail": SENTINEL, "mail_2": [SENTINEL]}])
    WRITERS["parquet"](landing / "region=eu" / "3.parquet", [{"mail": SENTINEL}])  # none of the columns is read
    good(workspace, "t", spark)
    assert [row["id"] for row in workspace.rows("s.t")] == [1, 2, None]
    assert [field.name for field in workspace.table("s.t").schema().fields] == ["id"]
    assert held(workspace) == []
