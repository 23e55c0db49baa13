"""The registry against a model: whatever is called in whatever order, the sequence never goes down."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.core.ids import new_load_id
from tidegate.core.plan import LoadPlan
from tidegate.core.position import Position
from tidegate.errors import PositionMoved
from tidegate.registry.store import Registry
from unit.registry.loads import load

CALLS = st.lists(
    st.one_of(
        st.tuples(st.just("plan"), st.integers(0, 9)),
        st.tuples(st.just("advance"), st.integers(0, 9)),
        st.tuples(st.just("set"), st.integers(-1, 9), st.none() | st.integers(0, 5)),
    ),
    max_size=14,
)


@dataclass
class Model:
    """What a registry should hold, without a database."""

    stands: Position | None = None
    highest: int = 0
    published: set[str] = field(default_factory=set)

    def advance(self, plan: LoadPlan) -> bool:
        if self.stands and self.stands.load_id == plan.load_id:
            self.published.add(plan.load_id)
        elif self.stands == plan.since:
            self.published.add(plan.load_id)
            self.move(plan.position)
        elif plan.load_id not in self.published:
            return False
        return True

    def set(self, position: Position | None, expected: int | None) -> bool:
        if expected is not None and expected != (self.stands.sequence if self.stands else 0):
            return False
        self.move(position)
        return True

    def move(self, position: Position | None) -> None:
        self.stands = position
        self.highest = max(self.highest, position.sequence if position else 0)


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    with Registry.open(f"sqlite:///{tmp_path_factory.mktemp('model')}/registry.db") as opened:
        yield opened


@settings(max_examples=40, deadline=None)
@given(calls=CALLS)
def test_the_sequence_never_goes_down(registry, calls):
    uid = new_load_id()
    registry.register(uid=uid, name="orders", source="s", target="t")
    model, seen, loads = Model(), 0, []
    for call, *arguments in calls:
        known = [None, *(plan.position for plan in loads)]
        if call == "plan":
            loads.append(load(known[arguments[0] % len(known)], uid=uid))
            registry.save_plan(loads[-1], "run-1")
        elif call == "advance" and loads:
            plan = loads[arguments[0] % len(loads)]
            assert did(registry.advance, plan, snapshot=None, table_uuid=None, verified=None) == model.advance(plan)
        elif call == "set":
            position, expected = known[arguments[0] % len(known)], arguments[1]
            facts = {"snapshot": None, "table_uuid": None, "expected_sequence": expected, "reason": "test"}
            assert did(registry.set_position, uid, position, **facts) == model.set(position, expected)
        stands = registry.position(uid)
        assert (stands.position if stands else None) == model.stands
        assert registry.last_sequence(uid) == model.highest >= seen
        seen = model.highest


def did(call, *arguments, **facts):
    try:
        call(*arguments, **facts)
    except PositionMoved:
        return False
    return True
