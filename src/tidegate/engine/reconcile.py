"""Reconciles the position in the table with the one in the registry, and stops on a contradiction.

The first step of every run. The table wins; a stream never starts over by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol

from tidegate.core.ports.format import TableState
from tidegate.core.position import Position
from tidegate.core.position_state import is_of_empty_table, unclaimed
from tidegate.errors import PositionMissing, PositionMoved


class RegistryPosition(Protocol):
    """What a registry remembers of a stream's position."""

    @property
    def position(self) -> Position:
        """The last position that it saw."""

    @property
    def table_uuid(self) -> str | None:
        """The table that carried it; None when not known."""


class RegistryRepair(StrEnum):
    """What the registry has to do to follow the table."""

    NOTHING = "nothing"
    CATCH_UP = "catch_up"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryState:
    """The position of a stream before a run.

    Args:
        since: the position; None only for an empty table that nobody has written to.
        proven: no visible load still has to be verified.
        found: the position as it is stored, where `since` calls columns by other names.
    """

    table: TableState
    since: Position | None
    repair: RegistryRepair
    proven: bool = True
    found: Position | None = None

    @property
    def stored(self) -> Position | None:
        return self.since if self.found is None else self.found

    @property
    def loaded(self) -> Position | None:
        """`since`; None also for a table that was created without rows: the next load is a first load."""
        return None if self.since is None or is_of_empty_table(self.since.state) else self.since

    @property
    def vouched(self) -> Position | None:
        """`loaded`; after a load that was never verified, without its claims about the table's rows."""
        if self.proven or self.loaded is None:
            return self.loaded
        return replace(self.loaded, state=unclaimed(self.loaded.state))


def reconcile(name: str, table: TableState, remembered: RegistryPosition | None) -> RecoveryState:
    """The position to start from, which is the table's; a contradiction with the registry stops the run.

    Raises:
        PositionMissing: the table has rows and no position of this stream.
        PositionMoved: the registry knows more than the table does, or another history of it.
    """
    if table.position is None and remembered is not None and _by_number(table, remembered):
        return RecoveryState(table=table, since=remembered.position, repair=RegistryRepair.NOTHING)
    if table.position is None:
        _refuse_missing(name, table, remembered)
        return RecoveryState(table=table, since=None, repair=RegistryRepair.NOTHING)
    if remembered is None:
        return RecoveryState(table=table, since=table.position, repair=RegistryRepair.CATCH_UP)
    in_table, in_registry = table.position, remembered.position
    if remembered.table_uuid and table.uuid and remembered.table_uuid != table.uuid:
        raise PositionMoved(
            f"the table of stream {name!r} is not the one that was loaded before: it was dropped and recreated, or the "
            f"target was changed",
            hint=f"If this is intended, reset the registry to the table's position: `tidegate state repair {name}`.",
        )
    if in_table.sequence < in_registry.sequence or (
        in_table.sequence == in_registry.sequence and in_table.load_id != in_registry.load_id
    ):
        raise PositionMoved(
            f"the registry knows load {in_registry.sequence} of stream {name!r}, but the table only load "
            f"{in_table.sequence}: the table was rolled back or restored, or the registry belongs to another table",
            hint=f"If the table is right, run `tidegate state repair {name}`; the next run loads the difference again.",
        )
    repair = RegistryRepair.CATCH_UP if in_table.sequence > in_registry.sequence else RegistryRepair.NOTHING
    return RecoveryState(table=table, since=in_table, repair=repair)


def next_sequence(table: TableState, since: Position | None, known: int) -> int:
    """The number of the next load: greater than every number in the position, the table or the registry.

    Neither of them accepts a lower one, even after a repair or a RESTORE.

    Args:
        known: the greatest number in the registry.

    Example:
        >>> next_sequence(TableState(exists=True, last_sequence=4), None, 2)
        5
    """
    return max(since.sequence if since else 0, table.last_sequence, known) + 1


def holds_rows(table: TableState) -> bool:
    """Whether the table shows rows; an unknown number counts as rows."""
    return table.snapshot is not None and table.rows != 0


def _by_number(table: TableState, remembered: RegistryPosition) -> bool:
    """Whether the table lost the position but kept the load's number, by which the registry recognizes it."""
    return remembered.position.sequence == table.number and remembered.table_uuid in (None, table.uuid)


def _refuse_missing(name: str, table: TableState, remembered: RegistryPosition | None) -> None:
    if holds_rows(table):
        raise PositionMissing(
            f"the table of stream {name!r} has rows but no position of this stream: it was filled by another tool, the "
            f"stream was renamed, the snapshots with its position have expired, or the table was restored to a moment "
            f"that tells no version",
            hint=f"Take the table over with `tidegate state adopt {name}`, or use another target.",
        )
    if remembered is not None:
        raise PositionMoved(
            f"the registry knows load {remembered.position.sequence} of stream {name!r}, but the table is missing or "
            f"empty",
            hint=f"If it was emptied on purpose, run `tidegate state repair {name}`; the next run is then a full "
            f"refresh.",
        )
