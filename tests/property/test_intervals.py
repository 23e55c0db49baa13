"""The interval ledger against a list of what is known of every single value, over any history of a stream."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tidegate.core.intervals import GAPS, Intervals, IntervalState

LAST = 30
BOUNDS = st.integers(0, LAST)
LOADED = (IntervalState.DONE, IntervalState.UNVERIFIED, IntervalState.STALE)


def text(value: int | None) -> str | None:
    return None if value is None else str(value)


def spread(ledger: Intervals) -> list[IntervalState | None]:
    """What the ledger says of each value; its intervals must not touch one value twice, nor stand beside a twin."""
    found: list[IntervalState | None] = [None] * (LAST + 1)
    for part in ledger.parts:
        for value in range(0 if part.after is None else int(part.after) + 1, int(part.upto) + 1):
            assert found[value] is None, ledger
            found[value] = part.known
    for left, right in zip(ledger.parts, ledger.parts[1:], strict=False):
        assert (left.upto, left.known) != (right.after, right.known), "neighbours that are alike are one"
    return found


class Histories(RuleBasedStateMachine):
    """Loads, lookbacks, failures, idle runs, proofs and moves by hand, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = Intervals()
        self.known: list[IntervalState | None] = [None] * (LAST + 1)
        self.through: int | None = None

    def paint(self, after: int | None, upto: int, known: IntervalState | None) -> None:
        first = 0 if after is None else after + 1
        self.known[first : upto + 1] = [known] * (upto + 1 - first)

    @rule(upto=BOUNDS, back=BOUNDS, proven=st.booleans(), edge=BOUNDS)
    def load(self, upto: int, back: int, proven: bool, edge: int) -> None:
        """From the position, or from before it where a lookback found a difference; then nothing up to the edge."""
        upto = max(upto, self.through or 0)
        after = None if self.through is None else max(self.through - back % 4, 0)
        self.ledger = self.ledger.loaded([(text(after), str(upto))], str(upto), proven=proven, rows=1)
        self.paint(upto, LAST, None)
        self.paint(after, upto, IntervalState.DONE if proven else IntervalState.UNVERIFIED)
        self.through = upto
        if edge > upto:
            self.ledger = self.ledger.empty(str(upto), str(edge))
            self.paint(upto, edge, IntervalState.EMPTY)
        assert not set(self.known[upto + 1 :]) & {*LOADED, IntervalState.FAILED}, (
            "a load from the position mends what is beyond"
        )

    @precondition(lambda self: self.through is not None)
    @rule(low=BOUNDS, width=st.integers(1, 9), proven=st.booleans())
    def backfill(self, low: int, width: int, proven: bool) -> None:
        high = min(low + width, self.through)
        if low >= high or IntervalState.STALE in self.known[self.through + 1 :]:
            return
        self.ledger = self.ledger.loaded([(str(low), str(high))], str(self.through), proven=proven, rows=1)
        self.paint(self.through, LAST, None)
        self.paint(low, high, IntervalState.DONE if proven else IntervalState.UNVERIFIED)

    @rule(to=BOUNDS)
    def moved_by_hand(self, to: int) -> None:
        end = max((value for value, known in enumerate(self.known) if known), default=-1)
        before = list(self.known)
        self.ledger = self.ledger.moved(str(to))
        self.paint(to, LAST, None)
        if end < to:
            self.paint(end, to, IntervalState.UNVERIFIED)
        loaded = [value for value, known in enumerate(before) if known in LOADED]
        if loaded and loaded[-1] > to:
            self.paint(to, loaded[-1], IntervalState.STALE)
        self.through = to

    @rule(low=BOUNDS, high=BOUNDS)
    def proof(self, low: int, high: int) -> None:
        self.ledger = self.ledger.proven(str(low), str(high))
        for value in range(low + 1, high + 1):
            if self.known[value] is IntervalState.UNVERIFIED:
                self.known[value] = IntervalState.DONE

    @rule(low=BOUNDS, high=BOUNDS)
    def a_load_that_fails_is_seen_while_nothing_made_it_good(self, low: int, high: int) -> None:
        seen = spread(self.ledger.failed([(str(low), str(high))], text(self.through)))
        for value in range(LAST + 1):
            if not low < value <= high:
                assert seen[value] is self.known[value]
            elif self.through is not None and value <= self.through:
                assert seen[value] is IntervalState.STALE
            else:
                assert seen[value] is IntervalState.FAILED

    @invariant()
    def every_value_is_known_as_it_is(self) -> None:
        assert spread(self.ledger) == self.known
        told = spread(Intervals.of(self.ledger.gaps))
        through = -1 if self.through is None else self.through
        for value, known in enumerate(self.known):
            assert (told[value] in GAPS) == (known in GAPS), value
            assert value > through or known is not None, "nothing behind the position is unknown"


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=30, stateful_step_count=20)


@given(st.lists(st.tuples(BOUNDS, BOUNDS), min_size=1, max_size=8))
def test_what_lies_between_two_intervals_is_a_gap(pairs):
    ledger = Intervals()
    for low, high in pairs:
        ledger = ledger.empty(str(min(low, high)), str(max(low, high)))
    known = spread(ledger)
    inside = [value for value, each in enumerate(known) if each]
    wanted = {value for value in range(inside[0], inside[-1]) if known[value] is None} if inside else set()
    assert {value for value, each in enumerate(spread(Intervals.of(ledger.gaps))) if each} == wanted


def test_bounds_are_numbers_or_texts():
    ledger = Intervals().loaded([(None, "9")], "9", proven=True, rows=3)
    ledger = ledger.loaded([("9", "10")], "10", proven=True, rows=2)
    assert [(part.label, part.rows) for part in ledger.parts] == [("(-inf, 10]", 5)]
    days = Intervals().loaded([(None, "2025-01-09")], "2025-01-09", proven=False, rows=1)
    days = days.loaded([("2025-01-08", "2025-01-31")], "2025-01-31", proven=True, rows=1)
    assert [part.label for part in days.parts] == ["(-inf, 2025-01-08]", "(2025-01-08, 2025-01-31]"]
    below = Intervals().loaded([(None, "-5")], "-5", proven=True, rows=1).moved("-7")
    assert [(part.label, part.known) for part in below.gaps] == [("(-7, -5]", IntervalState.STALE)]
