"""Equal, moved or wrong: the judgement over two fingerprints."""

from datetime import UTC, datetime

import pytest

from tidegate.core.changes import ChangeSet
from tidegate.core.fingerprint import Fingerprint
from tidegate.core.plan import LoadPlan, Mode, WriteChoice
from tidegate.core.position import Position
from tidegate.core.schema import DOUBLE, INT, Column, Schema
from tidegate.core.slices import Everything, Meaning
from tidegate.engine.stream import VerifyLevel
from tidegate.engine.verify import judge
from tidegate.errors import SourceMoved, VerifyFailed

A, B, C = (Fingerprint.of_texts([text]) for text in "abc")
PLAN = LoadPlan(
    load_id="0" * 32,
    stream="s",
    uid="u",
    target="lake.a.b",
    created_at=datetime(2025, 1, 1, tzinfo=UTC),
    base=None,
    since=None,
    position=Position(sequence=1, load_id="0" * 32, kind="full"),
    changes=ChangeSet(slices=(Everything(),), meaning=Meaning.ALL),
    columns=Schema(columns=(Column(name="id", type=INT), Column(name="ratio", type=DOUBLE))),
    key=(),
    schema_changes=(),
    evolve=(),
    write=WriteChoice(mode=Mode.OVERWRITE, reason=""),
)


def never() -> Fingerprint:
    pytest.fail("the source was asked again although the sides were equal")


def test_equal_sides_name_what_no_fingerprint_covers():
    verdict = judge(PLAN, VerifyLevel.MOVED, source=A, table=A, again=never)
    assert verdict.equal
    assert verdict.not_covered == ("ratio",)


def test_a_steady_source_and_another_table_is_a_failure():
    with pytest.raises(VerifyFailed) as caught:
        judge(PLAN, VerifyLevel.MOVED, source=A, table=B, again=lambda: A)
    assert caught.value.exit_code == 3
    assert not caught.value.retryable


def test_a_source_that_gives_a_third_answer_has_moved():
    with pytest.raises(SourceMoved) as caught:
        judge(PLAN, VerifyLevel.MOVED, source=A, table=B, again=lambda: C)
    assert caught.value.retryable


def test_a_source_that_now_equals_the_table_was_read_later_than_it_was_asked():
    assert judge(PLAN, VerifyLevel.MOVED, source=A, table=B, again=lambda: B).equal


def test_same_rows_with_other_content_differ():
    one, other = Fingerprint.of_texts(["a", "a", "c"]), Fingerprint.of_texts(["b", "b", "c"])
    assert one.rows == other.rows
    with pytest.raises(VerifyFailed, match="fingerprints differ"):
        judge(PLAN, VerifyLevel.MOVED, source=one, table=other, again=lambda: one)
