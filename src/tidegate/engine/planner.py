"""Makes the plan of a load: everything that is decided before its first row is read.

Pure: never reads rows; everything it needs to know is passed in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from tidegate.core.changes import ChangeSet
from tidegate.core.effects import Apply, event_rules
from tidegate.core.ids import new_load_id
from tidegate.core.plan import FULL_REFRESH, Evolution, LoadPlan, PlannedDeletes, WriteChoice, WriteFacts
from tidegate.core.plan import Mode as WriteMode
from tidegate.core.ports.format import TableState
from tidegate.core.position import Position
from tidegate.core.position_state import FENCE, WHOLE, EventFence, proven_by
from tidegate.core.schema import FOLLOWED, REPLACED, ChangeKind, Column, Schema, SchemaChange, compare
from tidegate.core.source_columns import SourceColumns, follow
from tidegate.engine.column_changes import fit_columns, refuse_columns
from tidegate.engine.quality.rules import refuse_rules
from tidegate.engine.reconcile import next_sequence
from tidegate.engine.stream import Stream
from tidegate.errors import InternalError, PlanError, SchemaRefused

ERASES = frozenset({WriteMode.OVERWRITE, WriteMode.OVERWRITE_PARTITIONS, WriteMode.REPLACE_FILES})


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanInputs:
    """What the probe and the catalog reported for one load.

    Args:
        since: the position in the table; None for a first load.
        identity, clock: those of the source, see `core/ports/source.Probe`.
        witness: see `Position`; of the source as it is now, or that of `since` where the position stays where it was.
        facts: what the writer needs to choose a mode.
        unloaded: changes of columns that `columns` does not show, because the contract leaves them out.
        before: which column of the source each of the table is, as the load before says it; None if none does.
        most_deleted: the maximum number of deleted rows; None for no limit.
        last_sequence: the greatest sequence the stream ever had, also before a repair reset the registry.
    """

    table: TableState
    since: Position | None
    changes: ChangeSet
    columns: Schema
    identity: str
    clock: int | None
    witness: Mapping[str, Any]
    facts: WriteFacts
    most_deleted: int | None = None
    last_sequence: int = 0
    unloaded: tuple[SchemaChange, ...] = ()
    before: SourceColumns | None = None


def make_plan(stream: Stream, found: PlanInputs, *, now: datetime) -> LoadPlan:
    """The plan of one load.

    Raises:
        SchemaRefused: the contract forbids a change, or a name cannot be kept; nothing was touched.
    """
    refuse_columns(stream, found.columns)
    refuse_meaning(stream, found.changes)
    refuse_writer(stream, found)
    added, more = _added(stream, found)
    reset = found.facts.reset
    table = _without(found.table, added)
    followed = follow(found.before, found.columns, table.schema) if table.schema is not None else None
    by_hand = reset is not None and reset.asked_by == FULL_REFRESH
    columns, changes, evolve = fit_columns(
        stream, table, found.columns, followed, before=found.before, reset=reset is not None, by_hand=by_hand
    )
    refuse_rules(stream.name, stream.policies.checks, columns)
    found = replace(found, facts=replace(found.facts, unwritten=_unwritten(stream, table, columns, evolve)))
    write = stream.writer.choose(found.facts)
    refuse_erasing(stream, found, write)
    return LoadPlan(
        stream=stream.ref,
        created_at=now,
        base=found.table.snapshot,
        since=found.since,
        position=_position(stream, found, columns, evolve),
        changes=found.changes,
        columns=columns,
        key=stream.key,
        added=Schema(columns=(*stream.added, *added)),
        evolution=Evolution(
            create=not found.table.exists,
            seen=(*_seen(changes, found.unloaded), *found.unloaded),
            apply=(*evolve, *more),
            source_columns=_source_columns(found, table, columns, evolve),
            unwritten=found.facts.unwritten,
        ),
        write=write,
        deletes=PlannedDeletes(
            policy=stream.policies.deletes,
            at_most=found.most_deleted,
            missing_keys=found.facts.missing_keys,
            reset=found.facts.reset,
        ),
    )


def _source_columns(
    found: PlanInputs, table: TableState, columns: Schema, evolve: Sequence[SchemaChange]
) -> SourceColumns:
    """Which column of the source each of the table is once the load is committed."""
    named = {each.old: each.column for each in evolve if each.kind is ChangeKind.RENAME}
    there = table.schema.columns if table.schema is not None else ()
    after = (replace(column, name=named.get(column.name, column.name)) for column in there)
    return SourceColumns.of(columns, found.before, Schema(columns=tuple(after)))


def _unwritten(stream: Stream, table: TableState, columns: Schema, evolve: Sequence[SchemaChange]) -> tuple[str, ...]:
    """The columns of the table that the load does not write."""
    written = {*columns.names, *stream.added.names, *(each.old for each in evolve if each.kind is ChangeKind.RENAME)}
    return tuple(name for name in table.schema.names if name not in written) if table.schema is not None else ()


def _position(stream: Stream, found: PlanInputs, columns: Schema, evolve: Sequence[SchemaChange]) -> Position:
    """The position that the load's commit will carry."""
    load_id, reset = new_load_id(), found.facts.reset is not None
    sequence = next_sequence(found.table, found.since, found.last_sequence)
    fenced = fence(stream, found.changes, found.since, sequence, load_id, reset=reset, evolve=evolve)
    return Position(
        sequence=sequence,
        load_id=load_id,
        kind=stream.strategy.kind,
        source=found.identity,
        clock=found.clock,
        witness=found.witness,
        state={**_loaded_by(found.changes, load_id), **fenced},
        loaded_through=found.changes.loaded_through,
        schema=columns.digest,
        writer=stream.writer.signature,
        retained=stream.kept.to_dict() if stream.kept is not None else {},
    )


def _loaded_by(changes: ChangeSet, load_id: str) -> Mapping[str, Any]:
    return proven_by(changes.state, load_id) if changes.whole else changes.state


def _seen(changes: Sequence[SchemaChange], unloaded: Sequence[SchemaChange]) -> Iterator[SchemaChange]:
    """The changes without columns that only seem to be gone, because they are left out."""
    left_out = {change.column for change in unloaded}
    return (change for change in changes if change.column not in left_out)


def fence(  # noqa: PLR0913 - a load, and what was before it
    stream: Stream,
    changes: ChangeSet,
    since: Position | None,
    sequence: int,
    load_id: str,
    *,
    reset: bool = False,
    evolve: Sequence[SchemaChange] = (),
) -> dict[str, Any]:
    """Which of the remembered events will count, see `FENCE`; empty for loads without events.

    A full refresh starts over: only the table's floor, or its log from the beginning, counts. For a history, events
    represent their part of it only as long as nothing else writes to the table and columns keep their names.
    """
    if event_rules(changes.effect) is None:
        return {}
    known = EventFence.of(since.state) if since else None
    if not isinstance(changes.effect, Apply):
        after = sequence
    else:
        after = sequence - 1 if known is None or reset else known.after
    own = {"after": after, "number": sequence, "load": load_id}
    if stream.writer.versions is None:
        return {FENCE: own}
    whole = after
    if known is not None and since is not None and after == known.after:
        alone = known.number == since.sequence and all(one.kind is not ChangeKind.RENAME for one in evolve)
        whole = known.whole if alone else since.sequence
    return {FENCE: {**own, WHOLE: whole}}


def refuse_meaning(stream: Stream, changes: ChangeSet) -> None:
    """Refuses rows that the writer cannot accept.

    Raises:
        PlanError: such as changes for a table that only ever grows.
    """
    if type(changes.effect) not in stream.writer.accepts:
        raise PlanError(
            f"stream {stream.name!r}: {changes.reason}, and write: {stream.writer.kind} cannot apply that",
            hint="Use `write: merge` with a `key:`, or run a full refresh: `tidegate run STREAM --full-refresh --yes`.",
        )


def refuse_erasing(stream: Stream, found: PlanInputs, write: WriteChoice) -> None:
    """Refuses a write that removes files of a table that holds more than its source: rows, or columns of rows.

    Raises:
        InternalError: a writer chose it although nobody asked for a full refresh.
    """
    by_key = stream.writer.deletes_by_key and bool(found.facts.unwritten)
    keeps = stream.writer.versions is not None or stream.policies.deletes.soft or by_key
    if keeps and write.mode in ERASES and found.facts.reset is None:
        raise InternalError(f"write: {stream.writer.kind} chose {write.mode} for a table whose old rows must be kept")


def refuse_writer(stream: Stream, found: PlanInputs) -> None:
    """Refuses to continue a table whose versions were made by another writer or with other options.

    Raises:
        PlanError: nothing was touched.
    """
    since, signature = found.since, stream.writer.signature
    if since is None or found.facts.reset or since.writer == signature:
        return
    was = "the same writer with other options" if None not in (since.writer, signature) else "another writer"
    raise PlanError(
        f"stream {stream.name!r} now has write: {stream.writer.kind}, but its table was loaded by {was}, so its "
        f"versions have another meaning",
        hint=f"Restore the previous `write:`, or rebuild the table, which discards its history: "
        f"`tidegate run {stream.name} --full-refresh --yes`.",
    )


def _added(stream: Stream, found: PlanInputs) -> tuple[tuple[Column, ...], tuple[SchemaChange, ...]]:
    """The writer's own columns, and the changes that add them to the table."""
    writer, table = stream.writer, found.table.schema
    added = writer.added(found.columns, stream.strategy.cursor)
    if not added or table is None:
        return added, ()
    own = {column.name for column in added}
    changes = [change for change in compare(source=Schema(columns=added), table=table) if change.column in own]
    taken = FOLLOWED | REPLACED if found.facts.reset else FOLLOWED
    refused = next((change for change in changes if change.kind not in taken), None)
    if refused is not None:
        raise SchemaRefused(
            f"stream {stream.name!r}: the column {refused.column!r} of the table is {refused.old}, and write: "
            f"{writer.kind} would now change it to {refused.new}",
            hint=f"Restore the column's type at the source, or rebuild the table, which discards its history: "
            f"`tidegate run {stream.name} --full-refresh --yes`.",
            column=refused.column,
        )
    return added, tuple(changes)


def _without(table: TableState, added: Sequence[Column]) -> TableState:
    """The table as far as its source fills it."""
    if table.schema is None or not added:
        return table
    own = {column.name for column in added}
    rest = tuple(column for column in table.schema if column.name not in own)
    return replace(table, schema=Schema(columns=rest))
