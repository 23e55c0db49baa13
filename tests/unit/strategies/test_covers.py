"""What a position says of the table's rows, asked of the strategy: `verify` compares exactly these."""

from dataclasses import replace

import pytest

from support.probes import PartialProbe
from tidegate.core.position import Position
from tidegate.core.slices import Everything, Partition, Range, SnapshotPair
from tidegate.strategies.checksum import Checksum, Method
from tidegate.strategies.full import Full
from tidegate.strategies.sequence import Sequence
from tidegate.strategies.smart import Smart
from tidegate.strategies.snapshot_diff import SnapshotDiff
from tidegate.strategies.table_changes import TableChanges
from tidegate.strategies.watermark import Watermark

BEGIN = {"begin": {"column": "day", "value": "2025-01-01"}}
FROM_ON = Partition(column="day", label="from 2025-01-01", low="2025-01-01", nulls=True)
AT = Position(sequence=1, load_id="l1", kind="any", source="shop", state={}, loaded_through="7")


class Database(PartialProbe):
    """A source that keeps no older versions of its rows."""


class LakeTable(PartialProbe):
    """One that keeps them."""

    @property
    def versions(self):
        return self

    def between(self, _after: str):
        raise AssertionError("a position was asked for changes")


@pytest.mark.parametrize(
    ("strategy", "state", "rows"),
    [
        (Full(), {}, Everything()),
        (Watermark(column="at"), {}, Range(cursor=("at",), after=None, upto="7", nulls=True)),
        (Sequence(column="id"), {}, Range(cursor=("id",), after=None, upto="7", nulls=True)),
        (Checksum(method=Method.WHOLE_TABLE), {}, Everything()),
        (Checksum(method=Method.BY_DATE, column="day"), BEGIN, FROM_ON),
        (Smart(column="at"), {}, Range(cursor=("at",), after=None, upto="7", nulls=True)),
        (Smart(column="at"), BEGIN, FROM_ON),
        (Smart(), {}, Everything()),
        (SnapshotDiff(), {"version": "3"}, Everything()),
    ],
    ids=lambda value: getattr(value, "kind", None) or "",
)
def test_of_a_database(strategy, state, rows):
    assert strategy.covers(replace(AT, state=state), Database()) == rows


@pytest.mark.parametrize("strategy", [Full(), Watermark(column="at"), Checksum(method=Method.WHOLE_TABLE), Smart()])
def test_before_the_first_load_it_is_every_row(strategy):
    assert strategy.covers(None, Database()) == Everything()


@pytest.mark.parametrize("strategy", [TableChanges(), SnapshotDiff(), Smart()])
def test_of_a_lake_table_it_is_the_version_that_was_loaded(strategy):
    assert strategy.covers(replace(AT, state={"version": "3"}), LakeTable()) == SnapshotPair(after=None, upto="3")
