"""An incident is told once, again after a while, and once at its end; whatever happens in between."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.incidents import Alarm, evaluate

START = datetime(2025, 3, 1, tzinfo=UTC)
REPEAT = timedelta(hours=4)
KEYS = [("late", "a"), ("run_failed", "a"), ("run_failed", "b"), ("schema_changed:1", "a")]
WRONG, FINE, UNKNOWN = "wrong", "fine", "unknown"

steps = st.lists(
    st.tuples(
        st.integers(1, 300), st.fixed_dictionaries({key: st.sampled_from([WRONG, FINE, UNKNOWN]) for key in KEYS})
    ),
    max_size=30,
)


def alarm(key, **changed):
    return Alarm(rule=key[0], uid=key[1], stream=key[1], why="why", since=None, command="tidegate status", **changed)


def history(steps):
    """What was told of each key, with the minute; and what the minute's states were."""
    known, now, told = {}, START, []
    for minutes, states in steps:
        now += timedelta(minutes=minutes)
        alarms = [alarm(key) for key, state in states.items() if state == WRONG]
        unknown = {key for key, state in states.items() if state == UNKNOWN}
        changes = evaluate(alarms, unknown, known.values(), now, REPEAT)
        for kind, listed in [("opened", changes.opened), ("repeated", changes.repeated)]:
            for each in listed:
                known[each.rule, each.uid] = each
                told.append((now, kind, (each.rule, each.uid)))
        for kind, listed in [("recovered", changes.recovered), ("ended", changes.ended)]:
            for each in listed:
                del known[each.rule, each.uid]
                told.append((now, kind, (each.rule, each.uid)))
        yield now, states, set(known), told


def last(found):
    """What was told until the end."""
    return ([], *(told for _, _, _, told in found))[-1]


@given(steps)
def test_what_is_open_is_what_is_wrong_or_was_and_is_unknown_now(steps):
    before = set()
    for _, states, known, _ in history(steps):
        assert known >= {key for key, state in states.items() if state == WRONG}
        assert not known & {key for key, state in states.items() if state == FINE}
        assert known - {key for key, state in states.items() if state == WRONG} <= before
        before = known


@given(steps)
def test_messages_alternate_and_repeats_keep_their_distance(steps):
    told = last(history(steps))
    for key in KEYS:
        mine = [(at, kind) for at, kind, of in told if of == key]
        for (first_at, first), (then_at, then) in pairwise(mine):
            over = first in ("recovered", "ended")
            assert (then == "opened") == over
            assert then != "repeated" or then_at - first_at >= REPEAT
        assert not mine or mine[0][1] == "opened"
        if ":" in key[0]:
            assert {kind for _, kind in mine} <= {"opened", "ended"}
        else:
            assert "ended" not in {kind for _, kind in mine}


@given(steps)
def test_to_look_twice_tells_nothing_more(steps):
    twice = [step for each in steps for step in (each, (0, each[1]))]
    assert last(history(twice)) == last(history(steps))


def test_one_that_a_person_has_seen_is_not_repeated():
    (opened,) = evaluate([alarm(KEYS[0])], (), (), START, REPEAT).opened
    later = START + REPEAT
    assert not evaluate([alarm(KEYS[0], seen=True)], (), [opened], later, REPEAT).repeated
    (again,) = evaluate([alarm(KEYS[0])], (), [opened], later, REPEAT).repeated
    assert (again.opened_at, again.announced_at) == (START, later)
