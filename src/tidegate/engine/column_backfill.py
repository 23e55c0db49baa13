"""Fills a column that is new in the source for rows that were loaded before it was added.

A load counts as having filled the column only if it was committed and read every row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tidegate.core.changes import ChangeSet
from tidegate.core.effects import Mirror, Upsert
from tidegate.core.policies.contract import Mode
from tidegate.core.ports.strategy import Strategy
from tidegate.core.ports.writer import Writer
from tidegate.core.schema import ChangeKind
from tidegate.core.source_columns import Use
from tidegate.engine.context import LoadContext


def incompatibilities(strategy: Strategy, writer: Writer, contract: Mapping[str, str]) -> list[str]:
    """Why old rows cannot be filled, one sentence each; empty if they can, or need not be.

    Strategies without a cursor that read no log look at every row whenever the columns change, and need nothing.
    """
    if contract[ChangeKind.ADD_COLUMN] != Mode.FILL:
        return []
    found = []
    if getattr(strategy, "reads", None):
        found.append(
            f"contract: {{add_column: fill}} reads every row again, and strategy {strategy.kind} reads only changes; "
            f"use add_column: evolve, and `tidegate resync STREAM` after a column was added"
        )
    if strategy.cursor and not writer.deletes_by_key:
        found.append(
            f"contract: {{add_column: fill}} finds the older version of a row by its key, which write: {writer.kind} "
            f"cannot do; use merge"
        )
    return found


def new_columns(work: LoadContext) -> tuple[str, ...]:
    """The columns that not every loaded row has yet, if they are to be filled for all rows.

    The table says with which columns every row was loaded: loads of some rows alone, such as a chunk of a backfill or a
    repair, leave that as it was. Where no load has said so they are all new, if they are not the ones that the source
    has now.
    """
    stream = work.stream
    if stream.policies.contract.get(ChangeKind.ADD_COLUMN) != Mode.FILL or not stream.strategy.cursor:
        return ()
    since, columns = work.recovered.since, work.probe.schema()
    if since is None or since.schema == columns.digest:
        return ()
    known = work.recovered.table.since_load.source_columns
    before = (known.find(name, columns) if known is not None else None for name in columns.names)
    return tuple(
        name for name, was in zip(columns.names, before, strict=True) if was is None or was.use is not Use.LOADED
    )


def filled(changes: ChangeSet, added: tuple[str, ...]) -> ChangeSet:
    """Every row, of which those that the new columns make different are written."""
    why = f"new in the source: {', '.join(added)}; every row is read again"
    effect = changes.effect if isinstance(changes.effect, Mirror) else Upsert(repeats=changes.repeats or why)
    return replace(changes, effect=effect, reason=f"{why}: {changes.reason}")
