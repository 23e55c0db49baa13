"""Strategies of sources with versions: what each of them asks, and when nothing is loaded."""

# ruff: noqa: ARG002 - it answers like a probe and needs not everything that a probe is told

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from support.probes import PartialProbe
from tidegate.config.nodes import from_values
from tidegate.config.options import read
from tidegate.core.change_feed import EMPTY, FeedContent, Span
from tidegate.core.changes import SliceStats
from tidegate.core.compatibility import incompatibilities
from tidegate.core.effects import Apply, Insert, Mirror, WriteHint
from tidegate.core.fingerprint import Fingerprint
from tidegate.core.position import Position
from tidegate.core.schema import DOUBLE, TEXT, Column, Schema
from tidegate.core.significance import Significance
from tidegate.core.slices import Everything, SnapshotPair
from tidegate.errors import ColumnMissing, ConfigError, HistoryGone, Incompatible
from tidegate.sources.database import Database
from tidegate.sources.lake_table import LakeTable
from tidegate.strategies.snapshot_diff import SnapshotDiff
from tidegate.strategies.table_changes import TableChanges
from tidegate.writers.append import Append
from tidegate.writers.merge import Merge
from tidegate.writers.replace import Replace


@dataclass(kw_only=True)
class Plain(PartialProbe):
    """A source that has a version or none, and nothing else."""

    now: str | None = "7"
    source: str = "iceberg:a"
    found: Fingerprint = field(default_factory=lambda: Fingerprint(rows=3))
    own: str | None = None
    columns: tuple[Column, ...] = (Column(name="id", type=TEXT),)

    def version(self):
        return self.now

    def identity(self):
        return self.source

    def clock(self):
        return None

    def schema(self):
        return Schema(columns=self.columns)

    def stats(self, part):
        return SliceStats(rows=3)

    def fingerprint(self, part, *, latest=None):
        return self.found

    def own_fingerprint(self):
        return self.own


@dataclass(kw_only=True)
class Versions(Plain):
    """A table with versions."""

    @property
    def versions(self):
        return self

    span: Span = field(default_factory=lambda: Span(content=FeedContent.CHANGES))
    asked: list[str] = field(default_factory=list)

    def between(self, after):
        self.asked.append(after)
        return self.span


def at(changes, strategy, probe) -> Position:
    return Position(
        sequence=1,
        load_id="a",
        kind=strategy.kind,
        source=probe.identity(),
        state=changes.state,
        schema=probe.schema().digest,
    )


def test_the_first_load_is_everything_at_the_version():
    probe = Versions()
    changes = TableChanges().detect(probe, None)
    assert (changes.slices, changes.effect, changes.rows) == ((Everything(),), Insert(), 3)
    assert changes.state == {"version": "7"}
    assert TableChanges().detect(probe, at(changes, TableChanges(), probe)) is None
    assert probe.asked == []


@pytest.mark.parametrize(
    ("told", "slices", "effect", "mirror"),
    [
        (FeedContent.NOTHING, (), Insert(), False),
        (FeedContent.APPENDS, (SnapshotPair(after="7", upto="9", appends=True),), Insert(), False),
        (FeedContent.CHANGES, (SnapshotPair(after="7", upto="9"),), Apply(), False),
        (FeedContent.UNKNOWN, (Everything(),), Mirror(hint=WriteHint.COMPARE), True),
    ],
)
def test_what_is_read_is_what_can_be_told(told, slices, effect, mirror):
    since = at(TableChanges().detect(Versions(), None), TableChanges(), Versions())
    probe = Versions(now="9", span=Span(content=told, reason="of a test"))
    changes = TableChanges().detect(probe, since)
    assert (changes.slices, changes.effect, changes.whole) == (slices, effect, mirror)
    assert not mirror or changes.rows == 3, "without them nothing tells that the source is empty"
    assert changes.state == {"version": "9"}
    assert probe.asked == ["7"]


def test_a_table_that_was_empty_is_read_as_a_whole():
    since = at(TableChanges().detect(Versions(now=EMPTY), None), TableChanges(), Versions())
    changes = TableChanges().detect(Versions(now="9"), since)
    assert (changes.slices, changes.effect) == ((Everything(),), Insert())


def test_a_table_that_shows_no_version_any_more_is_compared():
    since, probe = at(TableChanges().detect(Versions(), None), TableChanges(), Versions()), Versions(now=EMPTY)
    changes = TableChanges().detect(probe, since)
    assert (changes.effect, changes.state, probe.asked) == (Mirror(hint=WriteHint.COMPARE), {"version": EMPTY}, [])


@pytest.mark.parametrize("strategy", [TableChanges(), SnapshotDiff()])
def test_another_source_or_another_strategy_stops(strategy):
    since = at(strategy.detect(Versions(), None), strategy, Versions())
    with pytest.raises(HistoryGone, match="it was iceberg:a and is iceberg:b"):
        strategy.detect(Versions(now="8", source="iceberg:b"), since)
    other = Position(sequence=1, load_id="a", kind="full", source="iceberg:a")
    with pytest.raises(ConfigError, match="loaded with strategy full"):
        strategy.detect(Versions(), other)


def test_a_source_without_versions_is_incompatible():
    with pytest.raises(Incompatible, match="needs a source with versions"):
        TableChanges().detect(Plain(), None)
    about = {"strategy": TableChanges(), "writer": Merge(), "key": ("id",)}
    assert incompatibilities(**about, flavour=next(LakeTable.flavours())) == ()
    assert "does not have (SnapshotPair)" in incompatibilities(**about, flavour=next(Database.flavours()))[0]
    replaced = incompatibilities(strategy=TableChanges(), writer=Replace(), key=(), flavour=next(LakeTable.flavours()))
    assert "reads new rows, and write: replace accepts only whole tables" in replaced[0]
    assert incompatibilities(strategy=TableChanges(), writer=Append(), key=(), flavour=next(LakeTable.flavours())) == ()


def test_going_on_by_hand():
    assert TableChanges().resume("12") == {"version": "12"}
    for value in (None, "yesterday", "-1"):
        with pytest.raises(ConfigError, match="continues from a version"):
            TableChanges().resume(value)
    assert SnapshotDiff().resume(None) == {}
    with pytest.raises(ConfigError, match="has no cursor"):
        SnapshotDiff().resume("12")


def test_an_equal_version_is_unchanged_whatever_else():
    since = at(SnapshotDiff().detect(Plain(), None), SnapshotDiff(), Plain())
    assert SnapshotDiff().detect(Plain(found=Fingerprint(rows=4)), since) is None
    for probe in (Plain(now="8"), Plain(columns=(*Plain().columns, Column(name="was_left_out", type=TEXT)))):
        changes = SnapshotDiff().detect(probe, since)
        assert (changes.slices, changes.whole, changes.parts) == ((Everything(),), True, ())


def test_an_equal_fingerprint_is_unchanged_only_if_it_covers_every_column():
    plain = Plain(now=None)
    since = at(SnapshotDiff().detect(plain, None), SnapshotDiff(), plain)
    assert SnapshotDiff().detect(plain, since) is None
    changes = SnapshotDiff().detect(Plain(now=None, found=Fingerprint(rows=4)), since)
    assert changes.parts[0].fingerprint == Fingerprint(rows=4)
    floats = Plain(now=None, columns=(Column(name="x", type=DOUBLE),))
    since = at(SnapshotDiff().detect(floats, None), SnapshotDiff(), floats)
    assert SnapshotDiff().detect(floats, since).effect == Mirror(hint=WriteHint.CONFIRM)
    other = replace(floats, found=Fingerprint(rows=4))
    assert SnapshotDiff().detect(other, since).effect == Mirror(hint=WriteHint.COMPARE)
    known = replace(floats, own="a")
    assert SnapshotDiff().detect(known, since).effect == Mirror(hint=WriteHint.COMPARE), "it was never asked before"
    since = at(SnapshotDiff().detect(known, None), SnapshotDiff(), known)
    assert SnapshotDiff().detect(known, since) is None
    assert SnapshotDiff().detect(replace(known, own="b"), since).effect == Mirror(hint=WriteHint.COMPARE)
    renamed = Plain(now=None, columns=(Column(name="other", type=TEXT),))
    assert SnapshotDiff().detect(renamed, since) is not None


def test_options_of_significance():
    node = from_values({"significant_change": {"columns": ["price"], "relative": 0.1, "min_rows": 3}})
    made = read(SnapshotDiff, node)
    assert made.significant_change == Significance(columns=("price",), relative=0.1, min_rows=3)
    with pytest.raises(ColumnMissing, match="names 'price'"):
        made.detect(Plain(), None)
    with pytest.raises(ConfigError):
        read(SnapshotDiff, from_values({"significant_change": {"mini_rows": 3}}))
    wrong = SnapshotDiff(significant_change=Significance(absolute=-1, min_fraction=30))
    assert len(wrong.problems()) == 2


def test_where_changes_begin_is_no_claim_of_rows():
    """What a repair or a rewind leaves of a position."""
    state = {"version": "7", "keys": "digest", "total": "3"}
    assert TableChanges().unclaimed(state) == {"version": "7"}
    assert SnapshotDiff().unclaimed(state) == {} == TableChanges().unclaimed({"keys": "digest"})


@pytest.mark.parametrize("now", ["7", "9"])
def test_after_a_repair_what_happened_since_the_loaded_version_is_read(now):
    loaded = at(TableChanges().detect(Versions(), None), TableChanges(), Versions())
    repaired = replace(loaded, state=TableChanges().unclaimed(loaded.state))
    probe = Versions(now=now)
    assert TableChanges().covers(repaired, probe) == SnapshotPair(after=None, upto="7"), "the version that was loaded"
    changes = TableChanges().detect(probe, repaired)
    assert (None if changes is None else changes.slices) == {"7": None, "9": (SnapshotPair(after="7", upto="9"),)}[now]


def test_a_position_without_a_version_is_compared_and_never_read_as_new_rows():
    loaded = at(TableChanges().detect(Versions(), None), TableChanges(), Versions())
    changes = TableChanges().detect(Versions(), replace(loaded, state={}))
    assert (changes.slices, changes.effect) == ((Everything(),), Mirror(hint=WriteHint.COMPARE))
    assert (changes.state, "does not say which version" in changes.reason) == ({"version": "7"}, True)
