"""The strategy `checksum`: compares partition fingerprints with those of the last load, and loads what differs.

One grouped query on the source. A partition never counts as unchanged because of its row count or greatest value: an
in-place update changes neither.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, ClassVar

from tidegate.core.changes import Action, ChangeSet, Observed, Part
from tidegate.core.display import counted
from tidegate.core.effects import Effect, Mirror
from tidegate.core.fingerprint import Fingerprint
from tidegate.core.grouping import LARGEST, Grouping, Period, Periods, Prefixes, Steps, Whole, grouping_of
from tidegate.core.ledger import Entry, Ledger
from tidegate.core.ports.source import Probe
from tidegate.core.ports.strategy import Strategy
from tidegate.core.position import Position
from tidegate.core.position_state import BEGIN, LOOKBACK, begin_of
from tidegate.core.schema import Column, Kind, Schema
from tidegate.core.slices import Everything, Partition, Slice
from tidegate.errors import ColumnMissing, ConfigError, PlanError
from tidegate.strategies._loaded import compared_partitions

SLIDING = re.compile(r"LAST_([1-9][0-9]*)_(DAY|WEEK|MONTH)S?")
FIXED = re.compile(r"[0-9]{8}")
LARGEST_PARTITION = 100_000_000


GOOD_ROWS = (1_000_000, 10_000_000)
MANY_PARTITIONS = 100
PERIODS = tuple(Period)


class Method(StrEnum):
    """How a table is divided into partitions."""

    WHOLE_TABLE = "whole_table"
    BY_INTEGER = "by_integer"
    BY_DATE = "by_date"
    BY_SUBSTR = "by_substr"
    BY_RANGE = "by_range"


OPTIONS: Mapping[Method, frozenset[str]] = {
    Method.WHOLE_TABLE: frozenset(),
    Method.BY_INTEGER: frozenset({"column", "modulus"}),
    Method.BY_DATE: frozenset({"column", "period"}),
    Method.BY_SUBSTR: frozenset({"column", "length"}),
    Method.BY_RANGE: frozenset(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Checksum(Strategy):
    """Reads partitions whose rows differ from the loaded ones; detects late, changed and deleted rows.

    Args:
        method: how the table is partitioned: `whole_table`, `by_integer` (steps of `modulus`), `by_date` (a `period`),
            `by_substr` (a prefix of `length`) or `by_range` (the ranges in which the source itself keeps the table).
        column: the column whose value decides the partition of a row; rows with NULL are a partition of their own.
        modulus: how many numbers one partition spans.
        period: the length of a partition: hour, day, week, month, quarter or year, in UTC if the column has a zone.
        length: how many characters the prefix has.
        lookback: compare only partitions from this day on: `YYYYMMDD`, `LAST_7_DAYS`, `LAST_4_WEEKS`, `LAST_3_MONTHS`.
        prefilter: first compare the source engine's own, faster hash with its value at the last load.
        max_rows: the most rows that one partition may have; a larger one is refused.
    """

    kind: ClassVar[str] = "checksum"
    rereads: ClassVar[bool] = True  # the unchanged rows of a changed partition
    emits: ClassVar[frozenset[type[Effect]]] = frozenset({Mirror})
    variants: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "whole_table": {},
        "by_integer": {"method": "by_integer", "column": "id", "modulus": 1000},
        "by_date": {"method": "by_date", "column": "day", "period": "month"},
        "by_date with lookback": {"method": "by_date", "column": "day", "period": "month", "lookback": "LAST_3_MONTHS"},
        "by_substr": {"method": "by_substr", "column": "code", "length": 2},
        "by_range": {"method": "by_range"},
    }

    method: Method = field(
        default=Method.WHOLE_TABLE, metadata={"aliases": ("type",), "spellings": {"WHOLE TABLE": "whole_table"}}
    )
    column: str | None = field(default=None, metadata={"aliases": ("column_name",)})
    modulus: int | None = None
    period: Period | None = None
    length: int | None = None
    lookback: str | None = None
    prefilter: bool = False
    max_rows: int = LARGEST_PARTITION

    @property
    def by_range(self) -> bool:
        """Whether the source's own partitions are used."""
        return self.method is Method.BY_RANGE

    def problems(self) -> tuple[str, ...]:
        given = {name for name in ("column", "modulus", "period", "length") if getattr(self, name) is not None}
        wanted = OPTIONS[self.method]
        found = [f"method {self.method} needs {name}:" for name in sorted(wanted - given)]
        found += [f"method {self.method} has no {name}:" for name in sorted(given - wanted)]
        found += [
            f"{name} must be 1 or more, got {value}"
            for name, value in (("modulus", self.modulus), ("length", self.length), ("max_rows", self.max_rows))
            if value is not None and value < 1
        ]
        if self.modulus is not None and self.modulus > LARGEST:
            found.append(f"modulus must be {LARGEST} or less, got {self.modulus}")
        if self.lookback is not None:
            if self.method is not Method.BY_DATE:
                found.append("lookback counts days, so it needs method: by_date")
            elif not SLIDING.fullmatch(self.lookback) and _day(self.lookback) is None:
                found.append(f"lookback {self.lookback!r} is neither a day YYYYMMDD nor LAST_n_DAYS, _WEEKS or _MONTHS")
        return tuple(found)

    def resume(self, value: str | None) -> Mapping[str, Any]:
        """The table's partitions are unknown: the next run measures them."""
        if value is not None:
            raise ConfigError(
                f"strategy checksum has no cursor, so it cannot continue from {value!r}",
                hint="`tidegate run STREAM` measures the table and loads what differs, whatever the position says.",
            )
        return {"method": {"type": str(self.method)} if self.method is Method.BY_RANGE else self._cut().to_dict()}

    def covers(self, since: Position | None, probe: Probe) -> Slice:  # noqa: ARG002 - the position says it
        return compared_partitions(since) or Everything()

    def detect(self, probe: Probe, since: Position | None, kept: Ledger | None = None) -> ChangeSet | None:
        """The partitions that differ from those loaded; None if none does.

        If `kept` is missing for a table that was loaded, every partition counts as different, unless the sum of all of
        them is still the one in the position.
        """
        grouping = self.grouping(probe)
        column = self._column(probe, grouping)
        fence = self._fence(probe, grouping, column)
        if since is None or since.state.get("method") != grouping.to_dict():
            kept = None  # partitions of another method are not these
        known = kept.entries if kept else {}
        quick = probe.quick_hashes(grouping, since=fence) if self.prefilter else None
        suspects = [] if quick is None else [part for part, value in quick.items() if _quick(known, part) != value]
        only = suspects if quick is not None and len(suspects) < len(quick) else []
        found: Mapping[Slice, Fingerprint] = {}
        if quick is None or suspects:
            found = probe.partitions(grouping, since=fence, only=only)
        if kept is None and self._all_as_loaded(since, probe, found, whole=fence is None and not only):
            return None
        seen = set(quick if quick is not None else found)
        parts = (
            *self._compared(found, quick or {}, known),
            *self._removed_partitions(seen, known, grouping, column, fence),
        )
        moved = tuple(part for part in parts if part.action is not Action.SKIP)
        if not moved and all(part.quick is None for part in parts):
            parts = ()  # nothing to load and no quick hash to remember
        if not parts and since is None:
            # Nothing within the lookback: an empty table, whatever lies before it.
            moved = parts = (Part(slice=fence or Everything(), action=Action.LOAD, fingerprint=Fingerprint()),)
        if not parts and (kept is not None or since is None or since.state.get("total") == str(Fingerprint())):
            return None
        self._refuse_large(moved, grouping)
        changes = self._moving(moved, grouping, fence)
        return replace(
            changes,
            state={**changes.state, **_begin(since, fence)},
            parts=parts,
            observed=Observed(skipped=len(seen.difference(changes.slices))),
        )

    def _moving(self, moved: tuple[Part, ...], grouping: Grouping, fence: Partition | None) -> ChangeSet:
        """What is to be read of the partitions that differ."""
        counts = {action: sum(part.action is action for part in moved) for action in Action}
        summary = ", ".join(f"{count} to {action.lower()}" for action, count in counts.items() if count)
        return ChangeSet(
            slices=tuple(part.slice for part in moved),
            effect=Mirror(of=grouping, moves=fence is not None),
            state={"method": grouping.to_dict(), **({LOOKBACK: self.lookback} if self.lookback else {})},
            rows=sum(part.rows or 0 for part in moved),
            bytes=None,
            reason=f"partitions whose checksum differs: {summary}" if summary else "the table's contents are unknown",
            notes=size_advice(grouping, [part.rows or 0 for part in moved]) if moved else (),
        )

    @property
    def partitions(self) -> Checksum:
        return self

    def equal(self, probe: Probe, since: Position | None, kept: Ledger) -> tuple[Part, ...]:
        if since is None or not kept.entries:
            return ()
        grouping = grouping_of(since.state["method"])  # theirs: the project's may be another by now
        column = probe.schema().find(grouping.column) if grouping.column is not None else None
        fence = self._fence(probe, grouping, column)
        known = {grouping.part(grouping.bucket(label), column): entry for label, entry in kept.entries.items()}
        return tuple(
            Part(slice=part, action=Action.SKIP, fingerprint=known[part].fingerprint)
            for part in sorted(known, key=_order)
            if fence is None or _within(part, fence)
        )

    def refreshing(self, since: Position) -> Checksum:
        """The same strategy without its lookback: it compares all rows that the table is to hold."""
        begin = begin_of(since.state)
        if begin is None or self.method is not Method.BY_DATE or begin["column"] != self.column:
            return replace(self, lookback=None)
        return replace(self, lookback=begin["value"][:10].replace("-", ""))

    def unlimited(self) -> Checksum:
        return replace(self, max_rows=LARGEST)

    def unpartitioned(self, columns: Schema) -> str | None:
        if self.column is None:
            return None
        column = columns.find(self.column)
        if column is None:
            return f"the source has no column {self.column!r}"
        if not column.type.covered:
            return f"{column.name} is {column.label}, which no fingerprint covers"
        return grouping_of(self.resume(None)["method"]).incompatibility(column)

    def grouping(self, probe: Probe) -> Grouping:
        """How the source's table is cut. Raises PlanError: it has no ranges of its own."""
        if self.method is not Method.BY_RANGE:
            return self._cut()
        found = probe.ranges()
        if found is None:
            raise PlanError(
                "the source has no range partitions", hint="Choose method: by_integer, by_date or by_substr."
            )
        return found

    def _cut(self) -> Grouping:
        match self.method:
            case Method.BY_INTEGER:
                return Steps(column=self.column or "", width=self.modulus or 1)
            case Method.BY_DATE:
                return Periods(column=self.column or "", period=self.period or Period.DAY)
            case Method.BY_SUBSTR:
                return Prefixes(column=self.column or "", length=self.length or 1)
            case _:
                return Whole()

    def _column(self, probe: Probe, grouping: Grouping) -> Column | None:
        if grouping.column is None:
            return None
        column = probe.schema().find(grouping.column)
        if column is None:
            known = ", ".join(probe.schema().names)
            raise ColumnMissing(f"the source has no column {grouping.column!r}; it has {known}", column=grouping.column)
        if not column.type.covered:
            raise PlanError(
                f"{column.name} is {column.label}, which no fingerprint covers, so it cannot determine "
                f"a row's partition",
                hint="Choose another column, or method: whole_table.",
            )
        reason = grouping.incompatibility(column)
        if reason is not None:
            raise PlanError(
                f"method {self.method}: {reason}", hint="Choose a column of that kind, or another `method:`."
            )
        return column

    def _fence(self, probe: Probe, grouping: Grouping, column: Column | None) -> Partition | None:
        """The beginning of the first period that the lookback includes."""
        if self.lookback is None or not isinstance(grouping, Periods) or column is None:
            return None
        now = probe.now().astimezone(UTC).replace(tzinfo=None)
        fixed = _day(self.lookback)
        if fixed is not None and fixed > now:
            raise PlanError(
                f"lookback {self.lookback} is in the future, so nothing would be compared",
                hint="Use a day in the past, or LAST_n_DAYS.",
            )
        start = grouping.start(fixed or _back(now, self.lookback))
        text = start.date().isoformat() if column.type.kind is Kind.DATE else start.isoformat(" ", "microseconds")
        return Partition(column=grouping.column, label=f"from {text}", low=text)

    def _all_as_loaded(
        self, since: Position | None, probe: Probe, found: Mapping[Slice, Fingerprint], *, whole: bool
    ) -> bool:
        """Whether the sum of all partitions is still the one in the position, although the single ones are lost."""
        if since is None or not whole or since.schema != probe.schema().digest:
            return False
        return str(sum(found.values(), Fingerprint())) == since.state.get("total")

    def _compared(
        self, found: Mapping[Slice, Fingerprint], quick: Mapping[Slice, str], known: Mapping[str, Entry]
    ) -> Iterator[Part]:
        for part in sorted({**quick, **found}, key=_order):
            entry, now = known.get(part.label), found.get(part)
            if now is None:  # it was not asked for: its quick hash is that of the last load
                if entry is not None and entry.quick == quick[part]:
                    yield Part(slice=part, action=Action.SKIP, fingerprint=entry.fingerprint)
            elif entry is None:
                yield Part(slice=part, action=Action.LOAD, fingerprint=now, quick=quick.get(part))
            elif entry.fingerprint != now:
                yield Part(slice=part, action=Action.RELOAD, fingerprint=now, quick=quick.get(part))
            else:  # equal, and from now on its quick hash will say so
                yield Part(slice=part, action=Action.SKIP, fingerprint=now, quick=quick.get(part))

    def _removed_partitions(
        self,
        seen: set[Slice],
        known: Mapping[str, Entry],
        grouping: Grouping,
        column: Column | None,
        fence: Partition | None,
    ) -> Iterator[Part]:
        labels = {part.label for part in seen}
        for label, entry in sorted(known.items()):
            if label in labels or not entry.fingerprint.rows:
                continue
            part = grouping.part(grouping.bucket(label), column)
            if fence is None or _within(part, fence):
                yield Part(slice=part, action=Action.DELETE, fingerprint=Fingerprint())

    def _refuse_large(self, parts: tuple[Part, ...], grouping: Grouping) -> None:
        for part in parts:
            if (part.rows or 0) > self.max_rows:
                raise PlanError(
                    f"partition {part.slice.label} has {counted(part.rows or 0, 'row')}, more than max_rows: "
                    f"{self.max_rows}",
                    hint=f"{_sentence(smaller(grouping, part.rows or 0, self.max_rows))}, or raise `max_rows:`.",
                )


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _quick(known: Mapping[str, Entry], part: Slice) -> str | None:
    entry = known.get(part.label)
    return entry.quick if entry else None


def _order(part: Slice) -> tuple[int, int, str]:
    """Intervals in their order, then prefixes in theirs, NULL last."""
    if not isinstance(part, Partition) or part.of_null:
        return (1, 0, "")
    low = part.low or ""
    return (0, int(low), "") if low.lstrip("-").isdigit() else (0, 0, low or part.prefix or "")


def _begin(since: Position | None, fence: Partition | None) -> dict[str, Any]:
    """The value from which the table holds the source's rows; None if it holds all of them."""
    before = begin_of(since.state) if since else None
    if fence is None or (since is not None and before is None):
        return {}
    now = {"column": fence.column, "value": fence.low}
    earlier = before is None or (before["column"] == fence.column and now["value"] < before["value"])
    return {BEGIN: now if earlier else before}


def _within(part: Slice, fence: Partition) -> bool:
    """Whether the lookback includes the partition; rows of NULL are always included."""
    if not isinstance(part, Partition) or part.low is None or fence.low is None:
        return True
    return part.low >= fence.low


def _day(text: str) -> datetime | None:
    if not FIXED.fullmatch(text):
        return None
    try:
        return datetime(int(text[:4]), int(text[4:6]), int(text[6:]))  # noqa: DTZ001 - a day has no zone
    except ValueError:
        return None


def _back(now: datetime, lookback: str) -> datetime:
    found = SLIDING.fullmatch(lookback)
    count, unit = (int(found[1]), found[2]) if found else (0, "DAY")
    if unit == "MONTH":
        months = now.year * 12 + now.month - 1 - count
        year, month = max(divmod(months, 12), (1, 0))
        return now.replace(year=year, month=month + 1, day=min(now.day, 28))
    days = count * (7 if unit == "WEEK" else 1)
    return now - timedelta(days=min(days, now.toordinal() - 1))


def size_advice(grouping: Grouping, rows: Sequence[int]) -> tuple[str, ...]:
    """One sentence where the partitions to load are too large, or many and small; else nothing.

    Example:
        >>> size_advice(Steps(column="id", width=100_000_000), [60_000_000])
        ('a partition has 60,000,000 rows; 1,000,000 to 10,000,000 are best: set modulus: 8333333',)
    """
    least, most = GOOD_ROWS
    greatest, usual = max(rows), sorted(rows)[len(rows) // 2]
    best = f"{least:,} to {most:,} are best"
    if greatest > most:
        better = smaller(grouping, greatest)
        return (f"a partition has {counted(greatest, 'row')}; {best}: {better}",)
    if len(rows) > MANY_PARTITIONS and usual < least // 10:
        better = larger(grouping, usual)
        return (f"{counted(len(rows), 'partition')} of about {counted(usual, 'row')}; {best}: {better}",)
    return ()


def smaller(grouping: Grouping, rows: int, most: int = GOOD_ROWS[1]) -> str:
    """What to set so that a partition of that many rows becomes several of at most that many."""
    good = min(most, GOOD_ROWS[1])
    match grouping:
        case Steps(width=width):
            return f"set modulus: {max(1, width * good // 2 // rows)}"
        case Periods(period=period) if period is not Period.HOUR:
            return f"set period: {PERIODS[PERIODS.index(period) - 1]}"
        case Prefixes(length=length):
            return f"set length: {length + 1}"
        case _:
            return "set method: by_integer or by_date with a column that spreads the rows"


def larger(grouping: Grouping, rows: int) -> str:
    """What to set so that several partitions of that many rows become one."""
    match grouping:
        case Steps(width=width):
            return f"set modulus: {width * GOOD_ROWS[0] * 2 // max(1, rows)}"
        case Periods(period=period) if period is not Period.YEAR:
            return f"set period: {PERIODS[PERIODS.index(period) + 1]}"
        case Prefixes(length=length) if length > 1:
            return f"set length: {length - 1}"
        case _:
            return "use a column that spreads the rows less"
