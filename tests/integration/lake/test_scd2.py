"""The writer scd2 on real tables, read back by PyIceberg: types, options and refusals.

That versions are a function of the changes, whatever their batches, is in `property/test_scd2.py` and the matrix. The
cases that dlt tests its scd2 by (`tests/load/pipeline/test_scd2.py`) are named in the tests that hold them.
"""

from __future__ import annotations

from datetime import UTC, timedelta
from typing import Any

import pytest

from support.dimension import NOW, Dimension, day, told
from support.lake import QUICK, Lake
from tidegate.core.effects import Apply, Insert, Mirror, Upsert
from tidegate.core.schema import BIGINT, DATE, TEXT, Column, Schema, array
from tidegate.core.slices import Keys, Partition
from tidegate.errors import CheckFailed, DuplicateKeys, VerifyFailed
from tidegate.spark import sql
from tidegate.testing.contracts.lake import UID
from tidegate.writers.scd2 import Scd2

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

ALL = Mirror()


@pytest.fixture(autouse=True)
def _quick(lake: Lake) -> None:
    for name, value in QUICK.items():
        lake.session.conf.set(name, value)


def columns(**types: Any) -> Schema:
    return Schema(columns=tuple(Column(name=name, type=kind) for name, kind in types.items()))


def ended(table: Dimension, *names: str) -> list[tuple[object, ...]]:
    """Values of the named columns, and whether the version has ended."""
    rows = [(*(row[name] for name in names), row["valid_to"] is not None) for row in table.rows()]
    return sorted(rows, key=str)


def test_nested_values_and_a_hash_of_the_user_s_are_columns_like_any_other(lake: Lake) -> None:
    """dlt's `child_table` and `user_provided_row_hash`: only tracked columns make versions, and nested ones may."""
    schema = columns(id=BIGINT, c1=TEXT, c2=array(BIGINT), seen=DATE)
    table = Dimension(lake=lake, cursor=(), schema=schema, writer=Scd2(track_history=("c2",)))
    table.load((1, "foo", [1], None), (2, "bar", [2, 3], None), effect=ALL)
    table.load((1, "foo", [1, 2], None), (2, "bar, same values", [2, 3], None), effect=ALL)
    assert ended(table, "id", "c1", "c2") == [
        (1, "foo", [1, 2], False),
        (1, "foo", [1], True),
        (2, "bar, same values", [2, 3], False),
    ]


def test_a_clock_that_went_back_ends_no_version_before_it_began(lake: Lake) -> None:
    """dlt's `boundary_timestamp`."""
    table = Dimension(lake=lake, cursor=())
    table.load((1, "a", None), (2, "b", None), effect=ALL, created_at=NOW)
    table.load((1, "c", None), effect=ALL, created_at=NOW - timedelta(days=2))
    assert [row for row in table.rows() if row["valid_to"] is not None and row["valid_to"] <= row["valid_from"]] == []
    assert ended(table, "id", "name") == [(1, "a", True), (1, "c", False), (2, "b", True)]


def test_a_part_of_compound_keys_closes_what_vanished_there_and_nothing_elsewhere(lake: Lake) -> None:
    """dlt's `merge_key_compound_natural_key` and `merge_key_partition`."""
    table = Dimension(lake=lake, cursor=(), schema=columns(id=BIGINT, day=TEXT, age=BIGINT), key=("id", "day"))
    table.load((1, "d1", 20), (2, "d1", 20), (1, "d2", 20), (4, "d2", 20), effect=Upsert())
    part = Partition(column="day", label="d1", prefix="d1", length=2)
    table.load((1, "d1", 30), (5, "d1", 20), effect=ALL, parts=(part,))
    assert ended(table, "id", "day", "age") == [
        (1, "d1", 20, True),
        (1, "d1", 30, False),
        (1, "d2", 20, False),
        (2, "d1", 20, True),
        (4, "d2", 20, False),
        (5, "d1", 20, False),
    ]


def test_a_log_is_dated_by_its_rows_or_by_the_load_in_its_order(lake: Lake) -> None:
    table = Dimension(lake=lake, cursor=())
    table.load((1, "a", None), (2, "x", None), effect=Insert())
    table.load(
        (1, "a", None, True, 1),
        (1, "b", None, False, 2),
        (1, "a", None, False, 3),
        (1, "a", None, False, 3),  # delivered twice
        (2, "x", None, True, 4),
        effect=Apply(),
    )
    rows = [(row["id"], row["name"], row["is_current"]) for row in sorted(table.rows(), key=lambda r: r["valid_from"])]
    assert [row for row in rows if row[0] == 1] == [(1, "a", False), (1, "b", False), (1, "a", True)]
    assert [row for row in rows if row[0] == 2] == [(2, "x", False)]
    starts = {(row["id"], row["name"], row["valid_from"].astimezone(UTC)) for row in table.rows()}
    loaded = NOW + timedelta(hours=1)
    assert {(1, "b", loaded), (1, "a", loaded + timedelta(microseconds=1))} <= starts

    dated = Dimension(lake=lake)
    dated.load((1, "a", day(1)), (2, "x", day(1)), (3, "y", day(1)))
    dated.load(
        (1, "b", day(3), False, 11),
        (1, "c", day(5), False, 13),
        (2, "x", day(1), True, 14),  # gone, and nothing follows
        (3, None, None, True, 15),  # gone by its key alone, and there again
        (3, "z", day(7), False, 16),
        (9, None, None, True, 19),  # never seen
        effect=Apply(),
    )
    # Nobody knows when the row went, but it was gone when the one that follows it in the log began.
    dated.load((2, "again", day(8), False, 20), effect=Apply())
    assert dated.seen() == [
        (1, "a", 1, 3, False),
        (1, "b", 3, 5, False),
        (1, "c", 5, None, True),
        (2, "x", 1, 8, False),
        (2, "again", 8, None, True),
        (3, "y", 1, 7, False),
        (3, "z", 7, None, True),
    ]


def test_only_tracked_columns_make_versions_and_the_others_are_updated_in_place(lake: Lake) -> None:
    table = Dimension(lake=lake, writer=Scd2(track_history=("name",)))
    table.load((1, "a", day(1)))
    table.load((1, "a", day(4)))
    assert table.seen("changed_at") == [(1, "a", 1, None, True, 4)]
    table.load((1, "b", day(6)), (1, "a", day(5)))
    assert table.seen("changed_at") == [(1, "a", 1, 6, False, 5), (1, "b", 6, None, True, 6)]
    checked = table.load((1, "b", day(9)), (1, "c", day(3)), (2, "x", day(2)))
    assert checked.compared.moved is None, "the newest of each key is newer than what was known"
    assert table.seen("changed_at") == [
        (1, "a", 1, 3, False, 5),
        (1, "c", 3, 5, False, 3),
        (1, "a", 5, 6, False, 5),
        (1, "b", 6, None, True, 9),
        (2, "x", 2, None, True, 2),
    ], "a version tells of the row that began it and of the last one that left it as it was"
    checked = table.load((1, "c", day(4)), (2, "y", day(3)))
    assert checked.compared.moved == (Keys(columns=("id",), values=(("2",),)),), (
        "of key 1 only what had been is known better"
    )


def test_what_follows_a_repair_at_the_source_is_current_whatever_the_runners_clock_says(lake: Lake) -> None:
    """The loads of a `Dimension` run more than a year after what its rows say."""
    table = Dimension(lake=lake)
    table.load((1, "a", day(1)), (2, "x", day(2)), (3, "gone", day(1)))
    table.load((2, "y", day(4)))
    keys = Keys(columns=("id",), values=tuple((str(number),) for number in range(1, 5)))
    # Changed without a later moment, changed with one that no load saw, gone, and missed.
    repaired = [(1, "b", day(1)), (2, "z", day(6)), (4, "missed", day(3))]
    table.load(*repaired, effect=ALL, parts=(keys,))
    step = "2024-01-01T00:00:00.000001"
    assert [row[:2] for row in table.seen() if row[4]] == [(1, "b"), (2, "z"), (4, "missed")]
    starts = {row["name"]: told(row["valid_from"]) for row in table.rows()}
    assert (starts["z"], starts["missed"]) == (6, 3)
    assert [row["valid_from"].isoformat()[:26] for row in table.rows() if row["name"] == "b"] == [step]
    assert [row[3] for row in table.seen() if row[1] == "gone"] == ["load 2"]
    table.load((1, "c", day(5)), (2, "w", day(7)), (4, "seen", day(4)))
    assert [row[:3] for row in table.seen() if row[4]] == [(1, "c", 5), (2, "w", 7), (4, "seen", 4)]


def test_numbers_hashes_and_a_far_date(lake: Lake) -> None:
    """Also of changes that come late, between two that are there."""
    writer = Scd2(
        valid_from="von", valid_to="bis", is_current="gilt", far_date="9999-12-31", version="nr", row_hash="hash"
    )
    table = Dimension(lake=lake, writer=writer)
    table.load((1, "a", day(1)), (1, "c", day(5)))
    table.load((1, "b", day(3)), (2, "x", day(2)))
    far = "9999-12-31T00:00:00"
    assert table.seen("nr") == [
        (1, "a", 1, 3, False, 1),
        (1, "b", 3, 5, False, 2),
        (1, "c", 5, far, True, 3),
        (2, "x", 2, far, True, 1),
    ]
    assert sorted(len(row["hash"]) for row in table.rows()) == [32] * 4
    assert len({row["hash"] for row in table.rows()}) == 4


def test_what_cannot_be_placed_is_refused_and_nothing_written(lake: Lake) -> None:
    table = Dimension(lake=lake)
    table.load((1, "a", day(1)))
    before = lake.format.state(table.target, UID)
    tied = "1 key .* different rows with the same sequence"
    for rows, error, match in (
        ([(1, "b", day(1)), (2, "x", day(2))], DuplicateKeys, tied),
        ([(7, "a", day(3)), (7, "b", day(3))], DuplicateKeys, tied),
        ([(7, "a", None)], CheckFailed, "1 row has no value in the sequence"),
        ([(None, "a", day(3))], CheckFailed, "1 row has no value in a key column"),
    ):
        with pytest.raises(error, match=match) as caught:
            table.load(*rows)
        assert any(word in caught.value.hint for word in ("tidegate", "write:", "query:"))
        after = lake.format.state(table.target, UID)
        assert (after.snapshot, after.position, after.branches) == (before.snapshot, before.position, ())


def test_a_snapshot_with_a_sequence_takes_its_dates_and_refuses_to_go_back(lake: Lake) -> None:
    table = Dimension(lake=lake, writer=Scd2(sequence_by=("changed_at",)), cursor=())
    table.load((1, "a", day(1)), (2, "x", day(1)), effect=ALL)
    table.load((1, "b", day(5)), effect=ALL)
    assert table.seen() == [(1, "a", 1, 5, False), (1, "b", 5, None, True), (2, "x", 1, "load 1", False)]
    table.load((1, "b", day(5)), (2, "x", day(1)), effect=ALL)
    again = [(2, "x", 1, "load 1", False), (2, "x", "load 2", None, True)]
    assert table.seen()[2:] == again, "it was not there in between"
    table.load((1, "b", day(5)), (2, "x", day(1)), effect=ALL)
    assert table.seen()[2:] == again
    with pytest.raises(CheckFailed, match="older sequence"):
        table.load((1, "old", day(2)), (2, "x", day(1)), effect=ALL)
    with pytest.raises(DuplicateKeys, match="different rows with the same sequence"):
        table.load((1, "other", day(5)), (2, "x", day(1)), effect=ALL)
    with pytest.raises(DuplicateKeys, match="several rows with the same key"):
        table.load((1, "b", day(5)), (1, "b", day(6)), effect=ALL)


def test_two_current_rows_that_somebody_wrote_are_found_before_anything_is_published(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tidegate.writers.scd2 import versions

    table = Dimension(lake=lake)
    table.load((1, "a", day(1)), (2, "x", day(1)))
    lake.session.sql(
        f"INSERT INTO {sql.table(table.target)} "
        "SELECT id, 'foreign', changed_at, valid_from + INTERVAL 1 DAY, valid_to, is_current "
        f"FROM {sql.table(table.target)} WHERE id = 1"
    )
    table.load((2, "y", day(3)))
    # A load whose history is made as if the foreign version were not there.
    whole = versions._stored
    monkeypatch.setattr(versions, "_stored", lambda *given: whole(*given).where("name <> 'foreign'"))
    with pytest.raises(VerifyFailed, match="1 key"):
        table.load((1, "b", "2024-01-01T00:00:05"))


def test_what_ended_before_the_first_change_lies_in_files_of_its_own(lake: Lake) -> None:
    table = Dimension(lake=lake)
    for number in range(1, 5):
        checked = table.load(*((key, f"v{number}", day(number)) for key in range(3)))
    assert checked.dated.touched is not None
    known = lake.format._where.table(table.target)  # type: ignore[union-attr]
    whole = [task.file.file_path for task in known.scan().plan_files()]
    ended_files = known.scan(row_filter="is_current == false and valid_to >= '2024-01-04T00:00:00'").plan_files()
    current = known.scan(row_filter="is_current == true").plan_files()
    assert len(set(whole)) >= 4
    assert len({task.file.file_path for task in ended_files}) == 1
    assert len({task.file.file_path for task in current}) < len(set(whole)) - 1
