"""Decides when a load has no rows: it creates a table, so that models find it, or a full refresh empties it.

One commit without rows, whose position says nothing but that: the first load that brings rows is still a first load.
"""

from __future__ import annotations

from tidegate.core.changes import ChangeSet
from tidegate.core.display import counted, done_by
from tidegate.core.effects import Effect, Insert, Mirror, Upsert
from tidegate.core.plan import LoadPlan
from tidegate.core.position_state import EMPTY, is_of_empty_table
from tidegate.core.slices import Everything
from tidegate.engine.context import LoadContext
from tidegate.errors import ColumnsUnknown, EdgeUnknown

EFFECTS: tuple[type[Effect], ...] = (Insert, Upsert, Mirror)
"""Without rows they do the same; the first that strategy and writer have is planned."""


def without_rows(work: LoadContext) -> ChangeSet | None:
    """The load of no rows that a stream needs whose source has none to load: it creates the table, or empties it.

    None where the table stays as it is, or where only rows would tell its columns, as with a folder without files.

    Raises:
        EdgeUnknown: every row was asked for, and none of those that the source has can be read yet.
        TidegateError: the columns cannot be asked for, or not be kept.
    """
    recovered, empties = work.recovered, work.context.full_refresh and work.recovered.loaded is not None
    if empties:
        _refuse_unreadable(work)
    elif recovered.since is not None or not _has_columns(work):
        return None
    possible = work.stream.strategy.emits & work.stream.writer.accepts
    effect = next((each for each in EFFECTS if each in possible), None)
    if effect is None:
        return None
    found = "the source has no rows" if empties else "the source has no rows that can be loaded yet"
    done = "the table is emptied" if empties else "the table is created without any"
    return ChangeSet(
        slices=(),
        effect=effect(),
        state={EMPTY: True},
        rows=0,
        bytes=0,
        reason=f"{found}, so {done}",
        notes=(f"{found}: {done}",),
    )


def _refuse_unreadable(work: LoadContext) -> None:
    """Raises EdgeUnknown where the source is not empty, but none of its rows or files can be read yet."""
    probe, waiting = work.probe, ""
    if probe.files is not None:
        count = len(probe.files.listing(None).waiting)
        waiting = f"{counted(count, 'file')} that {done_by(count, 'are')} still being written" if count else ""
    elif probe.log is None and (rows := probe.stats(Everything()).rows):
        waiting = f"{counted(rows, 'row')}, none of which can be read yet"
    if waiting:
        raise EdgeUnknown(
            "; ".join(
                (f"stream {work.stream.name!r} cannot be fully refreshed: its source has {waiting}", *probe.notes())
            ),
            hint="Run again once no transaction is open that may still write older rows, or after the `safety_lag:`.",
        )


def has_none(plan: LoadPlan) -> bool:
    """Whether the load only creates the table, or empties it."""
    return not plan.changes.slices and is_of_empty_table(plan.position.state)


def _has_columns(work: LoadContext) -> bool:
    try:
        return bool(work.probe.schema().columns)
    except ColumnsUnknown:
        return False
