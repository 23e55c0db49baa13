"""The interval ledger: the state of every interval of a cursor (verified, empty, unverified, stale or failed).

Kept by the registry and shown by `status`. A load never starts from it, but from the position in the table's commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from tidegate.core.display import Shown


class IntervalState(StrEnum):
    """The state of an interval: loaded and verified, verified to have no rows, and so on."""

    DONE = "done"
    EMPTY = "empty"
    UNVERIFIED = "unverified"
    STALE = "stale"
    FAILED = "failed"


GAPS = frozenset({IntervalState.STALE, IntervalState.FAILED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Cursor values above `after` and up to `upto`, canonical texts, and the state of their rows.

    Args:
        after: None for no bound.
        rows: that were loaded; None when not known.
    """

    after: str | None
    upto: str
    known: IntervalState
    rows: int | None = None

    @property
    def label(self) -> str:
        """For people, as a slice's."""
        return f"({self.after or '-inf'}, {self.upto}]"

    def to_dict(self) -> dict[str, Any]:
        """JSON types only."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """A part of a stream that its table lacks, by the label of its interval or partition."""

    label: str
    known: IntervalState


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervals(Shown):
    """Disjoint intervals in cursor order; equal neighbours are merged."""

    parts: tuple[Interval, ...] = ()

    @classmethod
    def of(cls, parts: Iterable[Interval]) -> Intervals:
        """Of disjoint intervals in any order."""
        ordered = sorted(parts, key=lambda part: _place(part.upto))
        return cls(parts=tuple(_joined(ordered)))

    @property
    def gaps(self) -> tuple[Interval, ...]:
        """Intervals whose rows are not in the table as in the source, and the ranges between intervals."""
        holes = [
            Interval(after=left.upto, upto=right.after, known=IntervalState.FAILED)
            for left, right in zip(self.parts, self.parts[1:], strict=False)
            if right.after is not None and right.after != left.upto
        ]
        return Intervals.of([*holes, *(part for part in self.parts if part.known in GAPS)]).parts

    def painted(self, part: Interval) -> Intervals:
        """The same intervals, with the state of this one replaced.

        Example:
            >>> loaded = Intervals().painted(Interval(after=None, upto="9", known=IntervalState.DONE, rows=4))
            >>> [each.label for each in loaded.painted(Interval(after="5", upto="7", known=IntervalState.STALE)).parts]
            ['(-inf, 5]', '(5, 7]', '(7, 9]']
        """
        if _place(part.after) >= _place(part.upto):
            return self
        rest = (piece for each in self.parts for piece in _without(each, part))
        return Intervals.of([*rest, part])

    def upto(self, bound: str | None) -> Intervals:
        """The intervals at or below a bound; nothing for None."""
        return Intervals.of(piece for each in self.parts if (piece := _below(each, bound)) is not None)

    def loaded(
        self, slices: Sequence[tuple[str | None, str | None]], through: str | None, *, proven: bool, rows: int | None
    ) -> Intervals:
        """After a load of these slices (exclusive and inclusive bound) was committed; `through` is the new end."""
        known = IntervalState.DONE if proven else IntervalState.UNVERIFIED
        parts = [
            Interval(after=after, upto=upto, known=known, rows=rows if len(slices) == 1 else None)
            for after, upto in slices
            if upto is not None
        ]
        found = self.upto(through)
        for part in parts:
            found = found.painted(part)
        return found

    def moved(self, through: str | None) -> Intervals:
        """After the position was moved by hand: rows before it are trusted, rows after it are read again."""
        if through is None:
            return Intervals()
        kept = self.upto(through)
        end = self.parts[-1].upto if self.parts else None
        if _place(end) < _place(through):
            kept = kept.painted(Interval(after=end, upto=through, known=IntervalState.UNVERIFIED))
        last = next((part.upto for part in reversed(self.parts) if part.known is not IntervalState.EMPTY), None)
        if last is not None:
            kept = kept.painted(Interval(after=through, upto=last, known=IntervalState.STALE))
        return kept

    def proven(self, after: str | None, upto: str | None) -> Intervals:
        """After the table was verified to equal the source between two bounds."""
        if upto is None:
            return self
        found = self
        for part in self.parts:
            low, high = max(part.after, after, key=_place), min(part.upto, upto, key=_place)
            if part.known is IntervalState.UNVERIFIED and _place(low) < _place(high):
                whole = (low, high) == (part.after, part.upto)
                rows = part.rows if whole else None
                found = found.painted(Interval(after=low, upto=high, known=IntervalState.DONE, rows=rows))
        return found

    def empty(self, after: str | None, upto: str | None) -> Intervals:
        """After the source was found to have no rows there."""
        return (
            self if upto is None else self.painted(Interval(after=after, upto=upto, known=IntervalState.EMPTY, rows=0))
        )

    def failed(self, slices: Sequence[tuple[str | None, str | None]], through: str | None) -> Intervals:
        """After a load of these slices failed: what was loaded before is stale, the rest is missing."""
        found = self
        for after, upto in slices:
            if upto is None:
                continue
            middle = max(after, min(through, upto, key=_place), key=_place)
            for low, high, known in ((after, middle, IntervalState.STALE), (middle, upto, IntervalState.FAILED)):
                if high is not None:
                    found = found.painted(Interval(after=low, upto=high, known=known))
        return found


def slices_of(changes: Mapping[str, Any]) -> list[tuple[str | None, str | None]]:
    """The bounds of the ranges that a saved plan's changes name; none for a load of another kind."""
    return [(part["after"], part["upto"]) for part in changes["slices"] if "cursor" in part]


def _place(bound: str | None) -> tuple[int, int, str]:
    """Where a bound lies: no bound first, numbers by their value, other texts by code points."""
    if bound is None:
        return (-1, 0, "")
    return (0, int(bound), "") if bound.removeprefix("-").isdigit() else (1, 0, bound)


def _without(part: Interval, other: Interval) -> Iterator[Interval]:
    """What is left of an interval beside another."""
    if _place(other.upto) <= _place(part.after) or _place(part.upto) <= _place(other.after):
        yield part
        return
    if _place(part.after) < _place(other.after) and other.after is not None:
        yield replace(part, upto=other.after, rows=None)
    if _place(other.upto) < _place(part.upto):
        yield replace(part, after=other.upto, rows=None)


def _below(part: Interval, bound: str | None) -> Interval | None:
    if bound is None or _place(bound) <= _place(part.after):
        return None
    return part if _place(part.upto) <= _place(bound) else replace(part, upto=bound, rows=None)


def _joined(parts: Iterable[Interval]) -> Iterator[Interval]:
    last: Interval | None = None
    for part in parts:
        if last is not None and (last.upto, last.known) == (part.after, part.known):
            rows = None if last.rows is None or part.rows is None else last.rows + part.rows
            last = replace(last, upto=part.upto, rows=rows)
            continue
        if last is not None:
            yield last
        last = part
    if last is not None:
        yield last
