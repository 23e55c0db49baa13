"""What every table format owes a load."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from tidegate.core.plan import Mode, PlannedDeletes, Prune
from tidegate.core.policies.deletes import DELETED_AT, Apply, Deletes
from tidegate.core.ports.format import Staging
from tidegate.core.schema import BIGINT, TEXT, ChangeKind, Column, Schema, SchemaChange
from tidegate.core.slices import Partition
from tidegate.errors import CommitConflict, PositionMoved
from tidegate.testing.contracts.lake import ROWS, UID, FormatBench, put

A, B, C = (1, "a", "2024-01-01T00:00:00"), (2, "b", "2024-01-02T00:00:00"), (3, "c", "2024-01-03T00:00:00")
REFUSED = (CommitConflict, PositionMoved)
each_mode = pytest.mark.parametrize("mode", [Mode.APPEND, Mode.OVERWRITE, Mode.MERGE_ON_READ, Mode.COPY_ON_WRITE])


class FormatContract:
    """The suite of a table format: subclass it and override the fixture `lake`.

    It holds what exactly-once loads rest on: a commit carries its position, nobody sees it early, of two loads on one
    base only one lands, and a merge or a delete touches no other row.
    """

    @pytest.fixture
    def lake(self) -> FormatBench:
        """The format under test, in a lake of the test's own."""
        raise NotImplementedError

    def test_a_load_is_seen_when_its_format_says_so_and_carries_its_position(self, lake: FormatBench) -> None:
        """Where `invisible`, nobody sees a staged load; published, its position is found in its snapshot."""
        target = lake.table()
        before = lake.format.state(target, UID)
        assert (before.rows, before.position) == (0, None)

        plan = lake.plan(target, Mode.APPEND)
        staging = lake.format.stage(lake.session, target, plan)
        staging.append(lake.rows(A, B))
        staged = lake.format.state(target, UID)
        if lake.format.invisible:
            assert (staged.snapshot, staged.position, staged.branches) == (None, None, (plan.branch,))
            assert lake.oracle(target) == []
        else:
            assert (staged.position, staged.branches) == (plan.position, ())
            assert lake.ids(target) == [1, 2]
        assert sorted(row.id for row in staging.read().collect()) == [1, 2]
        assert sorted(row.id for row in staging.read_added().collect()) == [1, 2]

        receipt = staging.publish()
        after = lake.format.state(target, UID)
        assert (after.snapshot, after.rows, after.branches) == (receipt.snapshot, 2, ())
        assert (after.position, after.position_snapshot) == (plan.position, receipt.snapshot)
        assert lake.ids(target) == [1, 2]
        assert staging.receipt() == receipt, "still told after its branch is gone"

    @each_mode
    def test_of_two_loads_on_one_base_the_second_is_refused(self, lake: FormatBench, mode: Mode) -> None:
        """The refused load leaves no row, no position and no branch."""
        target = lake.table()
        lake.load(target, Mode.APPEND, A, B)
        first, second = (lake.plan(target, mode) for _ in range(2))
        stagings = [lake.format.stage(lake.session, target, plan) for plan in (first, second)]
        put(stagings[0], lake.rows((2, "first", None)), mode)
        if lake.format.invisible:
            put(stagings[1], lake.rows((2, "second", None)), mode)
        stagings[0].publish()
        seen, state = lake.oracle(target), lake.format.state(target, UID)

        with pytest.raises(REFUSED):
            lake.put_or_publish(stagings[1], mode, (2, "second", None))

        assert lake.oracle(target) == seen
        assert lake.format.state(target, UID).position == first.position
        assert lake.format.state(target, UID).snapshot == state.snapshot
        stagings[1].discard()
        assert lake.format.state(target, UID).branches == ()

    @each_mode
    def test_of_two_first_loads_the_second_is_refused(self, lake: FormatBench, mode: Mode) -> None:
        """An empty table is a base like any other."""
        target = lake.table()
        stagings = [lake.format.stage(lake.session, target, lake.plan(target, mode)) for _ in range(2)]
        for staging in stagings if lake.format.invisible else stagings[1:]:
            put(staging, lake.rows(A, B), mode)
        stagings[1].publish()
        with pytest.raises(REFUSED):
            lake.put_or_publish(stagings[0], mode, A, B)
        assert lake.ids(target) == [1, 2]

    def test_a_first_load_does_not_build_on_rows_that_came_after_its_plan(self, lake: FormatBench) -> None:
        """Staging is refused, and leaves no branch."""
        target = lake.table()
        plan = lake.plan(target, Mode.APPEND)
        lake.insert(target, 9, "foreign", None)
        with pytest.raises(CommitConflict):
            lake.format.stage(lake.session, target, plan)
        assert lake.format.state(target, UID).branches == ()
        assert lake.ids(target) == [9]

    def test_merge_updates_inserts_and_counts(self, lake: FormatBench) -> None:
        """Equal rows are left alone; the receipt counts what was done."""
        target = lake.table()
        lake.load(target, Mode.APPEND, A, B)
        for mode, changed in ((Mode.MERGE_ON_READ, "x"), (Mode.COPY_ON_WRITE, "y")):
            plan = lake.plan(target, mode)
            staging = lake.format.stage(lake.session, target, plan)
            prune = (Prune(column="id", type=BIGINT, low="2", high="10", values=("2", "3", "10")),)
            rows = lake.rows((2, changed, None), C, (10, changed, None))
            staging.merge(rows, prune=prune, skip_equal=True)
            keys = rows.select("id")
            assert {row.id for row in staging.read_keys(keys, prune=prune).collect()} == {2, 3, 10}
            receipt = staging.publish()
            # The second time row 3 is equal and left alone, 2 and 10 have changed.
            counted = (receipt.rows_inserted, receipt.rows_updated, receipt.rows_deleted)
            assert counted == ((2, 1, 0) if changed == "x" else (0, 2, 0))
            held = {row["id"]: row["name"] for row in lake.oracle(target)}
            assert held == {1: "a", 2: changed, 3: "c", 10: changed}
            assert lake.format.state(target, UID).position == plan.position

    @each_mode
    def test_no_rows_still_move_the_position(self, lake: FormatBench, mode: Mode) -> None:
        """A commit of nothing carries the position."""
        target = lake.table()
        lake.load(target, Mode.APPEND, A)
        plan = lake.plan(target, mode)
        staging = lake.format.stage(lake.session, target, plan)
        put(staging, lake.rows(B).where("id < 0"), mode)
        staging.publish()
        assert lake.format.state(target, UID).position == plan.position
        assert lake.ids(target) == ([] if mode is Mode.OVERWRITE else [1])

    def test_the_position_is_found_behind_foreign_commits_and_compaction(self, lake: FormatBench) -> None:
        """Each stream finds its own position, whoever committed since."""
        target = lake.table()
        plan = lake.load(target, Mode.APPEND, A)
        other = lake.load(target, Mode.MERGE_ON_READ, B, uid="f" * 16)
        lake.insert(target, 9, "foreign", None)
        lake.compact(target)
        state = lake.format.state(target, UID)
        assert state.position == plan.position
        assert state.position_snapshot != state.snapshot
        assert lake.format.state(target, "f" * 16).position == other.position
        assert lake.format.state(target, "e" * 16).position is None
        assert lake.ids(target) == [1, 2, 9]

    def test_the_session_keeps_nothing_of_a_merge(self, lake: FormatBench) -> None:
        """Neither a view nor a setting by which a later commit would carry the position."""
        target = lake.table()
        lake.load(target, Mode.APPEND, A)
        lake.load(target, Mode.MERGE_ON_READ, B)
        lake.insert(target, 9, "foreign", None)
        state = lake.format.state(target, UID)
        assert state.position_snapshot != state.snapshot, "somebody else's commit carries the position"
        assert lake.session.sql("SHOW VIEWS").collect() == []

    def test_keys_are_deleted_and_nothing_else(self, lake: FormatBench) -> None:
        """A key beyond the bound stays, though it is named."""
        target = lake.table()
        lake.load(target, Mode.APPEND, A, B, C)
        plan = lake.plan(target, Mode.MERGE_ON_READ)
        staging = lake.format.stage(lake.session, target, plan)
        keys = lake.session.sql("SELECT * FROM VALUES (2L), (3L), (9L) AS k(id)")
        staging.delete(keys, prune=(Prune(column="id", type=BIGINT, low="1", high="2", values=("1", "2")),))
        assert sorted(row.id for row in staging.read().collect()) == [1, 3], "not beyond the bound, though it is named"
        receipt = staging.publish()
        assert (receipt.rows_deleted, receipt.rows_inserted) == (1, 0)
        assert lake.ids(target) == [1, 3]
        assert lake.format.state(target, UID).position == plan.position

    def test_a_soft_delete_keeps_the_row_and_a_merge_brings_it_back(self, lake: FormatBench) -> None:
        """The load's own readings leave marked rows out, and a row that comes again lives again."""
        soft = Deletes(apply=Apply.SOFT)
        target = lake.table(schema=Schema(columns=(*ROWS.columns, *soft.columns)))
        lake.load(target, Mode.APPEND, A, B)
        plan = lake.plan(target, Mode.MERGE_ON_READ, deletes=PlannedDeletes(policy=soft), added=soft.columns)
        staging = lake.format.stage(lake.session, target, plan)
        staging.delete(lake.rows(B).select("id"), prune=())
        assert [row.id for row in staging.read().collect()] == [1]
        staging.publish()
        assert {row["id"]: row[DELETED_AT] for row in lake.oracle(target)} == {1: None, 2: plan.created_at}

        again = lake.plan(target, Mode.MERGE_ON_READ, deletes=PlannedDeletes(policy=soft), added=soft.columns)
        staging = lake.format.stage(lake.session, target, again)
        staging.merge(lake.rows(B), prune=(), skip_equal=True)
        staging.publish()
        assert {row["id"]: row[DELETED_AT] for row in lake.oracle(target)} == {1: None, 2: None}

    def test_one_partition_becomes_the_rows_and_others_stay(self, lake: FormatBench) -> None:
        """Rows of NULL lie in no interval."""
        target = lake.table()
        lake.load(target, Mode.APPEND, A, B, C, (None, "null", None))
        plan = lake.plan(target, Mode.REPLACE_FILES)
        part = Partition(column="id", label="2", low="2", high="4")
        plan = replace(plan, changes=replace(plan.changes, slices=(part,)))
        staging = lake.format.stage(lake.session, target, plan)
        staging.overwrite(lake.rows((3, "new", None)), (part,))
        assert [(row.id, row.name) for row in staging.read_partitions((part,)).collect()] == [(3, "new")]
        staging.publish()
        assert {(row["id"], row["name"]) for row in lake.oracle(target)} == {(1, "a"), (3, "new"), (None, "null")}

    def test_what_is_discarded_leaves_the_table_as_it_was(self, lake: FormatBench) -> None:
        """Of a format that hides what it stages."""
        if not lake.format.invisible:
            pytest.skip("what such a format writes is seen at once")
        target = lake.table()
        lake.load(target, Mode.APPEND, A)
        before, seen = lake.format.state(target, UID), lake.oracle(target)
        staging = lake.format.stage(lake.session, target, lake.plan(target, Mode.OVERWRITE))
        staging.overwrite(lake.rows(B, C))
        staging.discard()
        after = lake.format.state(target, UID)
        assert (after.snapshot, after.position, after.branches) == (before.snapshot, before.position, ())
        assert lake.oracle(target) == seen

    def test_every_version_can_still_be_read(self, lake: FormatBench) -> None:
        """By the snapshot that the state named when it was the visible one."""
        target = lake.table()
        lake.load(target, Mode.APPEND, A)
        first = lake.format.state(target, UID).snapshot
        lake.load(target, Mode.OVERWRITE, B, C)
        assert [row.id for row in lake.format.read(lake.session, target, first).collect()] == [1]
        assert sorted(row.id for row in lake.format.read(lake.session, target, None).collect()) == [2, 3]

    def test_columns_evolve_and_one_that_the_source_dropped_stays(self, lake: FormatBench) -> None:
        """Rows that are there read NULL in new columns, and new rows in those that are not written any more."""
        narrow = Schema(columns=(Column(name="id", type=BIGINT), Column(name="gone", type=TEXT)))
        target = lake.table(schema=narrow)
        lake.insert(target, 1, "kept")
        wider = Schema(columns=(Column(name="id", type=BIGINT), Column(name="name", type=TEXT), ROWS.columns[2]))
        added = [
            SchemaChange(kind=ChangeKind.ADD_COLUMN, column=name, old=None, new=None) for name in ("name", "changed_at")
        ]
        lake.format.evolve(lake.session, target, added, wider)
        lake.load(target, Mode.APPEND, B)
        lake.load(target, Mode.MERGE_ON_READ, A, C)
        assert [(row["id"], row["gone"], row["name"]) for row in lake.oracle(target)] == [
            (1, "kept", "a"),
            (2, None, "b"),
            (3, None, "c"),
        ]

    def test_two_runners_at_once_never_both_land(self, lake: FormatBench) -> None:
        """Whichever comes first, the table carries the winner's rows and position."""
        target = lake.table()
        lake.load(target, Mode.APPEND, A)
        for round_ in range(3):
            plans = [lake.plan(target, Mode.APPEND) for _ in range(2)]
            stagings = [lake.format.stage(lake.session, target, plan) for plan in plans]
            row = (10 + round_, "new", None)
            for staging in stagings if lake.format.invisible else ():
                staging.append(lake.rows(row))
            winner = _race(lake, stagings, row)
            assert lake.format.state(target, UID).position == plans[winner].position
        assert lake.ids(target) == [1, 10, 11, 12]

    def test_a_change_of_the_table_that_moves_no_row_does_not_stop_a_load(self, lake: FormatBench) -> None:
        """Such as a property or one more column."""
        target = lake.table()
        plan = lake.plan(target, Mode.APPEND)
        staging = lake.format.stage(lake.session, target, plan)
        staging.append(lake.rows(A))
        lake.alter(target)
        staging.publish()
        assert lake.ids(target) == [1]

    def test_branches_of_a_crash_are_found_and_dropped(self, lake: FormatBench) -> None:
        """A stream is told of its own branches alone."""
        if not lake.format.invisible:
            pytest.skip("a format without branches leaves none behind")
        target = lake.table()
        lake.load(target, Mode.APPEND, A)
        plan = lake.plan(target, Mode.APPEND)
        lake.format.stage(lake.session, target, plan).append(lake.rows(B))
        state = lake.format.state(target, UID)
        assert state.branches == (plan.branch,)
        assert lake.format.state(target, "f" * 16).branches == (), "another stream's branches are its own"
        lake.format.drop_branches(lake.session, target, state.branches)
        assert lake.format.state(target, UID).branches == ()
        assert lake.ids(target) == [1]


def _race(lake: FormatBench, stagings: list[Staging], row: tuple[int, str, None]) -> int:
    """Publishes all at once; which one landed, which must be one alone."""
    start, landed = threading.Barrier(len(stagings)), {}

    def publish(index: int, staging: Staging) -> None:
        start.wait()
        try:
            lake.put_or_publish(staging, Mode.APPEND, row)
            landed[index] = True
        except REFUSED:
            landed[index] = False

    threads = [threading.Thread(target=publish, args=pair) for pair in enumerate(stagings)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(landed.values()) == [False, True]
    return next(index for index, won in landed.items() if won)
