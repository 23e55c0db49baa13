"""The protocol of a loader's target: one commit with rows and position, or nothing.

The position is stored only in the target itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from tidegate.core.position import Position
from tidegate.errors import HistoryGone, PositionMissing, PositionMoved

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Sink(Protocol):
    """A target of one stream."""

    @property
    def casts(self) -> bool:
        """Whether a write casts values to the types of the table's columns, where others refuse another type."""

    def position(self) -> Position | None:
        """How far the target says it is loaded; None for an empty or new one.

        Raises:
            PositionMissing: it has rows and no position of this stream.
        """

    def read(self) -> DataFrame | None:
        """The rows as published; None while there is no target."""

    def append(self, rows: DataFrame, position: Position) -> None:
        """Adds the rows.

        Raises:
            PositionMoved: another load came in between; nothing of this one is in the target.
            SchemaRefused: the target would not keep a text of the column that it is partitioned by.
        """

    def merge(self, rows: DataFrame, key: Sequence[str], delete_if: str, position: Position) -> None:
        """Updates and inserts by key, deletes the keys of rows for which `delete_if` is true.

        Rows: one a key, no NULL in it; the target's columns and those of `delete_if`.

        Raises:
            PositionMoved: as for `append`.
        """

    def loaded(self, load_id: str) -> DataFrame:
        """The rows that a load added or changed, as it left them, whatever loads came later.

        Raises:
            HistoryGone: the target no longer holds what tells them.
        """


def uid_of(name: str) -> str:
    """The identity of a loader's stream inside its target."""
    return hashlib.sha256(f"loader\0{name}".encode()).hexdigest()[:16]


def missing(where: str, name: str) -> PositionMissing:
    """The target has rows that no load of this name wrote, so its position is unknown."""
    return PositionMissing(
        f"{where} has rows but no position of {name!r}",
        hint="Load into an empty target, or pass the `table_name=` that it was loaded with.",
        target=where,
    )


def history_expired(where: str, name: str) -> HistoryGone:
    """The target's history no longer shows which rows a load wrote."""
    return HistoryGone(
        f"{where} no longer has the history that identifies the rows of that load of {name!r}",
        hint="Ask for `rows()` earlier, or keep the target's history longer.",
        target=where,
    )


def moved(where: str, name: str) -> PositionMoved:
    """Another load of the same stream was committed first."""
    return PositionMoved(
        f"another load of {name!r} finished in the meantime; nothing of this one is in {where}",
        hint="Run again: it continues from the target's current position.",
        target=where,
    )
