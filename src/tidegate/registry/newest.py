"""The newest row of each stream: one look into an index a stream, however many rows it has. Reads only."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, Row, and_, func, select

from tidegate.registry.tables import object_info, runs
from tidegate.registry.values import GOOD


def newest(  # noqa: PLR0913 - the parts of one question
    connection: Connection,
    by: Column[Any],
    wanted: Sequence[str | ColumnElement[Any]],
    *,
    of: Collection[ColumnElement[bool]] = (),
    only: Collection[ColumnElement[bool]] = (),
    streams: Collection[ColumnElement[bool]] = (),
) -> dict[int, Row[Any]]:
    """By the number of the stream the row of a table that is greatest in a column.

    Args:
        by: the column; an index begins with `object_id`, the columns of `of`, and this one.
        wanted: columns of the answer beside `object_id`, and what else is told of the row.
        of: conditions on the rows that count.
        only: conditions on the newest of them, without which the stream is left out.
        streams: conditions on `object_info`.
    """
    table = by.table
    of_stream = table.c.object_id == object_info.c.object_id
    last = select(func.max(by)).where(of_stream, *of).correlate(object_info).scalar_subquery()
    # An outer join, for SQLite would else begin with all rows of the table.
    joined = object_info.outerjoin(table, and_(of_stream, by == last, *of, *only))
    query = (
        select(*(table.c[each] if isinstance(each, str) else each for each in ("object_id", *wanted)))
        .select_from(joined)
        .where(*streams)
    )
    return {row.object_id: row for row in connection.execute(query) if row.object_id is not None}


def newest_good(
    connection: Connection, wanted: Sequence[str | ColumnElement[Any]], *, streams: Collection[ColumnElement[bool]] = ()
) -> dict[int, Row[Any]]:
    """By the number of the stream its last run that loaded or found nothing new: two looks into an index each.

    Args: see `newest`.
    """
    found: dict[int, Row[Any]] = {}
    later = runs.alias()
    for outcome, other in zip(GOOD, reversed(GOOD), strict=True):
        # Documents are large: only that of the later of the two is read.
        of_stream = (later.c.object_id == runs.c.object_id) & (later.c.outcome == other)
        after = select(later.c.run_id).where(of_stream, later.c.number > runs.c.number).exists()
        own = [runs.c.outcome == outcome]
        found |= newest(connection, runs.c.number, wanted, of=own, only=[~after], streams=streams)
    return found
