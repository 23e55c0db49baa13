"""What a sequence decides, over a table in memory."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from tidegate.core.bounds import Clock
from tidegate.core.effects import Insert
from tidegate.core.schema import Schema
from tidegate.core.slices import Range
from tidegate.errors import ConfigError, EdgeUnknown, HistoryGone, PlanError
from tidegate.strategies.sequence import Sequence
from unit.strategies.fakes import SCHEMA, Stream, Table


def stream() -> Stream:
    """Three rows; the numbers have one digit, so that texts sort as they do."""
    table = Table(safe="3", schema_=Schema(columns=tuple(replace(column, nullable=False) for column in SCHEMA)))
    for number in "123":
        table.put(number, number)
    return Stream(table=table, strategy=Sequence(column="updated_at"))


def test_rows_after_the_position_up_to_the_edge() -> None:
    one = stream()
    one.table.put("4", "4")
    changes = one.run()
    assert changes.slices == (Range(cursor=("updated_at",), after=None, upto="3"),)
    assert isinstance(changes.effect, Insert)
    assert changes.state == {"cursor": ["updated_at"], "value": "3"}
    assert one.run() is None
    one.table.safe = "4"
    one.run()
    assert set(one.loaded) == set("1234")


def test_position_is_the_greatest_row_seen_and_a_held_edge_moves_nothing() -> None:
    one = stream()
    one.table.safe = None
    assert one.run() is None
    one.table.safe = "9"
    assert one.run().loaded_through == "3"
    assert one.run() is None
    one.table.safe = None
    assert one.run() is None


def test_more_rows_of_the_last_batch_stop() -> None:
    """Where a number counts batches, a later commit may add to the last one; the rows cannot be told apart."""
    one = stream()
    one.table.final = False
    one.run()
    assert one.run() is None
    one.table.rows["3"]["created_at"] = "1"
    assert one.run() is None
    one.table.put("x", "3")
    with pytest.raises(PlanError, match="1 row with updated_at = 3 arrived after"):
        one.run()
    del one.table.rows["x"], one.table.rows["3"]
    assert one.run() is None


def test_history_and_nulls() -> None:
    one = stream()
    one.run()
    one.table.source = "restored"
    with pytest.raises(HistoryGone):
        one.run()
    two = stream()
    two.table.schema_ = SCHEMA
    two.table.put("n", None)
    with pytest.raises(PlanError, match="NULL"):
        two.run()


@pytest.mark.parametrize(("safe", "generated"), [("1", 1), (None, 0), ("2", 2)])
def test_numbers_that_were_set_back_stop(safe: str | None, generated: int) -> None:
    """What comes next would get numbers that are not read again."""
    one = stream()
    one.table.generated = 3
    one.run()
    one.table.safe, one.table.generated = safe, generated
    with pytest.raises(HistoryGone, match=f"last number that the source has generated is {generated}") as stopped:
        one.run()
    assert stopped.value.context["restored"]


@pytest.mark.parametrize(
    ("safe", "held_by", "generated", "most"),
    [("3", (), 9, 9), ("3", (), None, 3), ("3", (), 2, 3), (None, ("pid 1",), None, 3), (None, (), None, None)],
)
def test_a_number_that_was_not_given_out_is_no_position_that_can_be_set(safe, held_by, generated, most) -> None:
    one = stream()
    one.table.safe, one.table.held_by, one.table.generated = safe, held_by, generated
    one.strategy.check_value(one.strategy.resume(str(most or 10**9)), one.table)
    if most is not None:
        with pytest.raises(ConfigError, match=f"beyond {most}, the last number"):
            one.strategy.check_value(one.strategy.resume(str(most + 1)), one.table)


@pytest.mark.parametrize("loaded", [False, True])
def test_numbers_above_those_that_were_generated_stop(loaded: bool) -> None:
    """The rows that get the numbers between them come later."""
    one = stream()
    if loaded:
        one.run()
    one.table.safe, one.table.generated = "3", 2
    with pytest.raises(EdgeUnknown, match="last number that the source has generated is 2"):
        one.run()


@pytest.mark.parametrize(("safe", "generated"), [("1", 3), (None, 3), ("2", 9), ("1", None), ("3", None)])
def test_newest_rows_that_were_deleted_stop_nothing(safe: str | None, generated: int | None) -> None:
    one = stream()
    one.run()
    one.table.safe, one.table.generated = safe, generated
    assert one.run() is None


def test_numbers_that_the_login_may_not_see_stop_once_the_greatest_is_below_the_position() -> None:
    one = stream()
    one.table.grant = "GRANT SELECT ON SEQUENCE s TO reader"
    one.run()
    assert one.run() is None
    one.table.safe = None
    assert one.run() is None
    one.table.safe = "2"
    with pytest.raises(HistoryGone, match="either its newest rows were deleted") as stopped:
        one.run()
    assert one.table.grant in stopped.value.hint
    assert not stopped.value.context.get("restored")
    one.table.final = False
    assert one.run() is None


def test_options() -> None:
    assert Sequence(column="id").problems() == ()
    assert "application" in Sequence(column="id", clock=Clock.APPLICATION).problems()[0]
    assert Sequence(column="id", wait=timedelta(seconds=-1)).problems()
    assert Sequence(column="id").cursor == ("id",)
    assert not Sequence(column="id").rereads
    assert Sequence(column="id").resume("042")["value"] == "42"
    for value in (None, "", "x", "1.5"):
        with pytest.raises(ConfigError):
            Sequence(column="id").resume(value)
