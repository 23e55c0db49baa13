"""Where a stream stands: the table's word counts, and contradictions stop."""

from dataclasses import dataclass

import pytest

from tidegate.core.ports.format import TableState
from tidegate.core.position import Position
from tidegate.engine.reconcile import RegistryRepair, reconcile
from tidegate.errors import PositionMissing, PositionMoved


@dataclass(frozen=True)
class Known:
    """What the registry remembers."""

    position: Position
    table_uuid: str | None = "t1"


def position(sequence: int, load_id: str | None = None) -> Position:
    return Position(sequence=sequence, load_id=load_id or f"load-{sequence}", kind="watermark")


def table(found: Position | None, *, rows: int | None = 10, uuid: str = "t1") -> TableState:
    return TableState(exists=True, uuid=uuid, snapshot="7", rows=rows, position=found)


def forgotten(number: int | None) -> TableState:
    """A table that lost the position and kept the number of its last load."""
    return TableState(exists=True, uuid="t1", snapshot="7", rows=1, number=number, last_sequence=3)


THREE, FOUR = position(3), position(4)
ABSENT, EMPTY = TableState(exists=False), table(None, rows=0)


@pytest.mark.parametrize(
    ("found", "remembered", "since", "repair"),
    [
        (ABSENT, None, None, RegistryRepair.NOTHING),
        (EMPTY, None, None, RegistryRepair.NOTHING),  # of somebody else
        (table(THREE), Known(THREE), THREE, RegistryRepair.NOTHING),
        (table(THREE), None, THREE, RegistryRepair.CATCH_UP),  # the registry was lost
        (table(FOUR), Known(THREE), FOUR, RegistryRepair.CATCH_UP),  # a load landed and nobody noted it
        (forgotten(3), Known(THREE), THREE, RegistryRepair.NOTHING),
    ],
)
def test_the_position_is_the_tables_and_the_registry_follows(found, remembered, since, repair):
    recovered = reconcile("s", found, remembered)
    assert (recovered.since, recovered.repair) == (since, repair)


@pytest.mark.parametrize(
    ("found", "remembered"),
    [
        (table(None, rows=1), None),
        (table(None, rows=None), None),
        (table(None), Known(THREE)),
        (forgotten(3), None),
        (forgotten(3), Known(FOUR)),
        (forgotten(3), Known(position(2))),
        (forgotten(None), Known(THREE)),
        (forgotten(3), Known(THREE, table_uuid="t2")),
    ],
)
def test_rows_without_a_position_that_anybody_knows_stop(found, remembered):
    with pytest.raises(PositionMissing) as caught:
        reconcile("orders", found, remembered)
    assert caught.value.exit_code == 4
    assert "tidegate state adopt orders" in caught.value.hint


@pytest.mark.parametrize(
    ("found", "remembered"),
    [
        (ABSENT, Known(THREE)),
        (EMPTY, Known(THREE)),
        (table(THREE), Known(position(5))),
        (table(THREE), Known(position(3, "another"))),
        (table(THREE, uuid="t2"), Known(THREE)),  # dropped and made again
    ],
)
def test_a_registry_that_knows_more_than_the_table_stops(found, remembered):
    with pytest.raises(PositionMoved) as caught:
        reconcile("s", found, remembered)
    assert "tidegate state repair s" in caught.value.hint
    assert ("dropped and recreated" in caught.value.message) == (found.uuid == "t2")
