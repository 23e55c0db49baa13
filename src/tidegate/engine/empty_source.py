"""Decides when the table of a stream is created although its source has no rows to load yet, so that models find it.

One commit without rows, whose position says nothing but that: the first load that brings rows is still a first load.
"""

from __future__ import annotations

from tidegate.core.changes import ChangeSet
from tidegate.core.effects import Effect, Insert, Mirror, Upsert
from tidegate.core.plan import LoadPlan
from tidegate.core.position_state import EMPTY, is_of_empty_table
from tidegate.engine.context import LoadContext
from tidegate.errors import ColumnsUnknown

EFFECTS: tuple[type[Effect], ...] = (Insert, Upsert, Mirror)
"""Without rows they do the same; the first that strategy and writer have is planned."""


def creation(work: LoadContext) -> ChangeSet | None:
    """The load that creates the table, where the stream has none and its source has nothing to load.

    None where there is a table, or where only rows would tell its columns, as with a folder without files.

    Raises:
        TidegateError: the columns cannot be asked for, or not be kept.
    """
    if work.recovered.since is not None or not _has_columns(work):
        return None
    possible = work.stream.strategy.emits & work.stream.writer.accepts
    effect = next((each for each in EFFECTS if each in possible), None)
    if effect is None:
        return None
    return ChangeSet(
        slices=(),
        effect=effect(),
        state={EMPTY: True},
        rows=0,
        bytes=0,
        reason="the source has no rows that can be loaded yet, so the table is created without any",
        notes=("the source has no rows that can be loaded yet: the table is created without any",),
    )


def is_creation(plan: LoadPlan) -> bool:
    """Whether the load does nothing but create the table."""
    return not plan.changes.slices and is_of_empty_table(plan.position.state)


def _has_columns(work: LoadContext) -> bool:
    try:
        return bool(work.probe.schema().columns)
    except ColumnsUnknown:
        return False
