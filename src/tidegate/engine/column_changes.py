"""Fits the columns of a source to those of its table, as the contract of the stream says.

Pure: names are followed by what the source calls its columns, see `core.source_columns`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from tidegate.core.casts import ALLOWED
from tidegate.core.policies.contract import MAPPED, Mode, modes_of
from tidegate.core.ports.format import TableState
from tidegate.core.schema import FOLLOWED, REPLACED, RESCUED, ChangeKind, Schema, SchemaChange, compare
from tidegate.core.source_columns import Followed, SourceColumns
from tidegate.core.spelling import suggest
from tidegate.core.yaml_text import listed
from tidegate.engine.stream import Stream
from tidegate.errors import ColumnMissing, SchemaRefused

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


def fit_columns(  # noqa: PLR0913 - the columns of both sides, and what may become of them
    stream: Stream,
    table: TableState,
    columns: Schema,
    followed: Followed | None = None,
    *,
    before: SourceColumns | None = None,
    reset: bool = False,
    by_hand: bool = True,
) -> tuple[Schema, tuple[SchemaChange, ...], tuple[SchemaChange, ...]]:
    """The columns to load, every change against the table, and the changes to apply to the table.

    Args:
        before: the columns of the source as the load before says them; None if none does.
        reset: every row of the table is replaced, so changed types are replaced, and names become those of the source.
        by_hand: a person asked for that, and so for the columns that the source has now.

    Raises:
        SchemaRefused: the contract says stop, and every such column is named; or names were exchanged.
    """
    _refuse_taken(stream, columns)
    if table.schema is None:
        return columns, (), ()
    wanted = replace(columns, columns=(*columns, *stream.added))
    cased = _other_case(wanted, table.schema)
    if followed is not None and not (reset and by_hand):
        _refuse_exchanged(stream, table.schema, columns, followed)
    keeps = reset or followed is None or stream.policies.contract.get(ChangeKind.RENAME) == "keep"
    renames = cased if reset else {} if keeps or followed is None else followed.renames
    if apart := {new: old for new, old in cased.items() if renames.get(new) != old}:
        _refuse_case(stream, *next(iter(apart.items())), numbered=followed is not None)
    changes = compare(source=wanted, table=table.schema, renames=renames)
    if followed is None and not reset:
        _refuse_rename(stream, [change for change in changes if not _own(stream, change)])
    modes = {change: _mode(stream, change, reset=reset) for change in changes}
    modes |= dict.fromkeys((change for change in changes if _still_narrow(change, before, columns)), "keep")
    refused = [change for change in changes if modes[change] == "stop"]
    if refused:
        listed = "; ".join(f"{c.column}: {c.kind} ({c.old or 'absent'} to {c.new or 'absent'})" for c in refused)
        raise SchemaRefused(
            f"stream {stream.name!r} stopped, because its contract forbids: {listed}",
            hint=_ways(stream, refused),
            column=refused[0].column,
        )
    applied = FOLLOWED | REPLACED
    evolve = tuple(change for change in changes if change.kind in applied and modes[change] in EVOLVES)
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
    if ChangeKind.DROP_COLUMN in modes:
        other = ", or drop the column from the table as well"  # a full refresh keeps it, so the next load would stop
    else:
        command = f", or reload the whole table: `tidegate run {stream.name} --full-refresh --yes`"
        other = "" if stream.strategy.applies_events else command
    return f"Change the source back, allow it with {allowed} (docs/concepts/contract.md){other}."


def _modes(stream: Stream, kind: ChangeKind) -> list[Mode]:
    """The modes but `stop` that a stream of its kind can have."""
    if kind is ChangeKind.TYPE_CHANGE and stream.strategy.applies_events:
        return []
    return [mode for mode in modes_of(kind, but=Mode.STOP) if stream.source.packs or mode not in MAPPED]


def _still_narrow(change: SchemaChange, before: SourceColumns | None, columns: Schema) -> bool:
    """Whether the source has the type of the load before: the table was widened since, as by a load that stopped."""
    known = before.find(change.column, columns) if before is not None else None
    return change.kind is ChangeKind.NARROW and known is not None and known.type == change.new


def _own(stream: Stream, change: SchemaChange) -> bool:
    return change.column in {*stream.added.names, RESCUED.name}


def _mode(stream: Stream, change: SchemaChange, *, reset: bool) -> str:
    """The contract's mode for a change; columns that Tidegate itself adds to the table are not subject to it."""
    if change.kind is ChangeKind.ADD_COLUMN and _own(stream, change):
        return "evolve"
    if change.kind is ChangeKind.NULLABILITY and change.new is None:
        return "evolve"  # of a column that is gone, which may stay only with NULL in new rows
    mode = stream.policies.contract.get(change.kind, DEFAULT_CONTRACT[change.kind])
    if reset and change.kind is ChangeKind.RENAME:
        return "evolve"  # of case alone
    if reset and change.kind is not ChangeKind.NULLABILITY:
        allowed = mode if mode in {*EVOLVES, "keep"} else "keep" if change.kind is ChangeKind.DROP_COLUMN else "evolve"
        return "evolve" if change.kind is ChangeKind.TYPE_CHANGE else allowed
    return "stop" if change.kind is ChangeKind.TYPE_CHANGE else mode  # of a column of the key, which is not left out


def _refuse_taken(stream: Stream, columns: Schema) -> None:
    names = {name.casefold() for name in columns.names}
    taken = next((name for name in stream.added.names if name.casefold() in names), None)
    if taken is not None:
        named = listed(name for name in columns.names if name.casefold() == taken.casefold())
        raise SchemaRefused(
            f"stream {stream.name!r} has its own column {taken!r} in the table, and the source has a column of that "
            f"name too",
            hint=f"Leave it out: `source: {{exclude: {named}}}`; or delete rows with `deletes: {{apply: hard}}`.",
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


def _refuse_exchanged(stream: Stream, table: Schema, columns: Schema, followed: Followed) -> None:
    """Refuses names that now belong to other columns, to which no statement can adapt the table's columns.

    Raises:
        SchemaRefused: also where one of the columns is not read, or must not be.
    """
    keeps = stream.policies.contract.get(ChangeKind.RENAME) == Mode.KEEP
    # A load that stopped may have added the column beside which the old one is kept.
    used: Collection[str] = followed.taken if keeps else table.names
    taken = next((new for new, old in followed.renames.items() if new in used or columns.find(old)), None)
    if taken is not None:
        raise SchemaRefused(
            f"stream {stream.name!r}: {taken!r} at the source is the column that was {followed.renames[taken]!r}, and "
            f"both names are in use",
            hint="Give the columns their old names, at the source or with a `query:`, or use another target.",
            column=taken,
        )
    if followed.problem is not None:
        raise SchemaRefused(
            f"stream {stream.name!r}: {followed.problem}",
            hint=f"Give the columns their old names at the source; or leave it out with `source: {{exclude: "
            f"{listed([followed.column])}}}`; or, if it is to be loaded, load every row again: `tidegate run "
            f"{stream.name} --full-refresh --yes`.",
            column=followed.column,
        )
    hidden = _unseen(stream, columns, followed)
    if hidden and stream.policies.contract.get(ChangeKind.RENAME, "stop") == "stop":
        old, new = next(iter(hidden.items()))
        by_contract = columns.ids is not None and columns.ids.takes(new)
        by = "which `add_column: discard` leaves out" if by_contract else "which the project does not read"
        follow_it = (
            "`contract: {add_column: evolve, rename: evolve}`" if by_contract else "`source: {include: …, exclude: …}`"
        )
        raise SchemaRefused(
            f"stream {stream.name!r}: the column {old!r} is {new!r} at the source now, {by}",
            hint=f"Change the source back, read it with {follow_it}, or allow it with "
            f"`contract: {{rename: keep}}`: the table keeps {old!r}, and new rows have NULL.",
            column=old,
        )


def _unseen(stream: Stream, columns: Schema, followed: Followed) -> Mapping[str, str]:
    """The loaded columns whose values go nowhere, by their new names; those that the contract rescues are kept."""
    if stream.policies.contract.get(ChangeKind.ADD_COLUMN) == Mode.DISCARD:
        return followed.hidden
    return {old: new for old, new in followed.hidden.items() if columns.ids is not None and not columns.ids.takes(new)}


def _other_case(source: Schema, table: Schema) -> dict[str, str]:
    """The columns of the source that the table has in another case alone: new names to the table's."""
    known = {name.casefold(): name for name in table.names}
    return {
        name: known[name.casefold()]
        for name in source.names
        if known.get(name.casefold(), name) != name and table.find(name) is None
    }


def _refuse_case(stream: Stream, new: str, old: str, *, numbered: bool) -> None:
    ways = "allow it with `contract: {rename: evolve}`, or " if numbered else ""
    raise SchemaRefused(
        f"stream {stream.name!r}: the source's column {new!r} and the table's column {old!r} differ only by case",
        hint=f"Give it the table's name at the source, {ways}load every row again, which takes the source's names: "
        f"`tidegate run {stream.name} --full-refresh --yes`.",
        column=new,
    )
