"""A lookback of several durations: which periods before the position to compare again, and their fingerprints.

A period without a stored fingerprint never counts as unchanged. What is due depends only on the position, so a failed
run skips nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from tidegate.core.bounds import forward
from tidegate.core.fingerprint import Fingerprint
from tidegate.core.grouping import Period, Periods
from tidegate.core.ports.source import Probe
from tidegate.core.schema import Column, Kind
from tidegate.core.slices import Range
from tidegate.core.spelling import suggest
from tidegate.errors import ColumnMissing

HOUR, DAY, TICK = timedelta(hours=1), timedelta(days=1), timedelta(microseconds=1)
MOST_PERIODS = 100
NOTHING = Fingerprint()
Span = tuple[str | None, str]
"""Exclusive and inclusive bound of a range of the cursor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LookbackResult:
    """The result of a lookback.

    Args:
        spans: the ranges that differ, in order and disjoint.
        state: what the position stores once these ranges and the new rows are loaded.
        late: rows that arrived after the position had passed them: how far behind it they lie at most, in seconds, and
            how many.
    """

    spans: tuple[Span, ...] = ()
    state: Mapping[str, Any] | None = None
    late: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    """Fingerprints by the beginning of their period, of all periods with rows at or after `since`."""

    since: datetime = datetime.max  # noqa: DTZ901 - a cursor's texts have no zone
    prints: Mapping[datetime, Fingerprint] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rechecks:
    """Compares days (hours if an offset is not in whole days) again when the position passes each offset."""

    column: str
    offsets: tuple[timedelta, ...]

    @property
    def period(self) -> Period:
        """The period that is compared as one."""
        return Period.HOUR if any(offset % DAY for offset in self.offsets) else Period.DAY

    def problems(self) -> tuple[str, ...]:
        """What is wrong with the offsets."""
        count = max(self.offsets) // self._length
        if count <= MOST_PERIODS:
            return ()
        whole = ", or use durations of whole days" if self.period is Period.HOUR else ""
        return (f"lookback spans {count} {self.period}s, but at most {MOST_PERIODS} can be kept{whole}",)

    def look(
        self, probe: Probe, value: str | None, last: str | None, state: Mapping[str, Any] | None
    ) -> LookbackResult:
        """Compares the periods that are due between two positions with the fingerprints kept at the first.

        Args:
            value, last: the position before and after the load.
            state: `LookbackResult.state` of the load before; None if nothing was kept.
        """
        if last is None:
            return LookbackResult()
        column = self._column(probe)
        kept, low = self._kept(state), self._back(last, max(self.offsets))
        due = self._due(value, last, kept, low)
        there = self._measured(probe, column, due, (None, value))
        differ = [start for start in due if kept.prints.get(start, NOTHING) != there[start]]
        first = low if value is None else max(low, self._start(value))
        new = list(self._between(first, self._start(last))) if value != last else []
        fresh = self._measured(probe, column, new, (value, last))
        known = {start: found for start, found in {**kept.prints, **there}.items() if start >= low}
        for start, found in fresh.items():
            known[start] = known.get(start, NOTHING) + found
        periods = {start.isoformat(): str(found) for start, found in sorted(known.items()) if found.rows}
        return LookbackResult(
            spans=tuple(self._spans(differ, column, value)),
            state={"period": str(self.period), "since": low.isoformat(), "periods": periods},
            late=tuple(self._late(differ, there, kept, value)),
        )

    @property
    def _length(self) -> timedelta:
        return HOUR if self.period is Period.HOUR else DAY

    def _due(self, value: str | None, last: str, kept: _Kept, low: datetime) -> list[datetime]:
        """The periods that pass an offset when the position moves, or that have no fingerprint."""
        if value is None:
            return []
        found = {
            start
            for offset in self.offsets
            for start in self._between(self._back(value, offset), self._back(last, offset))
        }
        if kept.since > low:
            found.update(self._between(low, min(kept.since, self._start(value))))
        return sorted(start for start in found if start <= self._start(value))

    def _measured(
        self, probe: Probe, column: Column, starts: Collection[datetime], ends: tuple[str | None, str | None]
    ) -> dict[datetime, Fingerprint]:
        """The source's fingerprint of each period after the first end and up to the second; None for no end."""
        found = dict.fromkeys(starts, NOTHING)
        cut = {self._start(end) for end in ends if end is not None} & found.keys()
        for start in cut:
            after = max((end for end in (ends[0], _before(start, column)) if end is not None), default=None)
            upto = min(filter(None, (ends[1], self._last(start, column))))
            found[start] = probe.fingerprint(Range(cursor=(self.column,), after=after, upto=upto))
        grouping = Periods(column=self.column, period=self.period)
        whole = {grouping.part(self._bucket(start), column): start for start in starts if start not in cut}
        starts_by_label = {part.label: start for part, start in whole.items()}
        for part, fingerprint in (probe.partitions(grouping, only=list(whole)) if whole else {}).items():
            found[starts_by_label[part.label]] = fingerprint
        return found

    def _spans(self, starts: Sequence[datetime], column: Column, value: str | None) -> Iterator[Span]:
        """Periods as ranges up to the position, with neighbours joined."""
        together, first, following = set(starts), None, {forward(start, self._length) for start in starts}
        for start in starts:
            if start not in following:
                first = _before(start, column)
            if forward(start, self._length) not in together:
                yield first, min(filter(None, (value, self._last(start, column))))

    def _late(
        self, starts: Sequence[datetime], there: Mapping[datetime, Fingerprint], kept: _Kept, value: str | None
    ) -> Iterator[tuple[int, int]]:
        for start in starts:
            more = there[start].rows - kept.prints.get(start, NOTHING).rows
            if value is not None and start >= kept.since and more > 0:
                yield int((datetime.fromisoformat(value) - start).total_seconds()), more

    def _kept(self, state: Mapping[str, Any] | None) -> _Kept:
        if state is None or state["period"] != self.period:
            return _Kept()
        prints = {datetime.fromisoformat(start): Fingerprint.parse(found) for start, found in state["periods"].items()}
        return _Kept(since=datetime.fromisoformat(state["since"]), prints=prints)

    def _column(self, probe: Probe) -> Column:
        column = probe.schema().find(self.column)
        if column is None:
            raise ColumnMissing(
                f"the source has no column {self.column!r}; {suggest(self.column, probe.schema().names)}",
                column=self.column,
            )
        return column

    def _start(self, value: str) -> datetime:
        return Periods(column=self.column, period=self.period).start(datetime.fromisoformat(value))

    def _back(self, value: str, offset: timedelta) -> datetime:
        moment = datetime.fromisoformat(value)
        return self._start((moment - min(offset, moment - datetime.min)).isoformat())  # noqa: DTZ901 - texts have no zone

    def _between(self, first: datetime, last: datetime) -> Iterator[datetime]:
        for number in range((last - first) // self._length + 1):
            yield first + number * self._length

    def _last(self, start: datetime, column: Column) -> str:
        """The greatest canonical text of the period that begins there."""
        if column.type.kind is Kind.DATE:
            return (start + (self._length - DAY)).date().isoformat()
        return (start + (self._length - TICK)).isoformat(" ", "microseconds")

    def _bucket(self, start: datetime) -> str:
        return start.isoformat(" ")[: 13 if self.period is Period.HOUR else 10]


def _before(moment: datetime, column: Column) -> str | None:
    """The greatest canonical text below a moment; None if there is none."""
    try:
        if column.type.kind is Kind.DATE:
            return (moment - DAY).date().isoformat()
        return (moment - TICK).isoformat(" ", "microseconds")
    except OverflowError:
        return None
