"""The writer scd2 on real tables of both formats, read back by PyIceberg and delta-rs, against a history in Python."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from support.dimension import NOW, Dimension, day, told
from support.lake import QUICK, Lake, make_delta_lake, make_lake
from support.scd2_model import Change, versions
from tidegate.core.effects import Apply, Insert, Mirror
from tidegate.core.slices import Keys
from tidegate.errors import CheckFailed, DuplicateKeys, VerifyFailed
from tidegate.spark import sql
from tidegate.spark.session import Sessions
from tidegate.testing.contracts.lake import UID
from tidegate.writers.scd2 import Scd2

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600), pytest.mark.slow]


@pytest.fixture(params=["iceberg", "delta"])
def any_lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    spark = request.getfixturevalue("spark")
    make = make_lake if request.param == "iceberg" else make_delta_lake
    lake = make(tmp_path, lambda lake: Sessions(borrowed=spark, lakes=[lake.spark_conf()]).load_session())
    for name, value in QUICK.items():
        lake.session.conf.set(name, value)
    return lake


def test_changes_in_any_order_land_in_their_place(any_lake: Lake) -> None:
    table = Dimension(lake=any_lake)
    table.load((1, "a", day(1)), (2, "x", day(2)))
    assert table.seen() == [(1, "a", 1, None, True), (2, "x", 2, None, True)]
    table.load((1, "c", day(5)), (1, "d", day(9)), (3, "new", day(6)))
    late = [(1, "a", 1, 5, False), (1, "c", 5, 9, False), (1, "d", 9, None, True)]
    assert table.seen()[:3] == late
    # Late: before all, between two closed ones, and again what is there already.
    table.load((1, "b", day(3)), (2, "w", day(1)), (1, "c", day(5)))
    assert table.seen() == [
        (1, "a", 1, 3, False),
        (1, "b", 3, 5, False),
        (1, "c", 5, 9, False),
        (1, "d", 9, None, True),
        (2, "w", 1, 2, False),
        (2, "x", 2, None, True),
        (3, "new", 6, None, True),
    ]
    before = table.rows()
    table.load((1, "b", day(3)), (3, "new", day(6)))
    assert table.rows() == before, "the same change again adds nothing"


def test_a_full_snapshot_closes_what_vanished_and_dates_by_the_load(any_lake: Lake) -> None:
    table = Dimension(lake=any_lake, cursor=())
    first = [(1, "foo", None), (2, "bar", None)]
    table.load(*first, effect=Mirror())
    assert table.seen() == [(1, "foo", "load 0", None, True), (2, "bar", "load 0", None, True)]
    table.load((1, "foo updated", None), (2, "bar", None), effect=Mirror())
    assert table.seen() == [
        (1, "foo", "load 0", "load 1", False),
        (1, "foo updated", "load 1", None, True),
        (2, "bar", "load 0", None, True),
    ]
    table.load((1, "foo updated", None), effect=Mirror())
    closed = (2, "bar", "load 0", "load 2", False)
    assert table.seen()[2:] == [closed]
    before = table.rows()
    table.load((1, "foo updated", None), effect=Mirror())
    assert table.rows() == before
    table.load((1, "foo updated", None), (2, "bar", None), effect=Mirror())
    assert table.seen()[2:] == [closed, (2, "bar", "load 4", None, True)], "a key that comes again opens a new version"


def test_all_changes_of_a_log_are_kept_in_its_order(any_lake: Lake) -> None:
    table = Dimension(lake=any_lake)
    log = Apply()
    table.load((1, "a", day(1)), (2, "x", day(1)), (3, "y", day(1)))
    table.load(
        (1, "a", day(1), True, 10),  # what an update looked like before
        (1, "b", day(3), False, 11),
        (1, "b", day(3), True, 12),
        (1, "c", day(5), False, 13),
        (2, "x", day(1), True, 14),  # gone, and nothing follows
        (3, None, None, True, 15),  # gone by its key alone, and there again
        (3, "z", day(7), False, 16),
        (4, "in", day(4), False, 17),
        (4, "in", day(4), True, 18),
        (9, None, None, True, 19),  # never seen
        effect=log,
    )
    assert table.seen() == [
        (1, "a", 1, 3, False),
        (1, "b", 3, 5, False),
        (1, "c", 5, None, True),
        (2, "x", 1, "load 1", False),
        (3, "y", 1, 7, False),
        (3, "z", 7, None, True),
        (4, "in", 4, "load 1", False),
    ]
    # Nobody knows when the row went, but it was gone when the one that follows it in the log began.
    table.load((2, "again", day(8), False, 20), effect=log)
    assert table.seen()[3:5] == [(2, "x", 1, 8, False), (2, "again", 8, None, True)]


def test_a_log_without_a_sequence_is_dated_by_the_load_in_its_order(lake: Lake) -> None:
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
    starts = {(row["id"], row["name"], row["valid_from"]): row["valid_to"] for row in table.rows()}
    loaded = NOW + timedelta(hours=1)
    utc = {tuple(x.astimezone(UTC) if isinstance(x, datetime) else x for x in key) for key in starts}
    assert (1, "b", loaded) in utc
    assert (1, "a", loaded + timedelta(microseconds=1)) in utc


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
    assert len(table.rows()) == 6


def test_what_follows_a_repair_at_the_source_is_current_whatever_the_runners_clock_says(lake: Lake) -> None:
    """The loads of a `Dimension` run more than a year after what its rows say."""
    table = Dimension(lake=lake)
    table.load((1, "a", day(1)), (2, "x", day(2)), (3, "gone", day(1)))
    table.load((2, "y", day(4)))
    keys = Keys(columns=("id",), values=tuple((str(number),) for number in range(1, 5)))
    # Changed without a later moment, changed with one that no load saw, gone, and missed.
    repaired = [(1, "b", day(1)), (2, "z", day(6)), (4, "missed", day(3))]
    table.load(*repaired, effect=Mirror(), parts=(keys,))
    step = "2024-01-01T00:00:00.000001"
    assert [row[:2] for row in table.seen() if row[4]] == [(1, "b"), (2, "z"), (4, "missed")]
    starts = {row["name"]: told(row["valid_from"]) for row in table.rows()}
    assert (starts["z"], starts["missed"]) == (6, 3)
    assert [row["valid_from"].isoformat()[:26] for row in table.rows() if row["name"] == "b"] == [step]
    assert [row[3] for row in table.seen() if row[1] == "gone"] == ["load 2"]
    table.load((1, "c", day(5)), (2, "w", day(7)), (4, "seen", day(4)))
    assert [row[:3] for row in table.seen() if row[4]] == [(1, "c", 5), (2, "w", 7), (4, "seen", 4)]


def test_numbers_hashes_and_a_far_date(lake: Lake) -> None:
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
    hashes = [row["hash"] for row in table.rows()]
    assert len(set(hashes)) == 4
    assert all(len(one) == 32 for one in hashes)


@pytest.mark.parametrize(
    ("rows", "error", "match"),
    [
        ([(1, "b", day(1)), (2, "x", day(2))], DuplicateKeys, "1 key .* different rows with the same sequence"),
        ([(7, "a", day(3)), (7, "b", day(3))], DuplicateKeys, "1 key .* different rows with the same sequence"),
        ([(7, "a", None)], CheckFailed, "1 row has no value in the sequence"),
        ([(None, "a", day(3))], CheckFailed, "1 row has no value in a key column"),
    ],
)
def test_what_cannot_be_placed_is_refused_and_nothing_written(lake: Lake, rows: Any, error: Any, match: str) -> None:
    table = Dimension(lake=lake)
    table.load((1, "a", day(1)))
    before = lake.format.state(table.target, UID)
    with pytest.raises(error, match=match) as caught:
        table.load(*rows)
    assert "tidegate" in caught.value.hint or "write:" in caught.value.hint or "query:" in caught.value.hint
    after = lake.format.state(table.target, UID)
    assert (after.snapshot, after.position, after.branches) == (before.snapshot, before.position, ())


def test_a_snapshot_with_a_sequence_takes_its_dates_and_refuses_to_go_back(lake: Lake) -> None:
    table = Dimension(lake=lake, writer=Scd2(sequence_by=("changed_at",)), cursor=())
    table.load((1, "a", day(1)), (2, "x", day(1)), effect=Mirror())
    table.load((1, "b", day(5)), effect=Mirror())
    assert table.seen() == [(1, "a", 1, 5, False), (1, "b", 5, None, True), (2, "x", 1, "load 1", False)]
    table.load((1, "b", day(5)), (2, "x", day(1)), effect=Mirror())
    again = [(2, "x", 1, "load 1", False), (2, "x", "load 2", None, True)]
    assert table.seen()[2:] == again, "it was not there in between"
    table.load((1, "b", day(5)), (2, "x", day(1)), effect=Mirror())
    assert table.seen()[2:] == again
    with pytest.raises(CheckFailed, match="older sequence"):
        table.load((1, "old", day(2)), (2, "x", day(1)), effect=Mirror())
    with pytest.raises(DuplicateKeys, match="different rows with the same sequence"):
        table.load((1, "other", day(5)), (2, "x", day(1)), effect=Mirror())
    with pytest.raises(DuplicateKeys, match="several rows with the same key"):
        table.load((1, "b", day(5)), (1, "b", day(6)), effect=Mirror())


def test_two_current_rows_that_somebody_wrote_are_found_before_anything_is_published(lake: Lake) -> None:
    table = Dimension(lake=lake)
    table.load((1, "a", day(1)), (2, "x", day(1)))
    lake.session.sql(
        f"INSERT INTO {sql.table(table.target)} "
        "SELECT id, 'foreign', changed_at, valid_from + INTERVAL 1 DAY, valid_to, is_current "
        f"FROM {sql.table(table.target)} WHERE id = 1"
    )
    table.load((2, "y", day(3)))
    with pytest.raises(VerifyFailed, match="1 key"):
        broken(table, (1, "b", day(1)[:-1] + "5"))


def broken(table: Dimension, row: Any) -> None:
    """A load whose history is made as if the foreign version were not there."""
    monkey = pytest.MonkeyPatch()
    from tidegate.writers.scd2 import versions

    whole = versions._stored
    monkey.setattr(versions, "_stored", lambda *given: whole(*given).where("name <> 'foreign'"))
    try:
        table.load(row)
    finally:
        monkey.undo()


def test_what_ended_before_the_first_change_lies_in_files_of_its_own(lake: Lake) -> None:
    table = Dimension(lake=lake)
    for number in range(1, 5):
        checked = table.load(*((key, f"v{number}", day(number)) for key in range(3)))
    assert checked.dated.touched is not None
    known = lake.format._where.table(table.target)  # type: ignore[union-attr]
    whole = [task.file.file_path for task in known.scan().plan_files()]
    ended = known.scan(row_filter="is_current == false and valid_to >= '2024-01-04T00:00:00'").plan_files()
    current = known.scan(row_filter="is_current == true").plan_files()
    assert len(set(whole)) >= 4
    assert len({task.file.file_path for task in ended}) == 1
    assert len({task.file.file_path for task in current}) < len(set(whole)) - 1


TEXTS = ("a", "b'", "🐘|~")


def test_random_histories_do_not_depend_on_their_batches(any_lake: Lake) -> None:
    """Sixty keys, each with a history of its own, shuffled into four loads; half of them with all of it again."""
    import random

    numbered = "nr" if any_lake.format.invisible else None
    table = Dimension(lake=any_lake, writer=Scd2(version=numbered))
    rng = random.Random(7)
    histories: dict[int, list[tuple[int, str, str]]] = {}
    for key in range(60):
        days = rng.sample(range(1, 28), rng.randint(1, 7))
        histories[key] = [(key, rng.choice(TEXTS), day(number) or "") for number in days]
    events = [event for history in histories.values() for event in history]
    rng.shuffle(events)
    cut = sorted(rng.sample(range(1, len(events)), 3))
    for low, high in itertools.pairwise([0, *cut, len(events)]):
        table.load(*events[low:high], *rng.sample(events[:high], min(10, high)))
    wanted = sorted(expected(histories), key=lambda row: (row[0], str(row[2]), str(row[3])))
    assert table.seen(*([numbered] if numbered else [])) == [row if numbered else row[:-1] for row in wanted]


def expected(histories: Mapping[int, Iterable[tuple[int, str, str]]]) -> list[tuple[Any, ...]]:
    found = []
    for key, rows in histories.items():
        changes = [Change(datetime.fromisoformat(at), {"name": name, "at": at}) for _, name, at in rows]
        for number, one in enumerate(versions(changes), 1):
            end = None if one.until is None else one.until.day
            found.append((key, one.row["name"], one.since.day, end, one.until is None, number))
    return found
