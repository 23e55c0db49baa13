"""Columns that some files have by their folder's name and others themselves: every way of reading them agrees."""

from __future__ import annotations

import csv
import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pyarrow import orc, parquet

from integration.files.landing import good, stream
from integration.files.test_left_out import WRITERS
from support.workspace import Workspace

fastavro = pytest.importorskip("fastavro")
pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

DAYS = {"columns": {"day": "date"}}
BY_DAY = {"kind": "checksum", "method": "by_date", "column": "day", "period": "day"}


def _avro(path: Path) -> list[dict[str, Any]]:
    with path.open("rb") as file:
        return list(fastavro.reader(file))


def _csv(path: Path) -> list[dict[str, Any]]:
    with path.open(newline="") as file:
        return [{name: text or None for name, text in row.items()} for row in csv.DictReader(file)]


READERS = {
    "csv": _csv,
    "json": lambda path: [json.loads(line) for line in path.read_text().splitlines()],
    "parquet": lambda path: parquet.ParquetFile(path).read().to_pylist(),
    "orc": lambda path: orc.read_table(path).to_pylist(),
    "avro": _avro,
}


def written(landing: Path, form: str, name: str, *rows: dict[str, Any]) -> None:
    path = landing / f"{name}.{form}"
    path.parent.mkdir(exist_ok=True, parents=True)
    WRITERS[form](path, list(rows))


def there(landing: Path, form: str) -> list[tuple]:
    """What readers that are not Tidegate's find: a row's own day, else its folder's."""
    found = []
    for path in landing.rglob(f"*.{form}"):
        name, _, value = path.parent.name.partition("=")
        folder = {name: None if value == "__HIVE_DEFAULT_PARTITION__" else value} if value else {}
        for row in READERS[form](path):
            whole = {"day": None, **folder, **row}
            found.append((int(whole["id"]), whole["name"], whole["day"]))
    return sorted(found)


def held(workspace: Workspace, table: str) -> list[tuple]:
    days = ((row["id"], row["name"], row["day"]) for row in workspace.rows(f"s.{table}"))
    return sorted((number, name, day.isoformat() if isinstance(day, date) else day) for number, name, day in days)


def checked(workspace: Workspace, landing: Path, spark, *names: str) -> None:
    """Streams are named by how they read and what: the table holds every row, and `verify` says so."""
    for name in names:
        form = name.rpartition("_")[2]
        wanted = there(landing / form, form)
        assert held(workspace, name) == wanted, name
        with workspace.project(spark) as project:
            found = project.verify(name, level="rows").streams[0]
        assert (found.error, found.equal, found.source_rows) == (None, True, len(wanted)), name


def test_a_file_with_a_column_of_its_own_takes_no_other_file_s_folder(workspace, landing, spark):
    streams = {}
    for form in WRITERS:
        source = {"path": f"{landing.name}/{form}", "format": form}
        kept = {"source": source | DAYS, "write": "replace"}
        streams[f"sums_{form}"] = stream("", f"sums_{form}", **kept, strategy=BY_DAY)
        streams[f"inc_{form}"] = stream("", f"inc_{form}", source=source, write="merge", key=["id"])
    workspace.write(streams)

    def load() -> None:
        for outcome in workspace.run(spark=spark).streams:
            assert (outcome.error, outcome.verified) == (None, True), outcome.stream

    for form in WRITERS:
        written(landing / form, form, "day=2024-01-01/a", {"id": 1, "name": "a"})
        written(landing / form, form, "day=2024-01-02/b", {"id": 2, "name": "b"})
        written(landing / form, form, "day=__HIVE_DEFAULT_PARTITION__/n", {"id": 3, "name": "n"})
    load()
    for form in WRITERS:
        written(landing / form, form, "day=2024-01-03/c", {"id": 4, "name": "c", "day": "2024-02-29"})
        written(landing / form, form, "root", {"day": "2024-05-05", "id": 5, "name": "d"})
        written(landing / form, form, "none", {"id": 6, "name": "e"})
        written(landing / form, form, "day=2024-01-02/b", {"id": 2, "name": "bb"})
    # Each document for itself.
    written(landing / "json", "json", "day=2024-01-04/m", {"id": 7, "name": "f", "day": None}, {"id": 8, "name": "g"})
    load()
    checked(workspace, landing, spark, *streams)
    with workspace.project(spark) as project:
        for form in WRITERS:
            repaired = project.verify(f"inc_{form}", repair=True).streams[0]
            assert (repaired.error, repaired.equal, repaired.repaired_rows) == (None, True, 0), form


def test_rows_that_come_back_from_older_files_have_their_folders(workspace, landing, spark):
    """The load that removes the later file reads no file of a folder but for these rows."""
    source = {"path": f"{landing.name}/csv", "format": "csv", "file_name": "source_file"}
    removing = {"kind": "files", "on_delete": "remove"}
    workspace.write(
        {"t_csv": stream(f"{landing.name}/csv", "t_csv", source=source, strategy=removing, write="merge", key=["id"])}
    )
    written(landing / "csv", "csv", "day=2024-01-01/a", {"id": 1, "name": "a"}, {"id": 2, "name": "a"})
    good(workspace, "t_csv", spark)
    written(landing / "csv", "csv", "later", {"id": 1, "name": "b", "day": "2024-02-02"})
    good(workspace, "t_csv", spark)
    assert held(workspace, "t_csv") == [(1, "b", "2024-02-02"), (2, "a", "2024-01-01")]
    written(landing / "csv", "csv", "unfoldered", {"id": 3, "name": "c"})
    (landing / "csv" / "later.csv").unlink()
    good(workspace, "t_csv", spark)
    checked(workspace, landing, spark, "t_csv")
