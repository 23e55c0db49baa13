"""Makes the plan of a load: everything that is decided before its first row is read.

Pure: never reads rows; everything it needs to know is passed in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from tidegate.core.casts import ALLOWED
from tidegate.core.changes import ChangeSet
from tidegate.core.effects import Apply, event_rules
from tidegate.core.ids import new_load_id
from tidegate.core.plan import Evolution, LoadPlan, PlannedDeletes, WriteChoice, WriteFacts
from tidegate.core.plan import Mode as WriteMode
from tidegate.core.policies.contract import MAPPED, Mode, modes_of
from tidegate.core.ports.format import TableState
from tidegate.core.position import Position
from tidegate.core.position_state import FENCE, WHOLE, EventFence, proven_by
from tidegate.core.schema import FOLLOWED, REPLACED, RESCUED, ChangeKind, Column, Schema, SchemaChange, compare
from tidegate.core.spelling import suggest
from tidegate.engine.quality.rules import refuse_rules
from tidegate.engine.reconcile import next_sequence
from tidegate.engine.stream import Stream
from tidegate.errors import ColumnMissing, InternalError, PlanError, SchemaRefused

ERASES = frozenset({WriteMode.OVERWRITE, WriteMode.OVERWRITE_PARTITIONS, WriteMode.REPLACE_FILES})
EVOLVES = frozenset({Mode.EVOLVE, Mode.FILL})
DEFAULT_CONTRACT: Mapping[ChangeKind, str] = {
    ChangeKind.ADD_COLUMN: "evolve",
    ChangeKind.WIDEN: "evolve",
    ChangeKind.NARROW: "stop",
    ChangeKind.TYPE_CHANGE: "stop",
    ChangeKind.NULLABILITY: "evolve",
    ChangeKind.DROP_COLUMN: "keep",
    ChangeKind.RENAME: "stop",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanInputs:
    """What the probe and the catalog reported for one load.

    Args:
        since: the position in the table; None for a first load.
        identity, clock: those of the source, see `core/ports/source.Probe`.
        facts: what the writer needs to choose a mode.
        unloaded: changes of columns that `columns` does not show, because the contract leaves them out.
        renames: columns that the table has under another name, new names to old ones; None if only names identify them.
        most_deleted: the maximum number of deleted rows; None for no limit.
        last_sequence: the greatest sequence the stream ever had, also before a repair reset the registry.
    """

    table: TableState
    since: Position | None
    changes: ChangeSet
    columns: Schema
    identity: str
    clock: int | None
    facts: WriteFacts
    most_deleted: int | None = None
    last_sequence: int = 0
    unloaded: tuple[SchemaChange, ...] = ()
    renames: Mapping[str, str] | None = None


def make_plan(stream: Stream, found: PlanInputs, *, now: datetime) -> LoadPlan:
    """The plan of one load.

    Raises:
        SchemaRefused: the contract forbids a change, or a name cannot be kept; nothing was touched.
    """
    refuse_columns(stream, found.columns)
    refuse_meaning(stream, found.changes)
    refuse_writer(stream, found)
    added, more = _added(stream, found)
    reset = found.facts.reset is not None
    table = _without(found.table, added)
    columns, changes, evolve = fit_columns(stream, table, found.columns, found.renames, reset=reset)
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
        ),
        write=write,
        deletes=PlannedDeletes(
            policy=stream.policies.deletes,
            at_most=found.most_deleted,
            missing_keys=found.facts.missing_keys,
            reset=found.facts.reset,
        ),
    )


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


def refuse_columns(stream: Stream, columns: Schema) -> None:
    """Refuses what no run of this stream could load.

    Raises:
        ColumnMissing: a key column that is not there.
        SchemaRefused: names that differ only by case, which Spark cannot tell apart.
    """
    absent = [name for name in stream.key if columns.find(name) is None]
    if absent:
        raise ColumnMissing(
            f"stream {stream.name!r} has the key column {absent[0]!r}, which {stream.source_name} does not have; "
            f"{suggest(absent[0], columns.names)}",
            hint="Correct `key:` in tidegate.yaml, then run `tidegate check --source`.",
        )
    for folded, count in Counter(name.casefold() for name in columns.names).items():
        if count > 1:
            clash = [name for name in columns.names if name.casefold() == folded]
            raise SchemaRefused(
                f"stream {stream.name!r} has columns that differ only by case: {', '.join(clash)}",
                hint="Rename one of them with a `query:`.",
            )


def fit_columns(
    stream: Stream,
    table: TableState,
    columns: Schema,
    renames: Mapping[str, str] | None = None,
    *,
    reset: bool = False,
) -> tuple[Schema, tuple[SchemaChange, ...], tuple[SchemaChange, ...]]:
    """The columns to load, every change against the table, and the changes to apply to the table.

    Args:
        reset: every row of the table is replaced, so changed types are replaced, and names become those of the source.

    Raises:
        SchemaRefused: the contract says stop, and every such column is named; or names were exchanged.
    """
    _refuse_taken(stream, columns)
    if table.schema is None:
        return columns, (), ()
    wanted = replace(columns, columns=(*columns, *stream.added))
    _refuse_case(stream, table.schema, wanted)
    if not reset:
        _refuse_exchanged(stream, table.schema, columns, renames or {})
    keeps = reset or stream.policies.contract.get(ChangeKind.RENAME) == "keep"
    changes = compare(source=wanted, table=table.schema, renames=None if keeps else renames)
    if renames is None and not reset:
        _refuse_rename(stream, [change for change in changes if not _own(stream, change)])
    modes = {change: _mode(stream, change, reset=reset) for change in changes}
    refused = [change for change in changes if modes[change] == "stop"]
    if refused:
        listed = "; ".join(f"{c.column}: {c.kind} ({c.old or 'absent'} to {c.new or 'absent'})" for c in refused)
        raise SchemaRefused(
            f"stream {stream.name!r} stopped, because its contract forbids: {listed}",
            hint=_ways(stream, refused),
            column=refused[0].column,
        )
    followed = FOLLOWED | REPLACED
    evolve = tuple(change for change in changes if change.kind in followed and modes[change] in EVOLVES)
    return columns, changes, evolve


def _ways(stream: Stream, refused: Sequence[SchemaChange]) -> str:
    """What can be done about changes that the contract forbids: every mode that allows each of them."""
    modes = {change.kind: _modes(stream, change.kind) for change in refused}
    if not all(modes.values()):  # events were written with the old type, and no rows are at hand
        return (
            "Change the source back, or replace the table by what the source has now: `tidegate resync "
            f"{stream.name} --replace --yes`."
        )
    allowed = "; ".join(f"`contract: {{{kind}: {' | '.join(found)}}}`" for kind, found in modes.items())
    if stream.policies.contract.get(ChangeKind.TYPE_CHANGE) == Mode.CAST:
        allowed += f"; `cast` converts {ALLOWED}, and no column of the key"
    whole = "" if stream.strategy.applies_events else ", or reload the whole table: "
    command = f"{whole}`tidegate run {stream.name} --full-refresh --yes`" if whole else ""
    return f"Change the source back, allow it with {allowed} (docs/concepts/contract.md){command}."


def _modes(stream: Stream, kind: ChangeKind) -> list[Mode]:
    """The modes but `stop` that a stream of its kind can have."""
    if kind is ChangeKind.TYPE_CHANGE and stream.strategy.applies_events:
        return []
    return [mode for mode in modes_of(kind, but=Mode.STOP) if stream.source.packs or mode not in MAPPED]


def _own(stream: Stream, change: SchemaChange) -> bool:
    return change.column in {*stream.added.names, RESCUED.name}


def _mode(stream: Stream, change: SchemaChange, *, reset: bool) -> str:
    """The contract's mode for a change; columns that Tidegate itself adds to the table are not subject to it."""
    if change.kind is ChangeKind.ADD_COLUMN and _own(stream, change):
        return "evolve"
    if change.kind is ChangeKind.NULLABILITY and change.new is None:
        return "evolve"  # of a column that is gone, which may stay only with NULL in new rows
    mode = stream.policies.contract.get(change.kind, DEFAULT_CONTRACT[change.kind])
    if reset and change.kind is not ChangeKind.NULLABILITY:
        allowed = mode if mode in {*EVOLVES, "keep"} else "keep" if change.kind is ChangeKind.DROP_COLUMN else "evolve"
        return "evolve" if change.kind is ChangeKind.TYPE_CHANGE else allowed
    return "stop" if change.kind is ChangeKind.TYPE_CHANGE else mode  # of a column of the key, which is not left out


def _refuse_taken(stream: Stream, columns: Schema) -> None:
    names = {name.casefold() for name in columns.names}
    taken = next((name for name in stream.added.names if name.casefold() in names), None)
    if taken is not None:
        raise SchemaRefused(
            f"stream {stream.name!r} has its own column {taken!r} in the table, and the source has a column of that "
            f"name too",
            hint="Give the source's column another name with a `query:`, or delete rows with `deletes: {apply: hard}`.",
            column=taken,
        )


def _refuse_rename(stream: Stream, changes: Sequence[SchemaChange]) -> None:
    """A source identifies columns only by name, so a removed and an added column of one type may be a rename."""
    if stream.policies.contract.get(ChangeKind.RENAME, "stop") != "stop":
        return
    dropped = {change.old: change.column for change in changes if change.kind is ChangeKind.DROP_COLUMN}
    added = next((c for c in changes if c.kind is ChangeKind.ADD_COLUMN and c.new in dropped), None)
    if added is not None:
        raise SchemaRefused(
            f"stream {stream.name!r}: column {dropped[added.new]!r} was removed and {added.column!r} of the same type "
            f"was added, which may be a rename",
            hint="Keep the old name with a `query:`, or allow both columns in the table with `contract: {rename: "
            "evolve}`.",
            column=added.column,
        )


def _refuse_exchanged(stream: Stream, table: Schema, columns: Schema, renames: Mapping[str, str]) -> None:
    """If a name now belongs to another column, no statement can adapt the table's columns to the source."""
    taken = next((new for new, old in renames.items() if table.find(new) or columns.find(old)), None)
    if taken is not None:
        raise SchemaRefused(
            f"stream {stream.name!r}: {taken!r} at the source is the column that was {renames[taken]!r}, and both "
            f"names are in use",
            hint="Give the columns their old names, at the source or with a `query:`, or use another target.",
            column=taken,
        )


def _refuse_case(stream: Stream, source: Schema, table: Schema) -> None:
    known = {name.casefold(): name for name in source.names}
    for name in table.names:
        other = known.get(name.casefold())
        if other is not None and other != name:
            raise SchemaRefused(
                f"stream {stream.name!r}: the source's column {name!r} and the table's column {other!r} "
                "differ only by case",
                hint="Give it the table's name with a `query:`.",
                column=name,
            )
