"""Answers a source's questions about rows in plain Python: the reference that other sources are compared with.

Shares no code with the SQL of the dialects: values are compared as Python values, not as literals of an engine.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from tidegate.core.batch import Latest
from tidegate.core.bucketing import Buckets, RowDigest
from tidegate.core.canonical_text import text_of
from tidegate.core.changes import SliceStats
from tidegate.core.fingerprint import Fingerprint, row_text
from tidegate.core.grouping import CHARACTERS, Grouping, Periods, Prefixes, Ranges, Steps
from tidegate.core.plan import Prune
from tidegate.core.schema import Column, Kind, Schema, Type
from tidegate.core.slices import Everything, Files, Keys, Partition, Range, Slice
from tidegate.errors import ColumnMissing, InternalError

Row = Mapping[str, Any]
NUMBERS = frozenset({Kind.INTEGER, Kind.DECIMAL})
ORDERED = NUMBERS | {Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.TEXT, Kind.UUID}
LISTED_KEYS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Rows of one moment: a mapping from each column's name to its value, of the column's stored type; None is NULL."""

    schema: Schema
    rows: tuple[Row, ...]

    def column(self, name: str) -> Column:
        """The column of that name. Raises ColumnMissing."""
        found = self.schema.find(name)
        if found is None:
            raise ColumnMissing(f"there is no column {name!r}; there are {', '.join(self.schema.names)}", column=name)
        return found

    def text(self, row: Row, name: str) -> str | None:
        """The canonical text of one value."""
        value = row.get(name)
        return None if value is None else text_of(self.column(name).type)(value)

    def cursor(self, row: Row, names: Sequence[str]) -> str | None:
        """The first value of these columns that is not NULL, as canonical text."""
        return next((text for name in names if (text := self.text(row, name)) is not None), None)

    def holds(self, part: Slice, row: Row) -> bool:
        """Whether the row lies in the slice."""
        match part:
            case Everything():
                return True
            case Range():
                return self._in_range(part, row)
            case Partition():
                return self._in_partition(part, row)
            case Keys():
                key = tuple(self.text(row, name) for name in part.columns)
                return part.nulls if None in key else key in part.values
            case Files(carrier=str(carrier)):
                return row.get(carrier) in part.paths
            case _:
                raise InternalError(f"rows in memory have no {part.label}")

    def among(self, parts: Iterable[Slice]) -> list[Row]:
        """The rows of any of the slices."""
        parts = tuple(parts)
        return [row for row in self.rows if any(self.holds(part, row) for part in parts)]

    def within(self, bound: Prune, row: Row) -> bool:
        """Whether the row fulfils a bound of a merge."""
        value = self.text(row, bound.column)
        if value is None:
            return False
        if bound.values:
            return value in bound.values
        low, middle, high = (comparable(bound.type, text) for text in (bound.low, value, bound.high))
        return bool(low <= middle <= high)

    def stats(self, part: Slice) -> SliceStats:
        """Rows of a slice; of a range also the greatest cursor, and how many rows lie beyond it."""
        held = [row for row in self.rows if self.holds(part, row)]
        if not isinstance(part, Range) or part.upto is None:
            return SliceStats(rows=len(held))
        kind = self.column(part.cursor[0]).type
        cursors = [text for row in held if (text := self.cursor(row, part.cursor)) is not None]
        upto = comparable(kind, part.upto)
        every = (self.cursor(row, part.cursor) for row in self.rows)
        later = sum(1 for text in every if text is not None and comparable(kind, text) > upto)
        return SliceStats(rows=len(held), last=greatest(kind, cursors), later=later)

    def last(self, rows: Sequence[Row], rule: Latest | None, *, apart: Slice | None = None) -> list[Row]:
        """The rows that the rule keeps: the last one a key.

        Args:
            apart: of a key with rows inside and outside of this slice, one of each is kept.
        """
        if rule is None:
            return list(rows)
        touched = {self.key(row, rule.key) for row in self.among(rule.touched)}
        groups: defaultdict[tuple[Any, ...], list[Row]] = defaultdict(list)
        for row in rows:
            key = self.key(row, rule.key)
            if not rule.touched or (key in touched and None not in key):
                groups[(*key, apart is not None and self.holds(apart, row))].append(row)
        return [max(group, key=lambda row: self._place(row, rule)) for group in groups.values()]

    def key(self, row: Row, names: Sequence[str]) -> tuple[str | None, ...]:
        """The canonical texts of these columns."""
        return tuple(self.text(row, name) for name in names)

    def row_text(self, row: Row, columns: Iterable[Column]) -> str:
        """The text of a row that its fingerprint is made of."""
        return row_text(self.text(row, column.name) for column in columns)

    def fingerprint(self, rows: Iterable[Row], columns: Sequence[Column] | None = None) -> Fingerprint:
        """Of these rows over the covered columns, or over those given."""
        covered = self.schema.covered if columns is None else columns
        return Fingerprint.of_texts(self.row_text(row, covered) for row in rows)

    def partitions(self, grouping: Grouping, rows: Iterable[Row]) -> dict[Slice, Fingerprint]:
        """The fingerprint of every partition that has rows among these."""
        groups: defaultdict[Slice, list[Row]] = defaultdict(list)
        for row in rows:
            groups[self.partition(grouping, row)].append(row)
        return {part: self.fingerprint(group) for part, group in groups.items()}

    def partition(self, grouping: Grouping, row: Row) -> Slice:
        """The partition that a row lies in."""
        if grouping.column is None:
            return Everything()
        column = self.column(grouping.column)
        text = self.text(row, column.name)
        if text is None:
            return grouping.part(None, column)
        match grouping:
            case Steps(width=width):
                bucket = str(int(Decimal(text)) // width * width)
            case Periods(period=period):
                bucket = grouping.coarse(text[: CHARACTERS[period]]) or ""
            case Prefixes(length=length):
                bucket = text[:length]
            case Ranges(cuts=cuts):
                number = comparable(column.type, text)
                bucket = next((cut for cut in reversed(cuts) if comparable(column.type, cut) <= number), "")
        return grouping.part(bucket, column)

    def key_bounds(self, part: Slice, name: str) -> Prune | None:
        """Least and greatest value of a column in a slice, and all of them if they are few."""
        kind = self.column(name).type
        held = self.among([part])
        texts = sorted({text for row in held if (text := self.text(row, name)) is not None})
        if kind.kind not in ORDERED or not texts:
            return None
        ordered = sorted(texts, key=lambda text: comparable(kind, text))
        few = tuple(texts) if len(held) <= LISTED_KEYS else ()
        return Prune(column=name, type=kind, low=ordered[0], high=ordered[-1], values=few)

    def spread(self, rows: Iterable[Row], key: Sequence[str], spread: Buckets) -> dict[str, Fingerprint]:
        """The fingerprint of every bucket that has rows among these."""
        groups: defaultdict[str, list[Row]] = defaultdict(list)
        for row in rows:
            groups[self.bucket(row, key, spread.count, spread.width)].append(row)
        if spread.width is None:
            covered = [self.column(name) for name in key] if spread.keys else None
            return {name: self.fingerprint(group, covered) for name, group in groups.items()}
        return {
            name: Fingerprint(rows=len(group), s0=sum(remainder(row[key[0]], spread.width) for row in group))
            for name, group in groups.items()
        }

    def in_buckets(self, part: Slice | None, key: Sequence[str], spread: Buckets) -> Iterator[Row]:
        """The rows of the slice, or all, that lie in the named buckets of a smaller spread."""
        for row in self.rows:
            inside = part is None or self.holds(part, row)
            if inside and (spread.within is None or self.bucket(row, key, spread.among, spread.width) in spread.within):
                yield row

    def bucket(self, row: Row, key: Sequence[str], count: int, width: int | None = None) -> str:
        """The name of a row's bucket."""
        columns = [self.column(name) for name in key]
        if len(columns) == 1 and columns[0].type.kind is Kind.INTEGER:
            number = row.get(key[0]) or 0
            return str(number - remainder(number, width) if width is not None else remainder(number, count))
        digest = hashlib.md5(self.row_text(row, columns or self.schema.covered).encode(), usedforsecurity=False)
        return str(int.from_bytes(digest.digest()[12:16]) % count)

    def digests(self, part: Slice, key: Sequence[str], spread: Buckets, latest: Latest | None) -> list[RowDigest]:
        """The rows of the named buckets by key and md5, also those beyond the slice."""
        rows = self.last(list(self.in_buckets(None, key, spread)), latest, apart=part)
        return [
            RowDigest(
                key=self.key(row, key),
                digest="" if spread.keys else md5(self.row_text(row, self.schema.covered)),
                inside=self.holds(part, row),
            )
            for row in rows
        ]

    def _in_range(self, part: Range, row: Row) -> bool:
        text = self.cursor(row, part.cursor)
        if text is None:
            return part.nulls
        if part.upto is None:
            return False
        kind = self.column(part.cursor[0]).type
        value = comparable(kind, text)
        above = part.after is None or value > comparable(kind, part.after)
        return bool(above and value <= comparable(kind, part.upto))

    def _in_partition(self, part: Partition, row: Row) -> bool:
        text, kind = self.text(row, part.column), self.column(part.column).type
        if text is None:
            return part.of_null or part.nulls
        if part.of_null:
            return False
        if part.prefix is not None:
            return text[: part.length] == part.prefix
        value = comparable(kind, text)
        above = part.low is None or value >= comparable(kind, part.low)
        return bool(above and (part.high is None or value < comparable(kind, part.high)))

    def _place(self, row: Row, rule: Latest) -> tuple[Any, ...]:
        """What the rows of one key are ordered by; NULL comes before everything."""
        texts = [(rule.cursor[0], self.cursor(row, rule.cursor))] if rule.cursor else []
        texts += [(name, self.text(row, name)) for name in rule.order]
        return tuple(
            (text is not None, None if text is None else comparable(self.column(name).type, text))
            for name, text in texts
        )


def comparable(kind: Type, text: str) -> Any:
    """What orders canonical texts of a type: numbers by value, everything else by code points."""
    return Decimal(text) if kind.kind in NUMBERS else text


def greatest(kind: Type, texts: Iterable[str]) -> str | None:
    """The canonical text of the greatest value; None for no values."""
    return max(texts, key=lambda text: comparable(kind, text), default=None)


def remainder(number: int, divisor: int) -> int:
    """Of a division towards zero, so that it has the sign of the number."""
    return abs(number) % divisor * (-1 if number < 0 else 1)


def md5(text: str) -> str:
    """In lower hex."""
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
