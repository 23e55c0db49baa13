"""Loads whose contract replaces a changed type: every row is read again, and the table's rows are replaced."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tidegate.core.effects import Mirror
from tidegate.core.policies.contract import Mode
from tidegate.core.policies.deletes import Deletes
from tidegate.core.ports.strategy import Strategy
from tidegate.core.ports.writer import Writer
from tidegate.core.schema import ChangeKind, SchemaChange, compare, holds
from tidegate.engine.context import LoadContext

REPLACES = frozenset({Mode.REPLACE, Mode.WIDEN})


def incompatibilities(strategy: Strategy, writer: Writer, deletes: Deletes, contract: Mapping[str, str]) -> list[str]:
    """Why rows of a changed type cannot be replaced, one sentence each; empty if they can, or need not be."""
    mode = contract[ChangeKind.TYPE_CHANGE]
    if mode not in REPLACES:
        return []
    asked, found = f"contract: {{type_change: {mode}}} replaces every row of the table by those of the source", []
    if writer.versions is not None:
        found.append(f"{asked}, and write: {writer.kind} keeps versions that the source does not have; use stop")
    elif Mirror not in writer.accepts:
        found.append(f"{asked}, and write: {writer.kind} keeps rows that the source may not have; use stop, or merge")
    if deletes.soft:
        found.append(f"{asked}, and deletes: {{apply: soft}} keeps rows that the source does not have; use stop")
    if strategy.applies_events:
        found.append(f"{asked}, and strategy {strategy.kind} reads only changes; use stop")
    return found


def escalated(work: LoadContext) -> LoadContext:
    """The same load as a full refresh, where a type has changed and the contract replaces it."""
    contract, table = work.stream.policies.contract, work.recovered.table.schema
    mode = contract.get(ChangeKind.TYPE_CHANGE)
    if mode not in REPLACES or table is None or work.context.full_refresh:
        return work
    changes = compare(source=work.probe.schema(), table=table)
    changed = [change for change in changes if change.kind is ChangeKind.TYPE_CHANGE]
    if not changed or not all(mode == Mode.REPLACE or keeps_values(work, change) for change in changed):
        return work
    listed = ", ".join(f"{change.column} from {change.old} to {change.new}" for change in changed)
    asked_by = f"contract: {{type_change: {mode}}} replaces every row and the type of {listed}"
    return replace(work, context=replace(work.context, full_refresh=True, resync=False, asked_by=asked_by))


def keeps_values(work: LoadContext, change: SchemaChange) -> bool:
    """Whether every value of the table's column is one of the source's type."""
    table = work.recovered.table.schema
    old, new = table.find(change.column) if table else None, work.probe.schema().find(change.column)
    return old is not None and new is not None and holds(old.type.stored, new.type.stored)
