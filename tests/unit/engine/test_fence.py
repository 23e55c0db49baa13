"""What counts of the events that are remembered beside a table, as positions say; and when a run reads everything."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from tidegate.core.batch import Folded
from tidegate.core.changes import ChangeSet
from tidegate.core.effects import Apply, Mirror, Upsert
from tidegate.core.log import EventRules
from tidegate.core.plan import FULL_REFRESH, Reset, WriteFacts
from tidegate.core.ports.format import TableState
from tidegate.core.ports.strategy import Strategy
from tidegate.core.position import Position
from tidegate.core.position_state import FENCE, WHOLE
from tidegate.core.schema import BIGINT, ChangeKind, Column, Schema, SchemaChange
from tidegate.core.slices import Everything, LogRange
from tidegate.engine import applied_events, planner
from tidegate.engine.events import Journal
from tidegate.engine.planner import PlanInputs, make_plan
from tidegate.engine.stages import detect
from tidegate.errors import PlanError, VersionGone
from tidegate.strategies.cdc import Cdc
from tidegate.writers.merge import Merge
from tidegate.writers.scd2 import Scd2
from unit.engine.sqlite_streams import bare

NOW = datetime(2025, 1, 1, tzinfo=UTC)
EVENTS = ChangeSet(slices=(LogRange(part="p", after=None, upto="9"),), effect=Apply(rules=EventRules()), state={"p": 9})
BULK = replace(EVENTS, slices=(Everything(),), effect=Mirror(log=EventRules()))
STREAM = bare(Cdc(), Merge())


def position(number, after, load="old"):
    state = {FENCE: {"after": after, "number": number, "load": load}}
    return Position(sequence=number, load_id=load, kind="cdc", state=state)


def planned(changes, since=None, *, reset=False, known=0):
    return make_plan(
        STREAM,
        PlanInputs(
            table=TableState(exists=since is not None, snapshot="7" if since else None, rows=1),
            since=since,
            changes=changes,
            columns=Schema(columns=(Column(name="id", type=BIGINT),)),
            identity="log",
            clock=None,
            witness={},
            facts=WriteFacts(effect=changes.effect, rows=1, table_rows=1, reset=Reset() if reset else None),
            last_sequence=known,
        ),
        now=NOW,
    )


def test_the_first_load_counts_itself_and_later_ones_all_since():
    first = planned(EVENTS)
    assert first.position.state == {"p": 9, FENCE: {"after": 0, "number": 1, "load": first.load_id}}
    later = planned(EVENTS, position(4, 2))
    assert later.position.state[FENCE] == {"after": 2, "number": 5, "load": later.load_id}


def test_a_table_read_anew_forgets():
    assert planned(BULK, position(4, 2)).position.state[FENCE]["after"] == 5, "its own rows are none of events"
    assert planned(EVENTS, position(4, 2), reset=True).position.state[FENCE]["after"] == 4
    assert planned(EVENTS, replace(position(4, 2), state={})).position.state[FENCE]["after"] == 4


def test_other_loads_say_nothing_of_it():
    assert FENCE not in planned(replace(EVENTS, effect=Apply())).position.state


@pytest.mark.parametrize(
    ("known", "since", "evolve", "whole"),
    [
        ({"after": 2, "number": 4, "load": "x", "whole": 3}, 4, (), 3),
        ({"after": 2, "number": 4, "load": "x"}, 4, (), 2),
        ({"after": 2, "number": 4, "load": "x", "whole": 3}, 6, (), 6),
        ({"after": 2, "number": 4, "load": "x", "whole": 3}, 4, (ChangeKind.RENAME,), 4),
        (None, 4, (), 8),
    ],
    ids=[
        "events alone",
        "no load but events",
        "a repair came between",
        "a column has another name",
        "nothing is known",
    ],
)
def test_a_history_knows_since_when_nothing_but_events_wrote_its_table(known, since, evolve, whole):
    stands = Position(sequence=since, load_id="x", kind="cdc", state={FENCE: known} if known else {})
    changes = [SchemaChange(kind=kind, column="a", old="b", new="a") for kind in evolve]
    stream = replace(STREAM, writer=Scd2(sequence_by=("at",)))
    assert planner.fence(stream, EVENTS, stands, 9, "new", evolve=changes)[FENCE][WHOLE] == whole
    assert WHOLE not in planner.fence(STREAM, EVENTS, stands, 9, "new", evolve=changes)[FENCE]


def kept(plan):
    return applied_events.Applied(stream=STREAM, session=None, plan=plan)


def test_rows_of_loads_that_did_not_land_do_not_count():
    plan = planned(EVENTS, position(4, 2, load="x1"), known=8)
    assert kept(plan)._landed == (
        "__tidegate_load > 2 AND (__tidegate_load < 4 OR (__tidegate_load = 4 AND __tidegate_load_id = 'x1'))"
    )
    assert plan.position.state[FENCE]["number"] == 9
    assert kept(plan)._stale.startswith("__tidegate_load > 2 AND __tidegate_load < 9 AND NOT (")
    assert kept(planned(EVENTS))._landed is None
    assert kept(planned(EVENTS, position(4, 4)))._landed is None, "after a bulk load nothing is remembered"


def test_the_table_beside_has_a_name_and_loads_of_its_own():
    beside = kept(planned(EVENTS))
    assert str(beside.target) == "lake.a.b__tidegate_applied"
    assert beside.uid != STREAM.uid
    assert len(beside.uid) == 16


TOLD = {"loads": 3, "newest": "7", "load": "old", "marks": {"floor": "2", "horizon": None, "open": False}}


def remembered(plan, told):
    """What is kept beside a table, as its last commit tells it; its rows cannot be read."""
    position = Position(sequence=3, load_id="kept", kind="applied", state=told)
    state = TableState(exists=True, snapshot="5", rows=9, position=position)

    def read(*_):
        raise VersionGone("its rows were asked for")

    format_ = SimpleNamespace(state=lambda *_: state, read=read)
    return applied_events.Applied(stream=replace(STREAM, format=format_), session=None, plan=plan)


def test_a_load_that_landed_tells_what_counts():
    fence = remembered(planned(EVENTS, position(4, 2)), TOLD).fence()
    assert (fence.newest, fence.floor, fence.horizon, fence.open) == ("7", "2", None, False)


@pytest.mark.parametrize(("load", "told"), [("rolled back", TOLD), ("old", {"loads": 1, "newest": "7"})])
def test_another_load_is_not_believed(load, told):
    with pytest.raises(VersionGone, match="its rows were asked for"):
        remembered(planned(EVENTS, position(4, 2, load=load)), told).fence()


@pytest.mark.parametrize(
    ("marks", "tells"),
    [
        (TOLD["marks"], {"load": "mine", "marks": {"floor": "8", "horizon": None, "open": True}}),
        ({"floor": "9", "horizon": "3"}, {"load": "mine", "marks": {"floor": "9", "horizon": "3", "open": True}}),
        ({**TOLD["marks"], "foreign": True}, {}),
    ],
)
def test_a_load_tells_the_next_one_unless_rows_of_others_are_left(marks, tells):
    folded = Folded(applied=None, emptied="8", newest="9", open=True)
    assert applied_events.fence_statistics(marks, "7", folded, "mine") == {"newest": "9", **tells}


class Asked(Strategy):
    """A strategy that answers what it was made with."""

    kind = "cdc"
    rereads = True

    def __init__(self, answer):
        self.answer, self.since = answer, []

    def detect(self, _probe, since, _kept=None):
        self.since.append(since)
        return self.answer

    def resume(self, value):
        raise AssertionError(value)


def work(answer, **context):
    strategy = Asked(answer)
    everything = any(context.values())
    return SimpleNamespace(
        stream=replace(STREAM, strategy=strategy),
        probe=None,
        context=SimpleNamespace(
            reads_everything=everything, **{"resync": False, "full_refresh": False, "asked_by": FULL_REFRESH, **context}
        ),
        recovered=SimpleNamespace(vouched=position(4, 2), loaded=position(4, 2)),
        journal=Journal(stream="s"),
    )


def test_resync_looks_at_everything_and_refuses_what_is_no_whole():
    mirrored = work(BULK, resync=True)
    assert detect.detect(mirrored)[0] is BULK
    assert mirrored.stream.strategy.since == [None]
    with pytest.raises(PlanError, match="nothing to compare its table with: its strategy cdc reads changes") as caught:
        detect.detect(work(EVENTS, resync=True))
    assert "tidegate resync STREAM --replace --yes" in caught.value.hint
    assert detect.detect(work(EVENTS))[0] is EVENTS


def test_what_is_forgotten_is_what_the_stream_says_also_where_its_rows_are_replayed():
    stream = replace(STREAM, strategy=Cdc(remember=timedelta(days=30)))
    for effect, days in ((Upsert(), 30), (Apply(rules=EventRules(remember=timedelta(days=2))), 2)):
        plan = replace(planned(EVENTS), changes=replace(EVENTS, effect=effect))
        rules = replace(remembered(plan, TOLD), stream=stream).rules
        assert rules.remember == timedelta(days=days)


RENAMES = {"old": "new", "id": "no"}


def renaming(plan):
    changes = tuple(SchemaChange(kind=ChangeKind.RENAME, column=new, old=old, new=new) for old, new in RENAMES.items())
    more = SchemaChange(kind=ChangeKind.ADD_COLUMN, column="more", old=None, new="bigint")
    return replace(plan, evolution=replace(plan.evolution, apply=(*changes, more)))


class Beside:
    """A lake in which the table beside has these columns."""

    def __init__(self, *names):
        self.schema = Schema(columns=tuple(Column(name=name, type=BIGINT) for name in names))
        self.changed = []

    def state(self, _target, _uid):
        return TableState(exists=True, snapshot="1", schema=self.schema)

    def evolve(self, _session, target, changes, _schema):
        self.changed.append((target.table, [change.old for change in changes]))


@pytest.mark.parametrize(
    ("names", "changed"),
    [(("id", "__tidegate_load"), ["id"]), (("no", "__tidegate_load"), None), (("id", "old"), ["old", "id"])],
    ids=["the key", "a load that ended in between has done it", "columns of remembered events"],
)
def test_the_table_beside_gets_the_names_first(names, changed):
    lake = Beside(*names)
    stream = replace(STREAM, format=lake)
    plan = renaming(planned(EVENTS))
    applied_events.Applied(stream=stream, session=None, plan=plan).rename()
    assert lake.changed == ([("b__tidegate_applied", changed)] if changed else [])
    assert plan.renamed == RENAMES


def test_rows_of_the_version_before_a_rename_have_the_names_of_the_plan():
    named = []
    rows = SimpleNamespace(withColumnsRenamed=lambda names: named.append(names) or "rows")
    stream = replace(STREAM, format=SimpleNamespace(read=lambda *_: rows))
    assert applied_events.based(stream, None, renaming(planned(EVENTS))) == "rows"
    assert named == [RENAMES]
