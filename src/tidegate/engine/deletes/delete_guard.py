"""The delete limit of `deletes: {max_fraction: …}`, checked before a load or a repair is planned.

An empty source never empties a table without permission.
"""

from __future__ import annotations

from dataclasses import replace

from tidegate.core.changes import Action, ChangeSet
from tidegate.core.display import counted, done_by
from tidegate.core.policies.deletes import ALL_OF_THEM
from tidegate.core.position_state import is_of_empty_table
from tidegate.core.slices import Everything
from tidegate.engine.context import LoadContext
from tidegate.engine.reconcile import holds_rows
from tidegate.errors import DeleteFuse


def guard(work: LoadContext, changes: ChangeSet) -> None:
    """Refuses what is known to be too much before a row is read; what only a comparison can tell, the write refuses.

    Raises:
        DeleteFuse: the source is empty, or has so few rows that more than `max_fraction` of the table's must be gone.
    """
    if not _deletes(work, changes):
        return
    stream, table = work.stream, work.recovered.table
    if work.context.allow_deletes:
        _record(work, "run")
        return
    known = work.key_diff.rows if work.key_diff else changes.rows
    if stream.policies.deletes.max_fraction != ALL_OF_THEM and _emptied(work, changes, known):
        raise DeleteFuse(f"stream {stream.name!r}: the source is empty, and {stream.target} has rows")
    most = limit(work)
    whole = work.key_diff is not None or changes.grouping is None
    if most is None or known is None or table.rows is None or not whole or stream.policies.deletes.soft:
        return
    if table.rows - known > most:
        raise DeleteFuse(
            f"stream {stream.name!r}: the source has fewer rows ({known}) than {stream.target} ({table.rows}); "
            f"one load may delete at most {most} ({stream.policies.deletes.limit})"
        )


def guard_repair(work: LoadContext, *, source_rows: int, missing: int) -> None:
    """Refuses a repair that would delete what a load may not delete.

    Args:
        source_rows: rows that the source holds of what was compared.
        missing: rows of the table that the source does not have.

    Raises:
        DeleteFuse: the source is empty, or more than `max_fraction` of the table's rows would go.
    """
    stream, hint = work.stream, DeleteFuse.default_hint.replace("run STREAM", "verify STREAM --repair")
    if not missing:
        return
    if work.context.allow_deletes:
        _record(work, "verify --repair")
        return
    unlimited = stream.policies.deletes.max_fraction == ALL_OF_THEM
    if not unlimited and not source_rows and not work.probe.stats(Everything()).rows:
        raise DeleteFuse(f"stream {stream.name!r}: the source is empty, and {stream.target} has rows", hint=hint)
    most = limit(work)
    if most is not None and missing > most:
        raise DeleteFuse(
            f"stream {stream.name!r}: {counted(missing, 'row')} of {stream.target} no longer "
            f"{done_by(missing, 'exist')} at the source, and one repair "
            f"may delete at most {most} ({stream.policies.deletes.limit})",
            hint=hint,
        )


def knowing_rows(work: LoadContext) -> LoadContext:
    """The same load with the number of the table's rows, where a limit needs it and the table's metadata has none."""
    stream, table = work.stream, work.recovered.table
    if table.rows is not None or work.context.allow_deletes or stream.policies.deletes.most(0) is None:
        return work
    if not holds_rows(table):
        return work
    with work.session(small=True) as session:
        rows = stream.format.read(session, stream.target, table.snapshot).count()
    return replace(work, recovered=replace(work.recovered, table=replace(table, rows=rows)))


def _record(work: LoadContext, command: str) -> None:
    change = ("DELETES GUARDED", "DELETES ALLOWED")
    work.context.registry.record(work.stream.uid, change, reason=f"{command} --allow-deletes")


def limit(work: LoadContext) -> int | None:
    """The most rows that one load or repair may delete; None for any number."""
    rows = work.recovered.table.rows
    if work.context.allow_deletes or rows is None or not holds_rows(work.recovered.table):
        return None
    return work.stream.policies.deletes.most(rows)


def _emptied(work: LoadContext, changes: ChangeSet, known: int | None) -> bool:
    """Whether the source has no row any more, or none of the files that were loaded and no other."""
    if is_of_empty_table(changes.state):
        return True
    if any(part.file is not None for part in changes.parts):
        return not changes.observed.skipped and all(part.action is Action.DELETE for part in changes.parts)
    return known == 0 and not work.probe.stats(Everything()).rows


def _deletes(work: LoadContext, changes: ChangeSet) -> bool:
    """Whether rows of the table may go that the source does not have."""
    if not holds_rows(work.recovered.table):
        return False
    parts = changes.grouping is not None or any(part.action is Action.DELETE for part in changes.parts)
    return work.key_diff is not None or changes.whole or parts or work.context.full_refresh
