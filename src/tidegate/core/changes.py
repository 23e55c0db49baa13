"""Decides how a strategy states what changed.

Returned by strategies, turned into a plan by the planner. Holds values only; nothing here reads a row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from tidegate.core.fingerprint import Fingerprint
from tidegate.core.grouping import Grouping
from tidegate.core.log import EventRules
from tidegate.core.manifest import File
from tidegate.core.significance import Significance
from tidegate.core.slices import Everything, Meaning, Slice


@dataclass(frozen=True, slots=True, kw_only=True)
class SafeBound:
    """How far a source can be read without losing a row that is still being written.

    Args:
        upto: inclusive safe bound as canonical text; None when nothing is safe yet.
        held_by: who holds the edge back, one text each ("pid 4711 (psql), in a transaction since …"); empty if nobody.
        final: no row can come any more with the value of the bound. False for files and lake tables: what is added to
            them later may carry the value that was the greatest until then.
    """

    upto: str | None
    held_by: tuple[str, ...] = ()
    final: bool = True


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


class Action(StrEnum):
    """What is done with a slice."""

    LOAD = "LOAD"
    RELOAD = "RELOAD"
    DELETE = "DELETE"
    SKIP = "SKIP"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A slice, what is done with it, and what the source holds of it.

    Args:
        fingerprint: of its rows at the source, in the snapshot that is read; None when nobody asked.
        quick: the source engine's own hash of the same rows, comparable only with itself.
        source_filter, target_filter: the slice in the words of either engine, for people.
        file: as it was listed, where the slice is a file.
    """

    slice: Slice
    action: Action
    fingerprint: Fingerprint | None = None
    quick: str | None = None
    bytes: int | None = None
    source_filter: str = ""
    target_filter: str = ""
    file: File | None = None

    @property
    def rows(self) -> int | None:
        """Rows at the source."""
        return None if self.fingerprint is None else self.fingerprint.rows


class WriteHint(StrEnum):
    """How a strategy expects a mirror to be carried out at the least cost; it changes no row of the result."""

    COMPARE = "compare"
    """Only rows that differ are written."""
    REWRITE = "rewrite"
    """Every row is written."""


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
        parts: the slices one by one, from strategies that measure them; each may be loaded without the others.
        skipped: slices that were compared and are equal.
        grouping: how the parts cut the table; the table becomes what the source holds of each.
        fenced: some partitions were not compared, so a row may have moved in from one of them.
        gone: why keys of the table may be gone at the source, a sentence; empty when nobody looks for them.
        again: why rows that are read may stand in the table already, a sentence's beginning; empty when none can.
        write_hint: how a mirror costs least, as far as the strategy knows; None leaves it to the writer.
        significant: which differences are worth a load of a mirror; None for all.
        notes: what people should know, one sentence each.
        events: how events of a log are applied; None where the rows are none.
        log_taken, log_behind: how much of the log is read and how much stays; see `LogSpan`.
        arrivals: how many rows came, by how far behind the position they lie at most, in seconds: 0 for those after it;
            empty where nobody looks behind it.
    """

    slices: tuple[Slice, ...]
    meaning: Meaning
    state: Mapping[str, Any] = field(default_factory=dict)
    loaded_through: str | None = None
    rows: int | None = None
    bytes: int | None = None
    reason: str = ""
    edge: SafeBound | None = None
    parts: tuple[Part, ...] = ()
    skipped: int = 0
    grouping: Grouping | None = None
    fenced: bool = False
    gone: str = ""
    again: str = ""
    write_hint: WriteHint | None = None
    significant: Significance | None = None
    notes: tuple[str, ...] = ()
    events: EventRules | None = None
    log_taken: int = 0
    log_behind: int = 0
    arrivals: tuple[tuple[int, int], ...] = ()

    @property
    def mirror(self) -> bool:
        """Whether the table becomes what the source holds: every other row of it is deleted, as the stream says.

        What that means is the writer's: a history ends versions, soft deletes mark rows. Only a person can ask for
        more, see `core.plan.Reset`.
        """
        return self.meaning is Meaning.ALL and self.grouping is None and self.slices == (Everything(),)

    def only(self, parts: tuple[Part, ...]) -> ChangeSet:
        """The same changes, of these parts alone; the state is the caller's to complete."""
        rows = sum(part.rows or 0 for part in parts)
        size = sum(part.bytes or 0 for part in parts)
        return replace(self, slices=tuple(part.slice for part in parts), parts=parts, rows=rows, bytes=size)
