"""The result of change detection: which slices changed, why, and the state after they are loaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from tidegate.core.effects import Effect, Mirror, Upsert
from tidegate.core.fingerprint import Fingerprint
from tidegate.core.grouping import Grouping
from tidegate.core.manifest import File
from tidegate.core.slices import Everything, Range, Slice


@dataclass(frozen=True, slots=True, kw_only=True)
class SafeBound:
    """How far a source can be read without missing a row that is still being written.

    Args:
        upto: the inclusive safe bound as canonical text; None if nothing is safe yet.
        held_by: who holds the edge back, one text each ("pid 4711 (psql), in a transaction since …"); empty for nobody.
        final: no further row can have the value of the bound. False for files and lake tables: rows that are added
            later may have the value that was the greatest until then.
        clock: of times in files and lake tables, the latest one that is not yet to come; None where `upto` tells.
        in_utc: what the bound would be if the column were written in UTC; None unless it has no zone, and that of the
            database is supposed.
        generated: of a sequence, the last number that the database has generated, so that later rows have greater ones;
            None where the database does not tell.
        grant: the statement after which the login may read that number; None where nothing is missing.
    """

    upto: str | None
    held_by: tuple[str, ...] = ()
    final: bool = True
    clock: str | None = None
    in_utc: str | None = None
    generated: int | None = None
    grant: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceStats:
    """Statistics of a slice.

    Args:
        rows: exact number of rows.
        last: the greatest cursor as canonical text; None without rows or without a cursor.
        later: rows whose cursor lies beyond the slice's upper bound, which a later load will read.
        greatest: the greatest cursor above the slice's lower bound, as text; None where it was not asked for.
        bytes: estimated size of the rows.
    """

    rows: int
    last: str | None = None
    later: int = 0
    greatest: str | None = None
    bytes: int = 0


def upto_bound(stats: Mapping[Slice, SliceStats], upto: str | None) -> SliceStats:
    """The statistics of what was asked up to a bound, with the most rows beyond it."""
    asked = (each for part, each in stats.items() if isinstance(part, Range) and part.upto == upto)
    return max(asked, key=lambda each: each.later, default=SliceStats(rows=0))


class Action(StrEnum):
    """What is done with a slice."""

    LOAD = "LOAD"
    RELOAD = "RELOAD"
    DELETE = "DELETE"
    SKIP = "SKIP"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A slice, what is done with it, and its rows at the source.

    Args:
        fingerprint: the fingerprint of its rows at the source, in the snapshot that is read; None if not computed.
        quick: the source engine's own hash of the same rows, comparable only with itself.
        source_filter, target_filter: the slice as a condition in the SQL of either engine, for people.
        file: the listed file, if the slice is a file.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What detection found in addition to the slices to read.

    Args:
        skipped: slices that were compared and are equal.
        log_taken, log_behind: how much of the log is read and how much is left; see `LogSpan`.
        arrivals: pairs of lateness and number of rows: how far behind the position the rows lie at most, in seconds,
            0 for those after it; empty if the strategy has no lookback.
    """

    skipped: int = 0
    log_taken: int = 0
    log_behind: int = 0
    arrivals: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeSet:
    """What changed since a position, and the state that the table will have once it is loaded.

    Args:
        slices: what to read; disjoint.
        effect: what the rows do to the table.
        state: the strategy's part of the new position.
        loaded_through: see `Position`.
        rows: exact or estimated number of rows; None if not known.
        bytes: estimated bytes; None if not known.
        reason: why these slices are read, one sentence for people.
        edge: the bound that was used; None for strategies without a cursor.
        parts: the single slices, from strategies that measure them; each may be loaded without the others.
        notes: what people should know, one sentence each.
        read_at: the time of the source's snapshot, see `Probe.now`; None of what was not read from a source.
    """

    slices: tuple[Slice, ...]
    effect: Effect
    state: Mapping[str, Any] = field(default_factory=dict)
    loaded_through: str | None = None
    rows: int | None = None
    bytes: int | None = None
    reason: str = ""
    edge: SafeBound | None = None
    parts: tuple[Part, ...] = ()
    notes: tuple[str, ...] = ()
    observed: Observed = field(default_factory=Observed)
    read_at: datetime | None = None

    @property
    def grouping(self) -> Grouping | None:
        """How the slices partition a mirrored table; None if they do not."""
        return self.effect.of if isinstance(self.effect, Mirror) else None

    @property
    def whole(self) -> bool:
        """Whether the table becomes a copy of the source, so that every other row is deleted, as `deletes:` says."""
        return isinstance(self.effect, Mirror) and self.effect.of is None and self.slices == (Everything(),)

    @property
    def compares(self) -> bool:
        """Whether a mirror is cheapest if only differing rows are written."""
        return isinstance(self.effect, Mirror) and self.effect.compares

    @property
    def repeats(self) -> str | None:
        """Why some of the rows may already be in the table, as the beginning of a sentence; None if none can."""
        return self.effect.repeats if isinstance(self.effect, Upsert) else None

    def only(self, parts: tuple[Part, ...]) -> ChangeSet:
        """The same changes restricted to these parts; the caller has to complete the state."""
        rows = sum(part.rows or 0 for part in parts)
        size = sum(part.bytes or 0 for part in parts)
        return replace(self, slices=tuple(part.slice for part in parts), parts=parts, rows=rows, bytes=size)
