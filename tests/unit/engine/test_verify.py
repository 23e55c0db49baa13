"""Equal, moved or wrong: the judgement over two fingerprints."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from support.probes import PartialProbe
from tidegate.core.changes import ChangeSet
from tidegate.core.effects import Apply, Mirror
from tidegate.core.fingerprint import Fingerprint
from tidegate.core.plan import LoadPlan, Mode, StreamRef, WriteChoice
from tidegate.core.position import Position
from tidegate.core.schema import DOUBLE, INT, Column, Schema
from tidegate.core.slices import Everything, LogRange
from tidegate.engine.stream import VerifyLevel
from tidegate.engine.verification.events import agree
from tidegate.engine.verification.proof import Sides, judge
from tidegate.errors import SourceMoved, VerifyFailed

A, B, C = (Fingerprint.of_texts([text]) for text in "abc")
PLAN = LoadPlan(
    stream=StreamRef(name="s", uid="u", target="lake.a.b"),
    created_at=datetime(2025, 1, 1, tzinfo=UTC),
    base=None,
    since=None,
    position=Position(sequence=1, load_id="0" * 32, kind="full"),
    changes=ChangeSet(slices=(Everything(),), effect=Mirror()),
    columns=Schema(columns=(Column(name="id", type=INT), Column(name="ratio", type=DOUBLE))),
    write=WriteChoice(mode=Mode.OVERWRITE, reason=""),
)


def never() -> Fingerprint:
    pytest.fail("the source was asked again although the sides were equal")


def stood_still() -> None:
    pass


def moved() -> None:
    raise SourceMoved("it changed")


def judged(source, table, again=never, still=stood_still):
    return judge(PLAN, VerifyLevel.MOVED, Sides(source=source, table=table), again=again, verify_unchanged=still)


def test_equal_sides_name_what_no_fingerprint_covers():
    verdict = judged(A, A)
    assert verdict.equal
    assert verdict.not_covered == ("ratio",)


def test_a_steady_source_and_another_table_is_a_failure():
    with pytest.raises(VerifyFailed) as caught:
        judged(A, B, lambda: A)
    assert caught.value.exit_code == 3
    assert not caught.value.retryable


def test_a_source_that_computes_from_the_time_is_told_apart_from_a_wrong_table():
    with pytest.raises(VerifyFailed) as caught:
        judged(A, B, lambda: C)
    assert "`source: {exclude: […]}`" in caught.value.hint
    with pytest.raises(VerifyFailed) as caught:
        judged(A, B, lambda: A)
    assert "exclude" not in caught.value.hint


def test_a_source_that_has_changed_is_no_failure_of_the_table():
    with pytest.raises(SourceMoved) as caught:
        judged(A, B, lambda: C, moved)
    assert caught.value.retryable


def test_a_source_that_now_equals_the_table_was_read_later_than_it_was_asked():
    assert judged(A, B, lambda: B, moved).equal


def test_same_rows_with_other_content_differ():
    one, other = Fingerprint.of_texts(["a", "a", "c"]), Fingerprint.of_texts(["b", "b", "c"])
    assert one.rows == other.rows
    with pytest.raises(VerifyFailed, match="fingerprints differ"):
        judged(one, other, lambda: one)


EVENTS = LogRange(part="events/*.csv", after=None, upto="1.csv")
LOGGED = replace(PLAN, changes=ChangeSet(slices=(EVENTS,), effect=Apply()))


class TwoReaders(PartialProbe):
    """A log of which two readers find this."""

    def __init__(self, mine, theirs):
        self.found = mine, theirs

    @property
    def log(self):
        return self

    def read_twice(self, session, parts, *, values):  # noqa: ARG002 - it answers as a log does
        assert (parts, values) == ([EVENTS], True)
        return self.found

    def verify_unchanged(self):
        pass


def test_a_log_that_two_readers_read_alike_passes():
    """So does what is read from elsewhere, such as rows that were set aside."""
    agree(TwoReaders(A, A), None, LOGGED, VerifyLevel.MOVED)
    agree(TwoReaders(A, B), None, PLAN, VerifyLevel.MOVED)


@pytest.mark.parametrize(("theirs", "told"), [(A + B, "another reader reads 2"), (B, "as many, with other values")])
def test_a_log_that_they_read_differently_is_a_failure(theirs, told):
    with pytest.raises(VerifyFailed, match=told) as caught:
        agree(TwoReaders(A, theirs), None, LOGGED, VerifyLevel.MOVED)
    assert caught.value.exit_code == 3
