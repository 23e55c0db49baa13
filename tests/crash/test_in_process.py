"""A run on the fakes ends at every boundary of every stage; one more run, and nothing is lost, nothing twice.

What a process that was killed leaves is what tables and registry hold at that moment: nothing cleans up after it.
"""

from __future__ import annotations

import shlex
from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import count

import pytest

from tidegate.core.compatibility import incompatibilities
from tidegate.core.effects import Mirror
from tidegate.core.outcome import Result
from tidegate.core.schema import BIGINT, TEXT, TIMESTAMP, Column, Schema
from tidegate.engine.events import BOUNDARIES, Moment, Stage
from tidegate.engine.positions import set_value
from tidegate.strategies.checksum import Checksum, Method
from tidegate.strategies.full import Full
from tidegate.strategies.snapshot_diff import SnapshotDiff
from tidegate.strategies.watermark import Watermark
from tidegate.testing import Crash, MemoryFormat, MemoryProject, MemoryRegistry, MemorySource, Seen, crash_at
from tidegate.testing.project import TARGET
from tidegate.writers.append import Append
from tidegate.writers.merge import Merge
from tidegate.writers.replace import Replace
from tidegate.writers.scd2 import Scd2

COLUMNS = Schema(
    columns=(
        Column(name="id", type=BIGINT, nullable=False),
        Column(name="title", type=TEXT),
        Column(name="changed", type=TIMESTAMP, nullable=False),
    )
)
START = datetime(2025, 1, 1)  # noqa: DTZ001 - of a column without a zone
STRATEGIES = (
    Watermark(column="changed"),
    Full(),
    Checksum(method=Method.BY_INTEGER, column="id", modulus=4),
    SnapshotDiff(),
)
WRITERS = (Append(), Merge(), Replace(), Scd2())


def marks(strategy, writer):
    """One pair is always played, and takes seconds."""
    return () if (strategy.kind, writer.kind) == ("watermark", "merge") else pytest.mark.slow


PAIRS = [
    pytest.param(strategy, writer, id=f"{strategy.kind}-{writer.kind}", marks=marks(strategy, writer))
    for strategy in STRATEGIES
    for writer in WRITERS
    if not incompatibilities(strategy=strategy, writer=writer, key=("id",))
]
AT_ONCE = ("watermark-append", "watermark-merge", "checksum-replace")
"""Pairs whose loads are always seen before they are published, too; the others only in the full sample."""
LONG = ("checksum-scd2", "snapshot_diff-scd2", "full-scd2", "checksum-merge", "snapshot_diff-replace")
"""Pairs that are played only in the full sample: each of their strategies and writers is in another pair, too."""
ORDERED = [
    pytest.param(*pair.values, seen, id=f"{pair.id}-{seen}", marks=[*pair.marks, *full])
    for pair in PAIRS
    for seen in Seen
    for always in [pair.id in AT_ONCE or (seen is Seen.PUBLISHED and pair.id not in LONG)]
    for full in [() if always else (pytest.mark.exhaustive,)]
]
pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


class Books:
    """A source, and a plain dictionary of what its table should hold."""

    def __init__(self, strategy, writer):
        self.source = MemorySource(schema=COLUMNS, key=("id",))
        self.mirror, self.kind = strategy.emits == {Mirror}, writer.kind
        self.held: dict[int, tuple[int, str]] = {}
        self.read: list[tuple[int, str]] = []
        self._moments = count()

    def change(self, *ids, gone=None):
        for number in ids:
            moment = next(self._moments)
            title, changed = f"{number}|~{moment}", START + timedelta(seconds=moment)
            self.source.rows[:] = [row for row in self.source.rows if row["id"] != number]
            self.source.rows.append({"id": number, "title": title, "changed": changed})
            self.held[number] = (number, title)
            self.read.append((number, title))
        if gone is not None and self.mirror:
            self.source.rows[:] = [row for row in self.source.rows if row["id"] != gone]
            del self.held[gone]

    def check(self, project):
        """The table is the model, and table and registry agree on where it stands."""
        rows = project.rows()
        current = [row for row in rows if row.get("is_current", True)]
        all_kept = self.kind in ("append", "scd2")
        assert Counter(map(seen, rows)) == Counter(self.read if all_kept else self.held.values())
        if self.kind != "append":
            assert Counter(map(seen, current)) == Counter(self.held.values())
        uid = project.stream.uid
        state, registered = project.lake.state(TARGET, uid), project.registry.position(uid)
        assert state.branches == ()
        assert registered is not None
        assert registered.position == state.position
        assert project.registry.open_plans(uid) == []


def seen(row):
    return row["id"], row["title"]


def started(strategy, writer, spark, seen):
    books = Books(strategy, writer)
    books.change(1, 2, 3)
    lake = MemoryFormat(seen=seen)
    project = MemoryProject(source=books.source, strategy=strategy, writer=writer, spark=spark, key=("id",), lake=lake)
    assert project.load().verified is True
    books.check(project)
    return books, project


def changes():
    """What happens before each crash: one row changes, one comes, one that came goes."""
    for (stage, moment), number in zip(BOUNDARIES, count(4), strict=False):
        yield stage, moment, (1 + number % 3, number), number - 1 if number > 4 else None


def landed(stage, moment, seen):
    """Whether readers see the load: from its publication on, or as soon as it is written."""
    if seen is Seen.PUBLISHED:
        return stage is Stage.ADVANCE and moment is not Moment.START
    return (stage, moment) == (Stage.WRITE, Moment.DONE) or stage in (Stage.VERIFY, Stage.ADVANCE)


def settle(books, project, stage, moment):
    """One run; where the load had landed already, nothing is loaded again."""
    outcome = project.load()
    books.check(project)
    if not books.mirror:
        assert outcome.outcome is (Result.UNCHANGED if landed(stage, moment, project.lake.seen) else Result.LOADED)


@pytest.mark.parametrize(("strategy", "writer", "seen"), ORDERED)
def test_what_a_kill_leaves_is_repaired_by_one_run(strategy, writer, spark, seen):
    books, project = started(strategy, writer, spark, seen)
    with ExitStack() as held:
        held.enter_context(project)
        for stage, moment, ids, gone in changes():
            books.change(*ids, gone=gone)
            project = held.enter_context(project.killed(stage, moment))
            settle(books, project, stage, moment)
        again = project.load()
        books.check(project)
        assert again.outcome is Result.UNCHANGED or books.mirror


@pytest.mark.parametrize("seen", [Seen.PUBLISHED, pytest.param(Seen.WRITTEN, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("strategy", "writer"), PAIRS[:1] + PAIRS[-1:])
def test_after_an_interruption_one_run_repairs_it(strategy, writer, spark, seen):
    books, project = started(strategy, writer, spark, seen)
    with project:
        for stage, moment, ids, gone in changes():
            books.change(*ids, gone=gone)
            with pytest.raises(Crash):
                project.run(on_event=crash_at((stage, moment)))
            settle(books, project, stage, moment)


@pytest.mark.slow
def test_a_load_whose_rows_have_changed_since_is_not_proven_and_may_be_kept(spark):
    """Of a table that keeps every version: nobody can say then whether the load was right."""
    books, project = started(Watermark(column="changed"), Append(), spark, Seen.WRITTEN)
    books.change(4)
    with project, project.killed(Stage.VERIFY, Moment.START) as left:
        books.change(4)
        refused = left.run().error
        assert refused.code == "verify_failed"
        through = left.lake.state(TARGET, left.stream.uid).position.loaded_through
        assert f"`tidegate state set rows {shlex.quote(through)}`" in refused.hint
        with left.context() as context:
            set_value(left.stream, context, through, reason="state set")
        left.load()
        books.check(left)


@pytest.mark.parametrize(
    ("strategy", "writer", "seen"),
    [
        (Watermark(column="changed"), Append(), Seen.PUBLISHED),
        (Watermark(column="changed"), Merge(), Seen.PUBLISHED),
        pytest.param(Watermark(column="changed"), Merge(), Seen.WRITTEN, marks=pytest.mark.slow),
    ],
)
def test_a_killed_run_and_a_lost_registry_are_repaired_by_one_run(strategy, writer, spark, seen):
    books, project = started(strategy, writer, spark, seen)
    with ExitStack() as held:
        held.enter_context(project)
        for stage, moment, ids, gone in changes():
            books.change(*ids, gone=gone)
            left = held.enter_context(project.killed(stage, moment))
            project = held.enter_context(replace(left, registry=MemoryRegistry.new(left.now)))
            settle(books, project, stage, moment)
