"""Refuses to move a position back if the next run would then add rows that the table already has.

Checked before `state set` and `state rewind`. Writers for which a repeated row is harmless are never refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidegate.core.display import counted, done_by
from tidegate.core.effects import Apply
from tidegate.core.ports.format import TableState
from tidegate.core.slices import Range
from tidegate.engine.context import RunContext
from tidegate.engine.reconcile import holds_rows
from tidegate.engine.stream import Stream
from tidegate.engine.verification.comparison import within
from tidegate.errors import PlanError
from tidegate.spark.failures import translated


def refuse_repeats(stream: Stream, context: RunContext, table: TableState, state: Mapping[str, Any]) -> None:
    """Looks into the table for rows that the next run would read again.

    Args:
        state: the strategy's part of the position to be.

    Raises:
        PlanError: there are some, or nothing tells.
    """
    unmoved = table.position is not None and table.position.state == state
    if _takes_twice(stream) or not holds_rows(table) or table.schema is None or unmoved:
        return
    cursor, value = stream.strategy.cursor, stream.strategy.resume_at(state)
    again = f"or run a full refresh: `tidegate run {stream.name} --full-refresh --yes`."
    if not cursor or value is None or any(table.schema.find(name) is None for name in cursor):
        raise PlanError(
            f"stream {stream.name!r}: from that position on write: {stream.writer.kind} would add rows again that "
            f"{stream.target} already has, and nothing shows which rows these are",
            hint=f"Undo loads with `tidegate rollback {stream.name} --to VERSION`, {again}",
        )
    where = within(Range(cursor=cursor, after=str(value), upto=None), table.schema)
    with context.session(small=True) as session, translated(f"reading {stream.target}"):
        rows = stream.format.read(session, stream.target, table.snapshot).where(where).count()
    if rows:
        raise PlanError(
            f"stream {stream.name!r}: {counted(rows, 'row')} of {stream.target} {done_by(rows, 'are')} after that "
            f"position, and write: {stream.writer.kind} would add them again",
            hint=f"Delete them first, in Spark `DELETE FROM {stream.target} WHERE {where}`, {again}",
        )


def _takes_twice(stream: Stream) -> bool:
    """Whether a row that comes again changes nothing; in a history that its loads date an event does."""
    writer, strategy = stream.writer, stream.strategy
    versions = writer.versions
    by_loads = versions is not None and versions.moment(strategy.cursor) is None
    return writer.idempotent and not (by_loads and Apply in strategy.emits)
