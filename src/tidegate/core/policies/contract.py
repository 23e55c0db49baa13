"""The part of a column contract that rescues, discards or casts columns that the table does not have as they are.

Never leaves out a key column.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from tidegate.core.casts import Cast, cast_of
from tidegate.core.schema import RESCUED, ChangeKind, Schema, SchemaChange, compare
from tidegate.core.source_columns import SourceColumns, follow


class Mode(StrEnum):
    """What is done about one kind of change of a source's columns."""

    EVOLVE = "evolve"
    FILL = "fill"
    KEEP = "keep"
    RESCUE = "rescue"
    DISCARD = "discard"
    REPLACE = "replace"
    WIDEN = "widen"
    CAST = "cast"
    STOP = "stop"


MODES: Mapping[ChangeKind, tuple[Mode, ...]] = {
    ChangeKind.ADD_COLUMN: (Mode.EVOLVE, Mode.FILL, Mode.RESCUE, Mode.DISCARD, Mode.STOP),
    ChangeKind.WIDEN: (Mode.EVOLVE, Mode.STOP),
    ChangeKind.NARROW: (Mode.KEEP, Mode.STOP),
    ChangeKind.TYPE_CHANGE: (Mode.REPLACE, Mode.WIDEN, Mode.CAST, Mode.RESCUE, Mode.DISCARD, Mode.STOP),
    ChangeKind.NULLABILITY: (Mode.EVOLVE, Mode.KEEP, Mode.STOP),
    ChangeKind.DROP_COLUMN: (Mode.KEEP, Mode.STOP),
    ChangeKind.RENAME: (Mode.EVOLVE, Mode.KEEP, Mode.STOP),
}
"""The modes of each kind of change, as `contract:` takes them."""


def modes_of(kind: ChangeKind, *, but: Mode) -> tuple[Mode, ...]:
    """The modes of a kind of change without one of them."""
    return tuple(mode for mode in MODES[kind] if mode is not but)


NOT_LOADED = frozenset({Mode.RESCUE, Mode.DISCARD})
MAPPED = NOT_LOADED | {Mode.CAST}
"""The modes by which a source is read as its table has its columns."""
LEAVES_OUT = (ChangeKind.ADD_COLUMN, ChangeKind.TYPE_CHANGE)
"""The kinds of changes whose columns can be left out: the table has nothing that their values would fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnMapping:
    """How a source's columns are fitted to a table that is there.

    Args:
        table: its columns.
        contract: the mode of each kind of change.
        key: columns that are always loaded as they are.
        before: which column of the source each of the table is; None if only names tell.
    """

    table: Schema
    contract: Mapping[str, str]
    key: tuple[str, ...]
    before: SourceColumns | None = None

    def unloaded_changes(self, source: Schema) -> Mapping[SchemaChange, Mode]:
        """The changes whose columns are not loaded into columns of the table, and what is done with their values."""
        found: dict[SchemaChange, Mode] = {}
        for change in compare(source=source, table=self.table, renames=self._renames(source)):
            if change.kind in LEAVES_OUT and change.column not in self.key:
                mode = Mode(self.contract.get(change.kind, Mode.STOP))
                if mode in NOT_LOADED:
                    found[change] = mode
        return found

    def casts(self, source: Schema) -> Mapping[SchemaChange, Cast]:
        """The changes of types whose values are cast to the table's type; of no column of the key."""
        if self.contract.get(ChangeKind.TYPE_CHANGE) != Mode.CAST:
            return {}
        found: dict[SchemaChange, Cast] = {}
        renames = self._renames(source)
        for change in compare(source=source, table=self.table, renames=renames):
            new, old = source.find(change.column), self.table.find(renames.get(change.column, change.column))
            if change.kind is ChangeKind.TYPE_CHANGE and change.column not in self.key and new and old:
                cast = cast_of(new.type, old.type)
                found |= {change: cast} if cast else {}
        return found

    def _renames(self, source: Schema) -> Mapping[str, str]:
        """New names of columns to the table's; none where a renamed column counts as a new one."""
        added, renamed = (self.contract.get(kind) for kind in (ChangeKind.ADD_COLUMN, ChangeKind.RENAME))
        if added in NOT_LOADED or renamed == Mode.KEEP:
            return {}
        followed = follow(self.before, source, self.table)
        return followed.renames if followed is not None else {}

    def rescues(self, unloaded: Mapping[SchemaChange, Mode]) -> bool:
        """Whether the load fills `RESCUED`: with NULL where the table has it and nothing is left to keep."""
        if not self.keeps:
            return False
        return self.table.find(RESCUED.name) is not None or Mode.RESCUE in unloaded.values()

    @property
    def keeps(self) -> bool:
        """Whether the contract keeps values of any kind of change in `RESCUED`."""
        return any(self.contract.get(kind) == Mode.RESCUE for kind in LEAVES_OUT)
