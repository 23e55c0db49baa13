"""A Delta table as made by default opens in every reader, after every kind of load and of schema change."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import polars as pl
import pytest

from support.lake import Lake, make_delta_lake
from tidegate.core.plan import Mode
from tidegate.core.ports.format import Layout
from tidegate.core.schema import TEXT, ChangeKind, Column, Schema, SchemaChange
from tidegate.spark.session import Sessions
from tidegate.testing.contracts.lake import ROWS

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

A, B, C = (1, "a", "2024-01-01T00:00:00"), (2, "b", "2024-01-02T00:00:00"), (3, "c", "2024-01-03T00:00:00")


def with_arrow(location: str) -> list[dict[str, Any]]:
    return deltalake.DeltaTable(location).to_pyarrow_table().to_pylist()


def with_pandas(location: str) -> list[dict[str, Any]]:
    return deltalake.DeltaTable(location).to_pandas().to_dict("records")


def with_polars(location: str) -> list[dict[str, Any]]:
    return pl.read_delta(location).to_dicts()


def with_duckdb(location: str) -> list[dict[str, Any]]:
    rows = deltalake.DeltaTable(location).to_pyarrow_dataset()
    with duckdb.connect() as connection:
        connection.register("rows", rows)
        found = connection.execute("SELECT * FROM rows")
        names = [column[0] for column in found.description or ()]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


READERS: dict[str, Callable[[str], list[dict[str, Any]]]] = {
    "arrow": with_arrow,
    "pandas": with_pandas,
    "polars": with_polars,
    "duckdb": with_duckdb,
}


@pytest.fixture
def lake(spark: Any, tmp_path: Path) -> Lake:
    return make_delta_lake(tmp_path, lambda lake: Sessions(borrowed=spark, lakes=[lake.spark_conf()]).load_session())


def seen(lake: Lake, target: Any) -> list[tuple[Any, Any]]:
    """Key and name of each row, sorted; the same in every reader."""
    location = lake.format._location(target).removeprefix("file://")
    found = {name: sorted((row["id"], row["name"]) for row in read(location)) for name, read in READERS.items()}
    assert found == dict.fromkeys(READERS, found["arrow"])
    return found["arrow"]


def protocol(lake: Lake, target: Any) -> dict[str, Any]:
    """What a reader has to understand, by the newest protocol of the table's log."""
    folder = Path(lake.format._location(target).removeprefix("file://")) / "_delta_log"
    found: dict[str, Any] = {}
    for commit in sorted(folder.glob("*.json")):
        for line in commit.read_text().splitlines():
            found = json.loads(line).get("protocol", found)
    return found


def test_a_default_table_opens_after_every_kind_of_change(lake: Lake) -> None:
    target = lake.table()
    assert seen(lake, target) == []
    lake.load(target, Mode.APPEND, A, B)
    lake.load(target, Mode.MERGE_ON_READ, (2, "B", B[2]), C)
    assert seen(lake, target) == [(1, "a"), (2, "B"), (3, "c")]
    name = lake.sql_name(target)
    lake.session.sql(f"DELETE FROM {name} WHERE id = 1")
    lake.session.sql(f"UPDATE {name} SET name = 'C' WHERE id = 3")
    assert seen(lake, target) == [(2, "B"), (3, "C")]
    more = Schema(columns=(*ROWS, Column(name="more", type=TEXT)))
    change = SchemaChange(kind=ChangeKind.ADD_COLUMN, column="more", old=None, new="string")
    lake.format.evolve(lake.session, target, [change], more)
    assert seen(lake, target) == [(2, "B"), (3, "C")]
    features = protocol(lake, target).get("readerFeatures") or []
    assert not {"deletionVectors", "columnMapping", "typeWidening"} & set(features)


def vectors(lake: Lake, target: Any) -> bool:
    """Whether a delete of one row of a file leaves the file as it is."""
    lake.load(target, Mode.APPEND, *((number, "x", A[2]) for number in range(1, 21)))
    lake.session.sql(f"DELETE FROM {lake.sql_name(target)} WHERE id = 1")
    log = lake.format._log(target)
    assert log is not None
    return any(file.get("deletionVector") for file in log.snapshot().files)


def test_deletion_vectors_only_where_they_are_asked_for(spark: Any, tmp_path: Path) -> None:
    """By the lake, or by the stream, which has the last word; such a table is loaded on."""

    def session(lake: Any) -> Any:
        return Sessions(borrowed=spark, lakes=[lake.spark_conf()]).load_session()

    for of_lake, of_stream in ((False, None), (True, None), (False, True), (True, False)):
        lake = make_delta_lake(tmp_path / f"{of_lake}{of_stream}", session, deletion_vectors=of_lake)
        target = lake.table(layout=Layout(deletion_vectors=of_stream))
        assert vectors(lake, target) is (of_lake if of_stream is None else of_stream), (of_lake, of_stream)
        if of_stream:
            lake.load(target, Mode.MERGE_ON_READ, (2, "B", B[2]), (21, "d", C[2]))
            expected = {2: "B", **dict.fromkeys(range(3, 21), "x"), 21: "d"}
            assert {row["id"]: row["name"] for row in lake.oracle(target)} == expected
