"""Loads partitions in groups, one commit per group; if a partition fails, the others are loaded one by one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tidegate.core.changes import ChangeSet
from tidegate.core.ledger import Ledger
from tidegate.core.position_state import unclaimed
from tidegate.engine import outcome, partitions
from tidegate.engine.context import LoadContext
from tidegate.engine.outcome import LoadResult
from tidegate.engine.reconcile import RecoveryState, RegistryRepair
from tidegate.engine.stream import Stream
from tidegate.errors import CheckFailed, RowsMoved, VerifyFailed

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
    while waiting:
        group = waiting.pop(0)
        loaded = ledger.loaded(group.parts)
        last = not (waiting or any(each.error for each in done))
        some = replace(group, state=unclaimed(group.state))
        claimed = group if last else some
        whole = not work.stream.key or last
        try:
            try:
                done.append(load(work, partitions.vouched(claimed, ledger) if whole else some))
            except RowsMoved:
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
    return outcome.combined(done, changes)


def _after_failure(work: LoadContext) -> LoadContext:
    """The stream at work once more: the load that failed may have made the table, or added columns to it.

    The version that the next load is fenced by stays: whoever has written since then is noticed.
    """
    now = work.stream.format.state(work.stream.target, work.stream.uid)
    table = replace(work.recovered.table, exists=now.exists, uuid=now.uuid, schema=now.schema)
    return replace(work, recovered=replace(work.recovered, table=table))


def _recovered(stream: Stream) -> RecoveryState:
    """The state of the stream after a commit of this run."""
    table = stream.format.state(stream.target, stream.uid)
    return RecoveryState(table=table, since=table.position, repair=RegistryRepair.NOTHING)
