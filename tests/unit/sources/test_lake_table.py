"""Which version of a lake table answers a question, with lists for rows."""

from __future__ import annotations

import shutil
from dataclasses import dataclass

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tidegate.core.change_feed import EMPTY
from tidegate.core.ids import Target
from tidegate.core.position import Position
from tidegate.core.schema import BIGINT, Column, Schema
from tidegate.errors import HistoryGone
from tidegate.sources.lake_table import LakeProbe, LakeTable
from tidegate.sources.shared.frame_probe import Frame, LazySpark
from tidegate.strategies.full import Full
from tidegate.strategies.sequence import Sequence
from tidegate.strategies.snapshot_diff import SnapshotDiff
from tidegate.strategies.table_changes import TableChanges

IDS = Schema(columns=(Column(name="id", type=BIGINT),))


@dataclass
class Rows:
    """As much of a DataFrame as a version is read by."""

    ids: list[int]
    columns: tuple[str, ...] = ("id",)

    def selectExpr(self, *_):  # noqa: N802 - Spark's name
        return self

    def where(self, condition):
        assert condition == "false"
        return Rows([])


class Versions:
    """Version 3 holds row 3, and the newest holds row 7."""

    def at(self, _session, _target, version, columns):
        assert columns == IDS
        return Rows([int(version or 7)])


def test_a_version_answers_for_itself_and_that_of_an_empty_table_for_nothing():
    frame = Frame(label="t", identity="a", schema=lambda: IDS, rows=lambda _: Rows([7]), version="7")
    target = Target(lake="lake", namespace=("s",), table="t")
    probe = LakeProbe(frame, LazySpark(None), Versions(), target)
    found = {version: probe._at(version).frame.rows(None).ids for version in ("7", "3", EMPTY)}
    assert found == {"7": [7], "3": [3], EMPTY: []}, "what came since is not what an empty table held"


class Source:
    """A Delta table that others write, and what strategies remember of its loads."""

    def __init__(self, folder):
        self.path = str(folder / "source")

    def add(self, *ids):
        write_deltalake(self.path, pa.table({"id": ids}), mode="append")

    def loaded(self, strategy):
        """The position of a load of what it holds now."""
        with LakeTable(delta=self.path).probe() as probe:
            cursor = {"cursor": list(strategy.cursor)} if strategy.cursor else {"version": probe.version()}
            return Position(
                sequence=1,
                load_id="a",
                kind=strategy.kind,
                source=probe.identity(),
                schema=probe.schema().digest,
                state=cursor,
                witness=probe.witness(strategy.cursor, None),
            )

    def detect(self, strategy, since):
        """What the strategy finds to load; of a cursor only whether it goes on from its position."""
        with LakeTable(delta=self.path).probe() as probe:
            return strategy.check_position(since, probe) if strategy.cursor else strategy.detect(probe, since)


def test_an_older_copy_of_a_delta_table_that_is_written_to_again_is_not_the_version_that_has_its_number(tmp_path):
    source, compared = Source(tmp_path), (SnapshotDiff(), Full())
    source.add(1)
    shutil.copytree(source.path, tmp_path / "copy")
    source.add(2)
    positions = [source.loaded(each) for each in (*compared, TableChanges(), Sequence(column="id"))]
    assert [source.detect(each, since) for each, since in zip(compared, positions, strict=False)] == [None, None]
    shutil.rmtree(source.path)
    shutil.copytree(tmp_path / "copy", source.path)
    for strategy, since in zip((TableChanges(), Sequence(column="id")), positions[2:], strict=True):
        with pytest.raises(HistoryGone, match="went back in time: version 1 was loaded, but its newest is 0"):
            source.detect(strategy, since)
    for number in (1, 2):  # of the same number, and of a later one
        source.add(2 + number)
        for strategy, since in zip(compared, positions, strict=False):
            assert source.detect(strategy, since).rows == 1 + number, "every row is compared, or read, again"
        for strategy, since in zip((TableChanges(), Sequence(column="id")), positions[2:], strict=True):
            with pytest.raises(HistoryGone, match="version 1 of the source is not the one that was loaded"):
                source.detect(strategy, since)


def test_a_restore_is_missed_by_nobody_who_looks_for_greater_values_alone(tmp_path):
    source = Source(tmp_path)
    source.add(1)
    source.add(5)
    source.add(6)
    since = source.loaded(Sequence(column="id"))
    source.add(7)
    DeltaTable(source.path).restore(2)
    source.add(8)
    assert source.detect(Sequence(column="id"), since) is None, "what was loaded is still there"
    DeltaTable(source.path).restore(0)
    source.add(2)
    with pytest.raises(HistoryGone, match=r"version 6 .* \(RESTORE\) shows an older one than 2"):
        source.detect(Sequence(column="id"), since)
    assert source.detect(TableChanges(), source.loaded(TableChanges())) is None
    DeltaTable(source.path).restore(3)
    assert source.detect(Sequence(column="id"), since) is None, "it shows again what was loaded"
