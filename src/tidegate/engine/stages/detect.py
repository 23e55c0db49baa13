"""Detect: finds what changed since the position.

Starts no Spark, unless a table has to be measured.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

from tidegate.core.changes import Action, ChangeSet
from tidegate.core.effects import Apply, Mirror
from tidegate.core.grouping import Grouping
from tidegate.core.ledger import Ledger
from tidegate.core.manifest import Manifest
from tidegate.core.plan import FULL_REFRESH
from tidegate.core.position import Position
from tidegate.core.position_state import METHOD, method_of, names_files, names_partitions
from tidegate.core.slices import SnapshotPair
from tidegate.engine import column_backfill, empty_source, load_history, partitions, untouched
from tidegate.engine.context import LoadContext
from tidegate.engine.deletes import key_diff
from tidegate.engine.events import Stage
from tidegate.errors import PlanError

Measure = Callable[[LoadContext, Grouping], Ledger]


@dataclass(frozen=True, slots=True, kw_only=True)
class Detected:
    """What changed, and what it was compared with.

    Args:
        work: the load context, which now says how deleted keys are looked for.
        changes: None if nothing changed.
        ledger: the partitions that the table holds; empty for strategies that compare none.
    """

    work: LoadContext
    changes: ChangeSet | None
    ledger: Ledger


def detect_changes(work: LoadContext) -> Detected:
    """Detects what changed since the position, and records what was learned about the source.

    If the partitions of a table with rows are not known, Spark measures them.
    """
    with _question(work) as payload:
        changes, ledger = detect(work, measure=measure)
        payload.update(_answer(work, changes, ledger))
    work, changes = key_diff.watch(work, changes)
    if changes is not None and (equal := partitions.equal(changes)):
        work.context.registry.keep_quick(work.stream.uid, equal)
    if changes is not None and not changes.slices:
        remember_files(work, changes)
        changes = None if changes.parts else changes
    return Detected(work=work, changes=changes, ledger=ledger)


def _question(work: LoadContext) -> AbstractContextManager[dict[str, Any]]:
    """The task of asking for every partition's checksum; none for strategies that ask for less."""
    if work.stream.strategy.partitions is None:
        return contextlib.nullcontext({})
    return work.context.registry.task(work.stream.uid, "get_checksums", run_id=work.context.run_id)


def _answer(work: LoadContext, changes: ChangeSet | None, ledger: Ledger) -> dict[str, Any]:
    """Partitions by what is done about them, the rows to load, and those of partitions that are equal."""
    compared, since = work.stream.strategy.partitions, work.recovered.since
    equal = compared.equal(work.probe, since, ledger) if compared is not None and changes is None else ()
    parts = changes.parts if changes is not None else equal
    return {
        "actions": dict(Counter(str(part.action) for part in parts)),
        "rows": changes.rows if changes else 0,
        "rows_skipped": sum(part.rows or 0 for part in parts if part.action is Action.SKIP),
    }


def detect(work: LoadContext, *, measure: Measure | None = None) -> tuple[ChangeSet | None, Ledger]:
    """What changed (None for nothing), and the partitions that the table holds.

    Starts no Spark, unless the partitions of a table with rows are not known.

    Args:
        measure: measures the partitions of the table, if neither the registry nor the sum in its position is enough;
            without it they count as changed.
    """
    stream, probe = work.stream, work.probe
    new_columns = column_backfill.new_columns(work)
    since, doubt = None if work.context.reads_everything or new_columns else work.recovered.vouched, None
    if since is not None:
        since, doubt = untouched.trusted(work, since)
    with work.journal.stage(Stage.DETECT) as tell:
        kept, strategy = _kept(work, since), stream.strategy
        if strategy.learns:
            strategy = strategy.learned(load_history.of(work.context.registry, stream.uid))
        if work.context.reads_everything and work.recovered.loaded is not None:
            strategy = strategy.refreshing(work.recovered.loaded)
        changes = _renewed(work, strategy.detect(probe, since, kept))
        _refuse_another_source(work, new_columns)
        grouping = changes.grouping if changes else None
        if grouping is not None and since is not None and method_of(since.state) != grouping.to_dict():
            kept = None  # of partitions that were cut another way
        # A resync believes nothing that was loaded, yet has to see which partitions only the table has.
        basis = since or (work.recovered.since if work.context.resync and grouping is not None else None)
        if grouping is not None and measure is not None and kept is None and basis is not None:
            kept = measure(work, grouping)
            known = replace(basis, state={**basis.state, METHOD: grouping.to_dict()})
            # The position is to vouch for what was measured, even where nothing has to move.
            changes = strategy.detect(probe, known, kept) or partitions.nothing(grouping, basis)
        if changes is not None and strategy.restores:
            state = {**changes.state, **untouched.claim(work)}
            reason = changes.reason if doubt is None else f"{changes.reason}: {doubt}"
            changes = replace(changes, state=state, reason=reason)
        if work.context.resync:
            _need_mirror(work, changes)
        if changes is not None and new_columns:
            changes = column_backfill.filled(changes, new_columns)
        changes = empty_source.without_rows(work) if changes is None else changes
        versions = stream.writer.versions
        if changes is not None and versions is not None and versions.moment(()) is not None:
            changes = _in_order(changes)
        tell(changes.reason if changes else strategy.unchanged(since) if since else "nothing changed")
    return changes, kept or Ledger()


def _renewed(work: LoadContext, changes: ChangeSet | None) -> ChangeSet | None:
    """The changes with the reason of a full refresh, which a strategy sees as a first load."""
    context = work.context
    if changes is None or not context.full_refresh or work.recovered.since is None:
        return changes
    notes = changes.notes if context.asked_by == FULL_REFRESH else (*changes.notes, context.asked_by)
    return replace(changes, reason=f"every row is read again: {context.asked_by}", notes=notes)


def _refuse_another_source(work: LoadContext, new_columns: tuple[str, ...]) -> None:
    """Refuses to read another source from the beginning where changed columns asked for it instead of a person.

    After the strategy has looked: some bounds can be asked for only before the source's snapshot is taken.

    Raises:
        ConfigError, HistoryGone: as of a load that continues from the position.
    """
    context, loaded = work.context, work.recovered.loaded
    asked = context.asked_by == FULL_REFRESH if context.reads_everything else not new_columns
    if loaded is not None and not asked:
        work.stream.strategy.check_position(loaded, work.probe)


def _in_order(changes: ChangeSet) -> ChangeSet:
    """Rows that were added to a lake table, as events: in the order of its versions they follow a delete of their key.

    Such a delete has the time of the load that found it, and a row's own time may be earlier.
    """
    if not any(isinstance(part, SnapshotPair) and part.appends for part in changes.slices):
        return changes
    parts = (replace(part, appends=False) if isinstance(part, SnapshotPair) else part for part in changes.slices)
    return replace(changes, effect=Apply(), slices=tuple(parts))


def _need_mirror(work: LoadContext, changes: ChangeSet | None) -> None:
    """Refuses to compare a table with changes instead of rows: rows deleted at the source would stay.

    Raises:
        PlanError: what is read is not all that the table should hold.
    """
    if changes is None or not isinstance(changes.effect, Mirror):
        raise PlanError(
            f"stream {work.stream.name!r} has nothing to compare its table with: its strategy "
            f"{work.stream.strategy.kind} reads changes, not every row",
            hint="Replace the table with the result of all its changes from the beginning: `tidegate resync STREAM "
            "--replace --yes`. Of a source that can be asked for its rows, `tidegate verify STREAM --repair` repairs "
            "those that differ.",
        )


def _kept(work: LoadContext, since: Position | None) -> Ledger | None:
    if since is not None and names_files(since.state):
        files = work.context.registry.manifest(work.stream.uid)
        return Ledger(files=files) if files.vouched(since.state) else None
    if since is None or not names_partitions(since.state):
        return None
    return partitions.trusted(work.context.registry.ledger(work.stream.uid), since, work.probe.schema())


def remember_files(work: LoadContext, changes: ChangeSet) -> None:
    """Records hashes of unchanged files; of all files if the registry had lost them."""
    seen = [part.file for part in changes.parts if part.file is not None]
    since, registry, uid = work.recovered.since, work.context.registry, work.stream.uid
    if seen and since is not None:
        if (found := Manifest.of(seen)).vouched(since.state):
            registry.keep_manifest(uid, found)
        else:
            registry.stamp_files(uid, seen)


def measure(work: LoadContext, grouping: Grouping) -> Ledger:
    """Updates the partition ledger in the registry from the table."""
    with work.session() as session:
        columns = work.probe.schema()
        found = partitions.measured(work.stream, work.context, session, grouping=grouping, columns=columns)
        work.context.registry.keep_ledger(work.stream.uid, grouping.to_dict(), found)
        return found
