"""Where a stream stands: the table's word counts, and contradictions stop."""

from dataclasses import dataclass

import pytest

from tidegate.core.ports.format import TableState
from tidegate.core.position import Position
from tidegate.engine.reconcile import RegistryRepair, reconcile
from tidegate.errors import PositionMissing, PositionMoved


@dataclass(frozen=True)
class RegistryPosition:
    position: Position
    table_uuid: str | None = "t1"


def position(sequence: int, load_id: str | None = None) -> Position:
    return Position(sequence=sequence, load_id=load_id or f"load-{sequence}", kind="watermark")


def table(found: Position | None, *, rows: int | None = 10, uuid: str = "t1") -> TableState:
    return TableState(exists=True, uuid=uuid, snapshot="7", rows=rows, position=found)


def test_new_table_starts_from_nothing():
    recovered = reconcile("s", TableState(exists=False), None)
    assert recovered.since is None
    assert recovered.repair is RegistryRepair.NOTHING


def test_agreement_needs_no_healing():
    recovered = reconcile("s", table(position(3)), RegistryPosition(position(3)))
    assert recovered.since == position(3)
    assert recovered.repair is RegistryRepair.NOTHING


def test_lost_registry_follows_the_table():
    recovered = reconcile("s", table(position(3)), None)
    assert recovered.since == position(3)
    assert recovered.repair is RegistryRepair.CATCH_UP


def test_registry_behind_a_landed_load_catches_up():
    recovered = reconcile("s", table(position(4)), RegistryPosition(position(3)))
    assert recovered.since == position(4)
    assert recovered.repair is RegistryRepair.CATCH_UP


@pytest.mark.parametrize("rows", [1, None])
def test_rows_without_position_stop(rows):
    with pytest.raises(PositionMissing) as caught:
        reconcile("orders", table(None, rows=rows), None)
    assert caught.value.exit_code == 4
    assert "tidegate state adopt orders" in caught.value.hint


def test_rows_without_position_stop_although_the_registry_remembers():
    with pytest.raises(PositionMissing):
        reconcile("s", table(None), RegistryPosition(position(3)))


def test_empty_table_of_somebody_else_may_be_loaded():
    assert reconcile("s", table(None, rows=0), None).since is None


@pytest.mark.parametrize("found", [TableState(exists=False), table(None, rows=0)])
def test_registry_ahead_of_a_lost_table_stops(found):
    with pytest.raises(PositionMoved) as caught:
        reconcile("s", found, RegistryPosition(position(3)))
    assert "tidegate state repair s" in caught.value.hint


@pytest.mark.parametrize("remembered", [position(5), position(3, "another")])
def test_registry_ahead_or_beside_the_table_stops(remembered):
    with pytest.raises(PositionMoved):
        reconcile("s", table(position(3)), RegistryPosition(remembered))


def test_a_table_made_again_is_not_the_one_that_was_loaded():
    with pytest.raises(PositionMoved, match="dropped and recreated"):
        reconcile("s", table(position(3), uuid="t2"), RegistryPosition(position(3)))


def test_a_position_that_the_table_forgot_is_known_by_its_number():
    forgot = TableState(exists=True, uuid="t1", snapshot="7", rows=1, number=3, last_sequence=3)
    assert reconcile("s", forgot, RegistryPosition(position(3))).since == position(3)


@pytest.mark.parametrize(
    ("number", "remembered"),
    [
        (3, None),
        (3, RegistryPosition(position(4))),
        (3, RegistryPosition(position(2))),
        (None, RegistryPosition(position(3))),
        (3, RegistryPosition(position(3), table_uuid="t2")),
    ],
)
def test_a_number_that_nobody_knows_a_position_of_stops(number, remembered):
    forgot = TableState(exists=True, uuid="t1", snapshot="7", rows=1, number=number, last_sequence=3)
    with pytest.raises(PositionMissing) as caught:
        reconcile("s", forgot, remembered)
    assert "tidegate state adopt s" in caught.value.hint
