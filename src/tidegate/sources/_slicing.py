"""Decides into how many conditions the rows of a load are cut, so that Spark reads them side by side.

Called by the database source when rows move. Must never leave a row out or read one twice.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from tidegate.core.schema import Kind
from tidegate.core.slices import Range, Slice
from tidegate.dialects._dialect import Session
from tidegate.dialects._ranges import even
from tidegate.dialects._statements import Statements

SMALL_ROWS = 100_000
SLICE_BYTES = 64 * 1024 * 1024
MOST = 200
# Below this share of a table its cursor is cut, which an index serves; above it, its pages are.
PAGES_FROM = 0.2


def slices_for(rows: int, row_bytes: int, wanted: int | None) -> int:
    """How many slices a number of rows is worth: more than cores, so that they end together; one for a small batch."""
    if wanted is not None:
        return max(1, wanted)
    if rows <= SMALL_ROWS:
        return 1
    return max(4, min(MOST, math.ceil(rows * row_bytes / SLICE_BYTES)))


def conditions(
    session: Session, statements: Statements, sizes: Sequence[tuple[Slice, int]], wanted: int | None
) -> list[str]:
    """Disjoint conditions that together are the slices, given each with its number of rows."""
    row_bytes = session.row_bytes(statements.relation) if any(rows > SMALL_ROWS for _, rows in sizes) else 1
    found: list[str] = []
    for part, rows in sizes:
        count = slices_for(rows, row_bytes, wanted)
        found.extend(_cut(session, statements, part, rows, count) if count > 1 else [statements.condition(part)])
    return found


def _cut(session: Session, statements: Statements, part: Slice, rows: int, count: int) -> Iterator[str]:
    inside = statements.condition(part)
    small = isinstance(part, Range) and part.upto is not None
    if small and rows < PAGES_FROM * session.estimate(statements.relation, "1 = 1"):
        yield from (statements.condition(piece) for piece in _by_cursor(session, statements, part, count))
        return
    places = session.cuts(statements.relation, count) or _by_key(session, statements, inside, count)
    yield from (f"{inside} AND {place}" for place in places) if places else (inside,)


def _by_cursor(session: Session, statements: Statements, part: Slice, count: int) -> Iterator[Range]:
    """Ranges of the cursor with about the same number of rows each."""
    if not isinstance(part, Range):
        return
    borders = [row[0] for row in session.rows(statements.borders(part, count))]
    after = part.after
    for border in sorted(set(borders), key=borders.index)[:-1]:
        yield replace(part, after=after, upto=border, nulls=False)
        after = border
    yield replace(part, after=after)


def _by_key(session: Session, statements: Statements, inside: str, count: int) -> tuple[str, ...]:
    """Ranges of an integer that identifies a row; none where there is no such column."""
    names = [next(iter(names)) for names in session.unique_sets(statements.relation) if len(names) == 1]
    name = next((name for name in names if statements.column(name).type.kind is Kind.INTEGER), None)
    if name is None:
        return ()
    key = statements.dialect.quote(name)
    ((low, high),) = session.rows(f"SELECT min({key}), max({key}) FROM {statements.relation.sql} WHERE {inside}")
    return even(key, low, high, count)
