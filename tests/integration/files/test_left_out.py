"""Columns of files that a stream leaves out: never in the table nor in any file, whatever they hold.

That their changes are no reason for a load to change anything is in the matrix, which leaves one out everywhere.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc, parquet

from integration.files.landing import good, loaded, run, stream

fastavro = pytest.importorskip("fastavro")
pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

SENTINEL = "never-to-be-seen-outside"


def _csv(path: Path, rows: list[dict[str, Any]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def _json(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def _avro(path: Path, rows: list[dict[str, Any]]) -> None:
    types = {int: "long", str: "string"}
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


def test_what_is_left_out_never_arrives_in_any_format(workspace, landing, spark):
    chosen = {"source": {"exclude": ["secret"], "file_name": "from_file"}}
    workspace.write({form: stream(f"{landing.name}/*.{form}", form, **chosen) for form in WRITERS})
    for form, write in WRITERS.items():
        write(landing / f"1.{form}", [{"id": 1, "secret": {"a": SENTINEL}, "name": "one"}])
        good(workspace, form, spark)
        write(landing / f"2.{form}", [{"secret": SENTINEL, "id": 2, "name": "two"}])  # another type, another place
        write(landing / f"3.{form}", [{"id": 3, "name": "three"}])
        good(workspace, form, spark)
        rows = [(number, name, f"{number}.{form}") for number, name in enumerate(("one", "two", "three"), 1)]
        assert loaded(workspace, form, "id", "name", "from_file") == rows
        assert workspace.table(f"s.{form}").schema().column_names == ["id", "name", "from_file"]
    assert held(workspace) == []


def test_a_name_that_no_file_has_is_an_error(workspace, landing, spark):
    """It may be the column that must not be read, under a wrong name."""
    wrong = {"source": {"exclude": ["sercet"]}}
    workspace.write({form: stream(f"{landing.name}/*.{form}", form, **wrong) for form in WRITERS})
    for form, write in WRITERS.items():
        write(landing / f"1.{form}", [{"id": 1, "secret": SENTINEL}])
        refused = run(workspace, form, spark).error
        assert (refused.code, "no column 'sercet'; did you mean 'secret'?" in refused.message) == ("config", True), form
    assert not any(workspace.has_table(f"s.{form}") for form in WRITERS)
    assert held(workspace) == []


def test_folders_are_left_out_and_only_what_is_included_tells_rows_apart(workspace, landing, spark):
    chosen = {"source": {"include": ["id", "n*"]}, "strategy": "snapshot_diff", "write": "merge", "key": ["id"]}
    left = {"source": {"exclude": ["region", "mail*"]}}
    workspace.write(
        {"diff": stream(f"{landing.name}/*.csv", "diff", **chosen), "t": stream(f"{landing.name}/**/*.parquet", **left)}
    )
    (landing / "region=eu").mkdir()
    _csv(landing / "1.csv", [{"id": 1, "secret": SENTINEL, "name": "one"}, {"id": 2, "secret": "b", "name": "two"}])
    WRITERS["parquet"](landing / "region=eu" / "1.parquet", [{"id": 1}])
    for name in ("diff", "t"):
        good(workspace, name, spark)
    _csv(landing / "1.csv", [{"id": 1, "secret": 7, "name": "one"}, {"id": 2, "secret": 8, "name": "zwei"}])
    WRITERS["parquet"](landing / "region=eu" / "2.parquet", [{"id": 2, "mail": SENTINEL, "mail_2": [SENTINEL]}])
    WRITERS["parquet"](landing / "region=eu" / "3.parquet", [{"mail": SENTINEL}])  # none of the columns is read
    changed = good(workspace, "diff", spark)
    assert (changed.rows_updated, changed.rows_inserted) == (1, 0)
    good(workspace, "t", spark)
    assert workspace.rows("s.diff") == [{"id": 1, "name": "one"}, {"id": 2, "name": "zwei"}]
    assert workspace.rows("s.t") == [{"id": 1}, {"id": 2}, {"id": None}]
    assert held(workspace) == []
