"""Splits the rows of a load into conditions that Spark reads in parallel.

The conditions cover every row exactly once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta

from tidegate.core.ports.dialect import Session
from tidegate.core.schema import Column, Kind
from tidegate.core.slices import Partition, Range, Slice
from tidegate.dialects.shared.key_ranges import even
from tidegate.dialects.shared.statements import Statements

SMALL_ROWS = 50_000
LEAST = 4
"""Slices of a batch of some times as many rows, however small these are."""
SLICE_BYTES = 64 * 1024 * 1024
MOST = 200
CUT = frozenset({Kind.INTEGER, Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ})
MICROSECOND = timedelta(microseconds=1)
BEGINNING = datetime.min  # noqa: DTZ901 - canonical texts have no zone
# Below this share of a table its cursor is cut, which an index serves; above it, its pages are.
PAGES_FROM = 0.2


def slices_for(rows: int, row_bytes: int, wanted: int | None) -> int:
    """How many slices a number of rows is worth: more than cores, so that they end together; one for a small batch.

    Example:
        >>> slices_for(40_000, 200, None), slices_for(4_000, 2**20, None), slices_for(200_000, 200, None)
        (1, 63, 4)
    """
    if wanted is not None:
        return max(1, wanted)
    least = max(1, min(LEAST, math.ceil(rows / SMALL_ROWS)))
    return max(least, min(MOST, math.ceil(rows * row_bytes / SLICE_BYTES)))


def conditions(
    session: Session, statements: Statements, sizes: Sequence[tuple[Slice, int]], wanted: int | None, row_bytes: int
) -> list[str]:
    """Disjoint conditions that together are the slices, given each with its number of rows."""
    found: list[str] = []
    for part, rows in sizes:
        count = slices_for(rows, row_bytes, wanted)
        found.extend(_cut(session, statements, part, rows, count) if count > 1 else [statements.condition(part)])
    return found


def _cut(session: Session, statements: Statements, part: Slice, rows: int, count: int) -> Iterator[str]:
    inside = statements.condition(part)
    if isinstance(part, Range | Partition) and rows < PAGES_FROM * session.estimate(statements.relation, "1 = 1"):
        pieces = tuple(_pieces(session, statements, part, count))
        if len(pieces) > 1:
            yield from map(statements.condition, pieces)
            return
    places = session.cuts(statements.relation, count) or _by_key(session, statements, inside, count)
    yield from (f"{inside} AND {place}" for place in places) if places else (inside,)


def _pieces(session: Session, statements: Statements, part: Slice, count: int) -> Iterator[Slice]:
    """Parts of a slice by the column that it is cut by; none where it has no such bounds."""
    if isinstance(part, Range) and part.upto is not None:
        yield from _by_cursor(session, statements, part, count)
    if isinstance(part, Partition):
        yield from widths(part, statements.column(part.column), count)


def widths(part: Partition, column: Column, count: int) -> Iterator[Partition]:
    """Parts of a partition that are equally wide; none of one without two bounds, or too narrow.

    Example:
        >>> from tidegate.core.schema import TIMESTAMP
        >>> day = Partition(column="at", label="20250101", low="2025-01-01 00:00:00", high="2025-01-02 00:00:00")
        >>> [piece.high for piece in widths(day, Column(name="at", type=TIMESTAMP), 2)]
        ['2025-01-01 12:00:00.000000', '2025-01-02 00:00:00']
    """
    if part.low is None or part.high is None or column.type.kind not in CUT:
        return
    low, high = (_number(column, text) for text in (part.low, part.high))
    if high - low < count:
        return
    borders = [_text(column, low + (high - low) * piece // count) for piece in range(1, count)]
    ends = zip([part.low, *borders], [*borders, part.high], strict=True)
    for first, beyond in ends:
        yield replace(part, low=first, high=beyond, nulls=part.nulls and first == part.low)


def _number(column: Column, text: str) -> int:
    """The integer, or the microseconds or days since the first year."""
    if column.type.kind is Kind.INTEGER:
        return int(text)
    moment = datetime.fromisoformat(text)
    return moment.toordinal() if column.type.kind is Kind.DATE else (moment - BEGINNING) // MICROSECOND


def _text(column: Column, number: int) -> str:
    match column.type.kind:
        case Kind.INTEGER:
            return str(number)
        case Kind.DATE:
            return date.fromordinal(number).isoformat()
        case _:
            return (BEGINNING + number * MICROSECOND).isoformat(" ", "microseconds")


def _by_cursor(session: Session, statements: Statements, part: Range, count: int) -> Iterator[Range]:
    """Ranges of the cursor with about the same number of rows each."""
    borders = [row[0] for row in session.rows(statements.borders(part, count))]
    after = part.after
    for border in sorted(set(borders), key=borders.index)[:-1]:
        yield replace(part, after=after, upto=border, nulls=False)
        after = border
    yield replace(part, after=after)


def _by_key(session: Session, statements: Statements, inside: str, count: int) -> tuple[str, ...]:
    """Ranges of an integer that identifies a row; none where there is no such column."""
    names = [next(iter(names)) for names in session.unique_sets(statements.relation) if len(names) == 1]
    known = {column.name for column in statements.own if column.type.kind is Kind.INTEGER}  # one may be left out
    name = next((name for name in names if name in known), None)
    if name is None:
        return ()
    key = statements.dialect.quote(name)
    ((low, high),) = session.rows(f"SELECT min({key}), max({key}) FROM {statements.relation.sql} WHERE {inside}")
    return even(key, low, high, count)
