"""When rows are dropped by age: a table never keeps more than it did, whatever the clock says."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from tidegate.core.policies.retention import Kept, Retain
from tidegate.core.ports.format import TableState
from tidegate.core.position import Position
from tidegate.core.schema import DATE, Column, Schema
from tidegate.engine import retention
from tidegate.engine.stream import Policies, Stream

RULE = Retain(column="day", keep=timedelta(days=10))


class Source:
    """A source with a clock of its own, two days behind."""

    def retaining(self, kept: Kept) -> str:
        return f"from {kept.begin}"

    @contextmanager
    def probe(self, _):
        yield SimpleNamespace(now=lambda: datetime(2025, 1, 29, 12, tzinfo=UTC))


def stream(kept: Kept | None, *, holds: bool = True, rule: Retain = RULE):
    position = Position(sequence=1, load_id="l", kind="full", retained=kept.to_dict() if kept is not None else {})
    columns = Schema(columns=(Column(name="day", type=DATE), Column(name="sold", type=DATE)))
    table = TableState(exists=True, snapshot="7", rows=3, position=position, schema=columns)
    lake = SimpleNamespace(state=lambda *_: table, may_hold=lambda *_: holds)
    return SimpleNamespace(name="s", uid="u", target=None, format=lake, policies=Policies(retain=rule))


@pytest.mark.parametrize(
    ("kept", "holds", "dropped"),
    [
        (None, True, ["rows whose day is before 2025-01-21 are kept no more"]),
        (None, False, []),
        (Kept(column="day", begin="2025-01-20"), True, ["rows whose day is before 2025-01-21 are kept no more"]),
        (Kept(column="day", begin="2025-01-21"), True, []),
        (Kept(column="day", begin="2025-01-22"), True, []),
        (Kept(column="sold", begin="2025-01-22"), True, ["rows whose day is before 2025-01-21 are kept no more"]),
    ],
    ids=["never dropped", "without old rows", "the day before", "today", "by a later clock", "by another column"],
)
def test_rows_are_dropped_once_their_day_is_over_and_by_no_earlier_clock(kept, holds, dropped):
    context = SimpleNamespace(now=lambda: datetime(2025, 1, 31, 12, tzinfo=UTC))
    assert [need.reason for need in retention.need(stream(kept, holds=holds), context)] == dropped


def test_a_table_may_keep_rows_for_longer_than_there_are_days():
    context = SimpleNamespace(now=lambda: datetime(2025, 1, 31, 12, tzinfo=UTC))
    for keep in (timedelta(days=800_000), timedelta.max):
        rule = Retain(column="day", keep=keep)
        assert rule.at(context.now()).begin == "0001-01-01"
        assert retention.need(stream(None, rule=rule), context) == ()


def test_a_clock_that_is_ahead_of_the_sources_drops_nothing_early():
    context = SimpleNamespace(now=lambda: datetime(2025, 1, 31, 12, tzinfo=UTC), sessions=None, full_refresh=False)
    loaded = stream(Kept(column="day", begin="2025-01-19"))
    loaded.source = Source()
    assert [need.reason for need in retention.need(loaded, context)] == [
        "rows whose day is before 2025-01-21 are kept no more"
    ]
    assert retention.drop(loaded, context, None, None).startswith("nothing to drop: by the clock of the source")
    parts = dict.fromkeys(("source_name", "strategy", "writer"))
    new = Stream(name="s", uid="u", target=None, format=None, source=Source(), policies=Policies(retain=RULE), **parts)
    assert retention.applied(new, None, context).kept.begin == "2025-01-19", "a first load"
