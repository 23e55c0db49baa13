"""Strategy cdc: what it asks a log, what it keeps in the position, and when it stops."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from support.probes import PartialProbe
from tidegate.core.compatibility import incompatibilities
from tidegate.core.effects import Apply, Mirror
from tidegate.core.log import LogSpan, Truncate
from tidegate.core.position import Position
from tidegate.core.slices import Everything, LogRange
from tidegate.errors import ConfigError, HistoryGone, Incompatible
from tidegate.sources.change_log import ChangeLog
from tidegate.sources.files import Files
from tidegate.strategies.cdc import Cdc
from tidegate.writers.append import Append
from tidegate.writers.merge import Merge

RANGE = LogRange(part="shop.orders:0", after="4", upto="9")


@dataclass(kw_only=True)
class FakeLog(PartialProbe):
    """A log that answers one span, and remembers what it was asked."""

    span: LogSpan = field(default_factory=lambda: LogSpan(slices=(RANGE,), state={"0": 9}, events=5))
    source: str = "kafka:a"
    asked: list[Any] = field(default_factory=list)
    gone: str = ""

    @property
    def log(self):
        return self

    def identity(self):
        return self.source

    def clock(self):
        return None

    def after(self, state, *, most):
        self.asked.append((state, most))
        if self.gone:
            raise HistoryGone(self.gone)
        return self.span


def position(**state: Any) -> Position:
    return Position(sequence=3, load_id="x", kind="cdc", source="kafka:a", state=state)


def test_events_after_the_position_are_a_changelog():
    log = FakeLog()
    found = Cdc(max_events=5).detect(log, position(**{"0": 4}))
    assert log.asked == [({"0": 4}, 5)]
    assert (type(found.effect), found.slices, found.state, found.rows) == (Apply, (RANGE,), {"0": 9}, 5)
    assert found.effect.rules.truncate is Truncate.APPLY
    assert not found.whole


def test_the_first_load_asks_for_the_beginning_and_nothing_new_is_nothing():
    log = FakeLog(span=LogSpan(slices=(), state={}))
    assert Cdc().detect(log, None) is None
    assert log.asked == [(None, 1_000_000)]


def test_a_table_read_before_its_log_is_a_mirror_and_its_floor_stays():
    bulk = LogSpan(slices=(Everything(),), state={"lsn": "7"}, bulk=True, floor="0007")
    found = Cdc().detect(FakeLog(span=bulk), None)
    assert (type(found.effect), found.whole, found.state) == (Mirror, True, {"lsn": "7", "floor": "0007"})
    later = Cdc().detect(FakeLog(), position(**found.state))
    assert later.effect.rules.floor == later.state["floor"] == "0007"


def test_a_lost_log_names_the_command():
    with pytest.raises(HistoryGone, match="offsets 5 to 8 are gone") as caught:
        Cdc().detect(FakeLog(gone="offsets 5 to 8 are gone"), position())
    assert caught.value.hint == "Run `tidegate resync STREAM`."
    with pytest.raises(HistoryGone, match="it was kafka:a and is kafka:b") as caught:
        Cdc().detect(FakeLog(source="kafka:b"), position())
    assert "resync" in caught.value.hint


def test_what_waits_is_told():
    span = LogSpan(slices=(RANGE,), state={}, taken=5, behind=12)
    found = Cdc().detect(FakeLog(span=span), None)
    assert found.notes == ("later events in the log are for the next load (max_events)",)
    assert (found.observed.log_taken, found.observed.log_behind) == (5, 12)


def test_another_strategys_position_and_values_of_hand_are_refused():
    other = Position(sequence=1, load_id="x", kind="full", source="kafka:a")
    with pytest.raises(ConfigError, match="loaded with strategy full"):
        Cdc().detect(FakeLog(), other)
    with pytest.raises(ConfigError, match="cannot adopt a table"):
        Cdc().resume("7")
    with pytest.raises(Incompatible, match="needs a change log"):
        Cdc().detect(PartialProbe(), None)


def test_what_fits():
    assert incompatibilities(strategy=Cdc(), writer=Merge(), key=("id",), flavour=next(ChangeLog.flavours())) == ()
    assert (
        "LogRange" in incompatibilities(strategy=Cdc(), writer=Merge(), key=("id",), flavour=next(Files.flavours()))[0]
    )
    assert (
        "write: append accepts only"
        in incompatibilities(strategy=Cdc(), writer=Append(), key=(), flavour=next(ChangeLog.flavours()))[0]
    )
    assert "at least 1" in incompatibilities(strategy=Cdc(max_events=0), writer=Merge(), key=("id",))[0]
