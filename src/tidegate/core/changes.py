"""Decides how a strategy states what changed.

Returned by strategies, turned into a plan by the planner. Holds values only; nothing here reads a row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidegate.core.slices import Meaning, Slice


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """How far a source can be read without losing a row that is still being written.

    Args:
        upto: inclusive safe bound as canonical text; None when nothing is safe yet.
        held_by: who holds the edge back, one text each ("pid 4711 (psql), in a transaction since …"); empty if nobody.
    """

    upto: str | None
    held_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceStats:
    """What a probe knows of a slice.

    Args:
        rows: exact number of rows.
        last: the greatest cursor as canonical text; None without rows or without a cursor.
        later: rows whose cursor lies beyond the slice's upper bound (held back for a later load).
        bytes: estimated size of the rows.
    """

    rows: int
    last: str | None = None
    later: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeSet:
    """What changed since a position, and the state that the table will have once it is loaded.

    Args:
        slices: what to read; disjoint.
        meaning: what the rows are.
        state: the strategy's part of the new position.
        loaded_through: see `Position`.
        rows: exact or estimated rows; None when not known.
        bytes: estimated bytes; None when not known.
        reason: why these slices, one sentence for people.
        edge: the bound that was taken; None for strategies without a cursor.
    """

    slices: tuple[Slice, ...]
    meaning: Meaning
    state: Mapping[str, Any] = field(default_factory=dict)
    loaded_through: str | None = None
    rows: int | None = None
    bytes: int | None = None
    reason: str = ""
    edge: Edge | None = None
