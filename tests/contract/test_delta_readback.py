"""Rows that a load wrote to a Delta table, as PyArrow reads them: the ones that came, or none at all."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from support.lake import Lake, make_delta_lake
from tidegate.core.changes import ChangeSet
from tidegate.core.effects import Upsert
from tidegate.core.plan import Mode
from tidegate.core.ports.format import Layout
from tidegate.core.schema import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    INT,
    TEXT,
    TIMESTAMP,
    TIMESTAMPTZ,
    Column,
    Schema,
    decimal,
)
from tidegate.core.slices import Everything
from tidegate.spark.session import Sessions
from tidegate.testing.contracts.lake import ROWS, put
from tidegate.testing.frames import frame

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

DAYS = Layout(partition_by=("day",))
DATED = Schema(columns=(Column(name="id", type=BIGINT), Column(name="name", type=TEXT), Column(name="day", type=DATE)))
FIRST, LAST = datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999)  # noqa: DTZ001
EVERY = {
    "id": (BIGINT, [1, 2, 3]),
    "an; odd name": (TEXT, ["", "\U0001f418|~", None]),
    "small": (INT, [-(2**31), 2**31 - 1, None]),
    "exact": (decimal(38, 10), [Decimal("-1.0000000001"), Decimal(10**27), None]),
    "yes": (BOOLEAN, [True, False, None]),
    "day": (DATE, [date(1, 1, 1), date(9999, 12, 31), None]),
    "at": (TIMESTAMP, [FIRST, LAST, None]),
    "seen": (TIMESTAMPTZ, [FIRST.replace(tzinfo=UTC), LAST.replace(tzinfo=UTC), None]),
    "raw": (BINARY, [b"", b"\x00\xff", None]),
}


@pytest.fixture(params=[True, False], ids=["vectors", "rewritten"])
def lake(request: pytest.FixtureRequest, spark: Any, tmp_path: Path) -> Lake:
    made = partial(make_delta_lake, deletion_vectors=request.param)
    return made(tmp_path, lambda lake: Sessions(borrowed=spark, lakes=[lake.spark_conf()]).load_session())


def load(lake: Lake, target: Any, rows: Any, *, count: int, by: Mode, schema: Schema = ROWS, **plan: Any) -> Any:
    """Loads rows of a merge, and returns what is read of them."""
    changes = ChangeSet(slices=(Everything(),), effect=Upsert(), rows=count)
    made = lake.plan(target, Mode.MERGE_ON_READ, changes=changes, columns=schema, **plan)
    staging = lake.format.stage(lake.session, target, made)
    put(staging, rows, by)
    found = staging.written()
    staging.publish()
    return None if found is None else sorted(found.to_pylist(), key=lambda row: row[schema.names[0]])


@pytest.mark.slow
@pytest.mark.parametrize("layout", [Layout(), DAYS], ids=["flat", "by day"])
def test_a_key_counts_where_its_row_is_live(lake: Lake, layout: Layout) -> None:
    """Rows are deleted in place or with their file rewritten, compacted, and spread over partitions."""
    target = lake.table(DATED, layout=layout)
    vectors = lake.format.deletion_vectors

    def loaded(*ids: int, by: Mode = Mode.MERGE_ON_READ, name: str = "x") -> list[int] | None:
        rows = [{"id": id_, "name": name, "day": date(2025, 1, 1 + id_ % 2)} for id_ in ids]
        came = frame(lake.session, DATED.columns, rows)
        found = load(lake, target, came, count=len(ids), by=by, schema=DATED)
        assert found is None or all(row in rows for row in found if row["name"] == name)
        return None if found is None else [row["id"] for row in found]

    assert loaded(*range(1, 40), by=Mode.APPEND, name="old") == list(range(1, 40))
    merged = loaded(4, 41)
    assert merged == [4, 41] if vectors else set(merged or ()) >= {4, 41}
    assert loaded(5, 6, by=Mode.APPEND) is None, "they are live in the file that one row was taken from"
    assert loaded(4, 43, by=Mode.APPEND) is None, "live in a newer file"
    assert loaded(50, 51, by=Mode.APPEND) == [50, 51]
    staging = lake.format.stage(lake.session, target, lake.plan(target, Mode.MERGE_ON_READ, columns=DATED))
    staging.delete(lake.session.sql("SELECT 7L AS id"), prune=())
    staging.publish()
    assert loaded(7, by=Mode.APPEND) == [7], "deleted wherever it was"
    lake.compact(target)
    assert loaded(8, by=Mode.APPEND) is None
    assert loaded(60, by=Mode.APPEND) == [60]
    if vectors:
        assert loaded(1, 2) == [1, 2]
    assert sum(row["id"] == 8 for row in lake.oracle(target)) == 2


def test_values_of_every_type_are_those_that_came(lake: Lake) -> None:
    schema = Schema(columns=tuple(Column(name=name, type=kind) for name, (kind, _) in EVERY.items()))
    target = lake.table(schema)
    rows = [{name: values[place] for name, (_, values) in EVERY.items()} for place in range(3)]
    found = load(lake, target, frame(lake.session, schema.columns, rows), count=3, by=Mode.APPEND, schema=schema)
    assert found == rows


def test_a_widened_key_is_found_in_files_of_its_old_type(lake: Lake) -> None:
    narrow = Schema(columns=(Column(name="id", type=INT), Column(name="name", type=TEXT)))
    wide = Schema(columns=(Column(name="id", type=BIGINT), Column(name="name", type=TEXT)))
    target = lake.table(narrow)
    load(
        lake,
        target,
        frame(lake.session, narrow.columns, [{"id": 1, "name": "a"}]),
        count=1,
        by=Mode.APPEND,
        schema=narrow,
    )
    table = lake.sql_name(target)
    lake.session.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
    lake.session.sql(f"ALTER TABLE {table} ALTER COLUMN id TYPE bigint")
    again = frame(lake.session, wide.columns, [{"id": 1, "name": "b"}, {"id": 2**40, "name": "b"}])
    assert load(lake, target, again, count=2, by=Mode.APPEND, schema=wide) is None
    assert lake.session.sql(f"SELECT count(*) FROM {table} WHERE id = 1").first()[0] == 2
    third = frame(lake.session, wide.columns, [{"id": 2**41, "name": "c"}])
    assert load(lake, target, third, count=1, by=Mode.APPEND, schema=wide) == [{"id": 2**41, "name": "c"}]


def test_files_outside_the_table_are_left_to_spark(lake: Lake) -> None:
    """A shallow clone's files lie below the table that it was made from."""
    source, target = lake.table(), lake.table()
    load(lake, source, lake.rows((1, "a", None)), count=1, by=Mode.APPEND)
    log = f"{lake.format._location(target)}/_delta_log".removeprefix("file://")
    there = lake.format._location(source)
    commit = max(Path(f"{there}/_delta_log".removeprefix("file://")).glob("*.json"))
    add = next(line for line in commit.read_text().splitlines() if '"add"' in line)
    version = len(list(Path(log).glob("*.json")))
    Path(log, f"{version:020}.json").write_text(add.replace('"path":"', f'"path":"{there}/') + "\n")
    assert load(lake, target, lake.rows((1, "b", None)), count=1, by=Mode.APPEND) is None
