"""What Delta does and a load relies on, and what a load makes of a success that is none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.lake import Lake, make_delta_lake
from tidegate.core.plan import Mode
from tidegate.core.ports.format import Layout
from tidegate.core.schema import BIGINT, DATE, INT, REAL, TEXT, ChangeKind, Column, Schema, SchemaChange, decimal
from tidegate.core.schema import DOUBLE as WIDE
from tidegate.core.slices import Partition
from tidegate.errors import PositionMoved
from tidegate.formats.delta.staging import DeltaStaging
from tidegate.spark.session import Sessions
from tidegate.testing.contracts.lake import ROWS, UID, put

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

A, B, C = (1, "a", "2024-01-01T00:00:00"), (2, "b", "2024-01-02T00:00:00"), (3, "c", "2024-01-03T00:00:00")


@pytest.fixture
def lake(spark: Any, tmp_path: Path) -> Lake:
    return make_delta_lake(tmp_path, lambda lake: Sessions(borrowed=spark, lakes=[lake.spark_conf()]).load_session())


def stale(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes away the look before the write, as if the other one came right after it."""
    monkeypatch.setattr(DeltaStaging, "_need_base", lambda *_: None)


@pytest.mark.parametrize("mode", [Mode.APPEND, Mode.OVERWRITE, Mode.MERGE_ON_READ])
def test_what_delta_leaves_out_is_not_taken_for_written(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, mode: Mode
) -> None:
    target = lake.table()
    mine = lake.plan(target, mode)
    theirs = lake.load(target, Mode.APPEND, A, B)
    assert mine.position.sequence == theirs.position.sequence
    stale(monkeypatch)
    staging = lake.format.stage(lake.session, target, mine)
    version = lake.format.state(target, UID).snapshot
    with pytest.raises(PositionMoved, match="it was skipped"):
        put(staging, lake.rows(C), mode)
    assert lake.format.state(target, UID).snapshot == version, "Delta wrote nothing and called it a success"
    assert lake.format.state(target, UID).position == theirs.position
    assert lake.ids(target) == [1, 2]


def test_of_two_numbers_that_differ_both_land_and_the_second_is_told(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A registry that knows of higher numbers, and another runner between the look and the write."""
    target = lake.table()
    mine = lake.plan(target, Mode.APPEND)
    mine = replace(mine, position=replace(mine.position, sequence=7))
    lake.load(target, Mode.APPEND, A, B)
    stale(monkeypatch)
    with pytest.raises(PositionMoved, match="its rows are in the table, too"):
        lake.format.stage(lake.session, target, mine).append(lake.rows(A, B))


@pytest.mark.slow
def test_a_restore_brings_rows_and_position_back_and_keeps_the_number(lake: Lake) -> None:
    target = lake.table()
    first = lake.load(target, Mode.APPEND, A)
    lake.load(target, Mode.APPEND, B)
    version = int(lake.format.state(target, UID).snapshot or 0)
    lake.session.sql(f"RESTORE TABLE {lake.sql_name(target)} TO VERSION AS OF {version - 1}")
    state = lake.format.state(target, UID)
    assert (state.position, state.last_sequence) == (first.position, 2)
    again = lake.plan(target, Mode.APPEND)  # the sequence that only the position would give
    with pytest.raises(PositionMoved, match="skipped"):
        lake.format.stage(lake.session, target, again).append(lake.rows(B))
    right = replace(again, position=replace(again.position, sequence=state.last_sequence + 1))
    lake.format.stage(lake.session, target, right).append(lake.rows(B))
    assert lake.ids(target) == [1, 2]


def test_a_load_whose_reply_is_lost_has_landed(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.sql import DataFrameWriter

    target = lake.table()
    plan = lake.plan(target, Mode.APPEND)
    staging = lake.format.stage(lake.session, target, plan)
    save = DataFrameWriter.save

    def lose(*given: Any, **named: Any) -> None:
        save(*given, **named)
        raise ConnectionResetError

    monkeypatch.setattr(DataFrameWriter, "save", lose)
    staging.append(lake.rows(A, B))
    assert staging.publish().rows_inserted == 2
    assert lake.format.state(target, UID).position == plan.position


@pytest.mark.slow
def test_a_slice_is_replaced_in_one_commit_though_its_files_hold_other_rows(lake: Lake) -> None:
    target = lake.table()
    lake.load(target, Mode.APPEND, A, B, C, (11, "k", None), (12, "l", None))
    plan = lake.plan(target, Mode.OVERWRITE_PARTITIONS)
    staging = lake.format.stage(lake.session, target, plan)
    part = Partition(column="id", label="0", low="0", high="10")
    staging.overwrite(lake.rows((2, "x", None), (5, "y", None)), [part])
    assert sorted(row.id for row in staging.read_partitions([part]).collect()) == [2, 5]
    receipt = staging.publish()
    assert (receipt.rows_inserted, receipt.rows_deleted) == (2, 3)
    assert {row["id"]: row["name"] for row in lake.oracle(target)} == {2: "x", 5: "y", 11: "k", 12: "l"}


@pytest.mark.slow
def test_a_load_may_merge_twice(lake: Lake) -> None:
    """Rows of a key that is there several times all go, and the one that is wanted comes."""
    target = lake.table()
    lake.load(target, Mode.APPEND, A, A, B)
    staging = lake.format.stage(lake.session, target, lake.plan(target, Mode.MERGE_PARTITIONS))
    rows = lake.rows(A)
    staging.merge(rows.selectExpr("*", "true AS gone"), prune=(), skip_equal=False, delete_if="gone")
    assert [row.id for row in staging.read().collect()] == [2]
    staging.merge(rows.selectExpr("*", "false AS gone"), prune=(), skip_equal=False, delete_if="gone")
    assert lake.ids(target) == [1, 2]


ODD = Schema(columns=(Column(name="id", type=BIGINT), Column(name="a place", type=TEXT), Column(name="day", type=DATE)))


@pytest.mark.slow
def test_what_an_append_added_is_found_in_partitions_of_any_value(lake: Lake) -> None:
    target = lake.table(schema=ODD, layout=Layout(partition_by=("a place", "day")))
    rows = [(1, "x/y =%", "2024-01-01"), (2, None, "2024-01-02"), (3, "it's", None), (4, "🐘", "2024-01-01")]
    for part in (rows[:2], rows):
        plan = lake.plan(target, Mode.APPEND, columns=ODD)
        staging = lake.format.stage(lake.session, target, plan)
        frame = lake.session.createDataFrame(part, "id long, `a place` string, d string")
        staging.append(frame.selectExpr("id", "`a place`", "CAST(d AS date) AS day"))
        found = sorted((row["id"], row["a place"], str(row["day"])) for row in staging.read_added().collect())
        assert found == [(number, place, str(day)) for number, place, day in part]
    assert lake.ids(target) == [1, 1, 2, 2, 3, 4]


@pytest.mark.slow
def test_columns_widen_and_old_rows_are_read_as_wide(lake: Lake) -> None:
    narrow = Schema(
        columns=(
            Column(name="id", type=INT),
            Column(name="gone", type=TEXT),
            Column(name="share", type=REAL),
            Column(name="amount", type=decimal(5, 2)),
        )
    )
    target = lake.table(schema=narrow)
    lake.session.sql(f"INSERT INTO {lake.sql_name(target)} VALUES (1, 'kept', 1.5, 1.25)")
    wide = Schema(
        columns=(
            Column(name="id", type=BIGINT),
            Column(name="share", type=WIDE),
            Column(name="amount", type=decimal(9, 2)),
            Column(name="an odd; name", type=TEXT),
            ROWS.columns[2],
        )
    )
    changes = [
        SchemaChange(kind=kind, column=name, old=None, new=None)
        for kind, names in (
            (ChangeKind.ADD_COLUMN, ("an odd; name", "changed_at")),
            (ChangeKind.WIDEN, ("id", "share", "amount")),
        )
        for name in names
    ]
    lake.format.evolve(lake.session, target, changes, wide)
    told = {column.name: column.type for column in lake.format.state(target, UID).schema or ()}
    assert told == {**{column.name: column.type for column in wide}, "gone": TEXT}
    plan = lake.plan(target, Mode.APPEND, columns=wide)
    frame = lake.session.sql(
        "SELECT 5000000000 AS id, 2.5d AS share, 1234567.89 AS amount, 'x' AS `an odd; name`, "
        "timestamp_ntz'2024-01-01' AS changed_at"
    )
    staging = lake.format.stage(lake.session, target, plan)
    staging.append(frame)
    assert [row["an odd; name"] for row in staging.read_added().collect()] == ["x"]
    rows = {row["id"]: row for row in lake.format.read(lake.session, target, None).collect()}
    assert (rows[1]["share"], str(rows[1]["amount"]), rows[1]["gone"]) == (1.5, "1.25", "kept")
    assert (rows[5_000_000_000]["gone"], str(rows[5_000_000_000]["amount"])) == (None, "1234567.89")
