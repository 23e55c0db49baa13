"""Loads partitions in groups, one commit per group; if a partition fails, the others are loaded one by one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tidegate.core.changes import ChangeSet
from tidegate.core.ledger import Ledger
from tidegate.core.policies.rules import OnFail
from tidegate.core.position_state import unclaimed
from tidegate.engine import outcome, partitions
from tidegate.engine.context import LoadContext
from tidegate.engine.outcome import LoadResult
from tidegate.engine.reconcile import RecoveryState, RegistryRepair
from tidegate.engine.stream import Stream
from tidegate.errors import CheckFailed, DuplicateKeys, RowsMoved, VerifyFailed

ACROSS = "several rows have one key, most likely in different partitions, and the table holds only one of them"
Load = Callable[[LoadContext, ChangeSet], LoadResult]
"""One commit of these changes."""


def load_each(work: LoadContext, changes: ChangeSet, ledger: Ledger, load: Load) -> LoadResult:
    """One commit a group; where a partition of it cannot be loaded, one for each of the others.

    A position vouches for partitions only once all of them are as the source holds them: until then a row of a key may
    have gone from one that is still to be loaded.
    """
    if work.context.full_refresh:
        return load(work, partitions.vouched(partitions.all_at_once(changes), Ledger()))
    waiting = list(partitions.groups(changes))
    done: list[LoadResult] = []
    moved = False
    while waiting:
        group = waiting.pop(0)
        loaded = ledger.loaded(group.parts)
        last = not (waiting or any(each.error for each in done))
        some = replace(group, state=unclaimed(group.state))
        whole = not work.stream.key or last
        try:
            try:
                done.append(load(work, partitions.vouched(group if last else some, ledger) if whole else some))
            except RowsMoved:
                moved = True
                done.append(load(_after_failure(work), some))
            ledger = loaded
            work = replace(work, recovered=_recovered(work.stream))
        except (CheckFailed, VerifyFailed) as error:
            if isinstance(error, VerifyFailed) and not work.stream.format.invisible:
                raise  # its rows are seen: the next run compares the whole table
            alone = partitions.one_by_one(group)
            if not alone and len(changes.slices) == 1:
                raise
            if not alone:
                done.append(outcome.refused(work, group, error))
            waiting = [*alone, *waiting]
            work = _after_failure(work)
    failed = any(each.error for each in done)
    if (moved or len(done) > 1) and not failed and (taken := _taken(work, changes)):
        done.append(outcome.refused(work, taken, DuplicateKeys(ACROSS)))
    return outcome.combined(done, changes)


def _taken(work: LoadContext, changes: ChangeSet) -> ChangeSet | None:
    """The partitions of which the table holds fewer rows than the source: others with the same keys took them.

    None where keys are unique at the source, or where rows may be in quarantine instead.
    """
    stream, grouping = work.stream, changes.grouping
    quarantines = any(rule.on_fail is OnFail.QUARANTINE for rule in stream.policies.checks)
    if grouping is None or not stream.key or quarantines or work.probe.unique(stream.key):
        return None
    columns = work.probe.schema()
    with work.session(small=True) as session:
        found = partitions.measured(stream, work.context, session, grouping=grouping, columns=columns).entries
    rows = {label: entry.fingerprint.rows for label, entry in found.items()}
    taken = tuple(part for part in changes.parts if rows.get(part.slice.label, 0) < (part.rows or 0))
    return changes.only(taken) if taken else None


def _after_failure(work: LoadContext) -> LoadContext:
    """The stream at work once more: the load that failed may have made the table, or added columns to it.

    The version that the next load is fenced by stays: whoever has written since then is noticed.
    """
    now = work.stream.format.state(work.stream.target, work.stream.uid)
    since_load = replace(work.recovered.table.since_load, source_columns=now.since_load.source_columns)
    table = work.recovered.table
    table = replace(table, exists=now.exists, uuid=now.uuid, schema=now.schema, since_load=since_load)
    return replace(work, recovered=replace(work.recovered, table=table))


def _recovered(stream: Stream) -> RecoveryState:
    """The state of the stream after a commit of this run."""
    table = stream.format.state(stream.target, stream.uid)
    return RecoveryState(table=table, since=table.position, repair=RegistryRepair.NOTHING)
