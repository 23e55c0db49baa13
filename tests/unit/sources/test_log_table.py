"""A log kept in a table of a lake: which versions are read next, and what stops it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tidegate import config
from tidegate.core.change_feed import EMPTY, FeedContent, Span
from tidegate.core.position import Position
from tidegate.core.schema import BIGINT, TEXT, Column, Schema
from tidegate.core.slices import LogRange
from tidegate.engine.assemble import assemble
from tidegate.envelopes.rows import Rows
from tidegate.errors import ConfigError, HistoryGone
from tidegate.sources.change_log.table import TableLog
from tidegate.sources.shared.frame_probe import Frame

COLUMNS = Schema(
    columns=(
        Column(name="operation", type=TEXT),
        Column(name="sequence", type=BIGINT),
        Column(name="id", type=BIGINT),
    )
)
ADDED = Span(content=FeedContent.APPENDS, rows=3)


@dataclass
class Table:
    """A table at a version, with what it tells of others."""

    now: str | None = "7"
    spans: dict[str, Span] = field(default_factory=dict)
    problem: str | None = None

    @property
    def frame(self):
        return Frame(label="t", identity="i", schema=lambda: COLUMNS, rows=lambda _: None, version=self.now, count=9)

    def identity(self):
        return "iceberg:1"

    def version(self):
        return self.now

    def schema(self):
        return COLUMNS

    def between(self, after, _upto=None):
        return self.spans[after]

    def enabling_statement(self):
        return self.problem


def log_of(**options) -> TableLog:
    return TableLog("lake.raw.events", Rows(), Table(**options))


def test_every_version_is_read_once():
    log = log_of(spans={"5": ADDED})
    first = log.after(None, most=None)
    assert first.slices == (LogRange(part="lake.raw.events", after=None, upto="7"),)
    assert (first.events, first.state, log.schema().names) == (9, {"version": "7"}, ("id",))
    assert log.after(first.state, most=None).slices == ()
    later = log.after({"version": "5"}, most=1)
    assert later.slices == (LogRange(part="lake.raw.events", after="5", upto="7"),)
    assert (later.events, later.taken, later.behind) == (3, 3, 0)
    assert log.identity() == "log in iceberg:1"


def test_a_table_without_an_event_is_read_from_its_first_one_on():
    empty = log_of(now=None)
    nothing = empty.after(None, most=None)
    assert (nothing.slices, nothing.state) == ((), {"version": EMPTY})
    assert log_of().after(nothing.state, most=None).slices[0].after is None


def test_versions_that_bring_nothing_move_the_position():
    span = log_of(spans={"5": Span(content=FeedContent.NOTHING)}).after({"version": "5"}, most=None)
    assert (span.slices[0].upto, span.events) == ("7", 0), "the version that was read may be taken away"


@pytest.mark.parametrize(
    ("span", "reason"),
    [
        (Span(content=FeedContent.CHANGES), "rows of lake.raw.events were changed or deleted after version 5"),
        (Span(content=FeedContent.UNKNOWN, reason="snapshot 5 is expired"), "which was read: snapshot 5 is expired"),
    ],
)
def test_a_table_that_lost_events_or_was_not_only_added_to_stops(span, reason):
    log = log_of(spans={"5": span})
    with pytest.raises(HistoryGone, match=reason):
        log.after({"version": "5"}, most=None)
    with pytest.raises(HistoryGone):
        log.lag({"version": "5"})
    with pytest.raises(HistoryGone, match="it has no version now"):
        log_of(now=None).after({"version": "5"}, most=None)


def test_the_lag_is_what_came_after_the_position():
    log = log_of(spans={"5": ADDED})
    assert log.lag({"version": "5"}).events == 3
    assert (log.lag({"version": "7"}).events, log.lag({"version": "7"}).seconds) == (0, 0)
    assert log.lag(None).events is None


def test_a_table_that_does_not_tell_what_comes_is_refused_before_anything_is_read():
    with pytest.raises(ConfigError, match="does not record which events are added to it") as raised:
        log_of(problem="ALTER TABLE t").after(None, most=None)
    assert "`ALTER TABLE t`" in raised.value.hint


def joined(tmp_path, **source):
    stream = {"target": "lake.shop.orders", "key": "id", "strategy": "cdc", "write": "merge", "source": source}
    lakes = {"lake": {"format": "iceberg"}, "old": {"format": "delta"}}
    found = config.from_dict({"connections": {}, "lakes": lakes, "streams": {"orders": stream}}, tmp_path)
    return assemble.join(found, assemble.formats(found), found.streams[0])


def test_an_envelope_makes_a_table_a_log(tmp_path):
    stream = joined(tmp_path, iceberg="lake.raw.events", envelope={"kind": "rows", "operation": "op"})
    assert (stream.source.kind, stream.source_name) == ("change_log", "lake.raw.events")
    assert joined(tmp_path, delta="tables/events", envelope="rows").source.spark_conf()
    assert joined(tmp_path, delta="old.raw.events", envelope="rows").source.jars()


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"iceberg": "lake.raw.events", "envelope": "debezium"}, "envelope: debezium is for messages, but a table"),
        ({"iceberg": "lake.raw.events", "path": "e.json", "envelope": "rows"}, "needs exactly one of"),
        ({"iceberg": "lake.raw.events", "kind": "change_log"}, "needs `envelope:`"),
        ({"iceberg": "other.raw.events", "envelope": "rows"}, "is not a table in a lake"),
        ({"iceberg": "old.raw.events", "envelope": "rows"}, "is in a lake of format delta"),
        (
            {"delta": "t", "envelope": "rows", "settle": "5m"},
            "`settle:` is only for files; a table describes its own contents",
        ),
    ],
)
def test_what_is_wrong_is_told(tmp_path, source, message):
    with pytest.raises(ConfigError, match=message):
        joined(tmp_path, **source)


def test_events_of_an_older_copy_that_is_written_to_again_stop_the_log(tmp_path):
    stream = joined(tmp_path, delta="events", envelope={"kind": "rows", "operation": "op"})
    path, kept = str(tmp_path / "events"), tmp_path / "kept"

    def add(number):
        rows, feed = pa.table({"id": [number], "op": ["insert"]}), {"delta.enableChangeDataFeed": "true"}
        write_deltalake(path, rows, mode="append", configuration=feed)

    add(1)
    shutil.copytree(path, kept)
    add(2)
    with stream.source.probe() as probe:
        told = {"source": probe.identity(), "witness": probe.restore.witness((), None)}
        changes = stream.strategy.detect(probe, None)
        since = Position(sequence=1, load_id="a", kind="cdc", state=changes.state, **told)
        assert stream.strategy.detect(probe, since) is None
    shutil.rmtree(path)
    shutil.copytree(kept, path)
    for number in (3, 4):
        add(number)
        with stream.source.probe() as probe, pytest.raises(HistoryGone, match=r"version 1 .* is not the one that was"):
            stream.strategy.detect(probe, since)
