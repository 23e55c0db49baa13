"""The plan of a load: everything that is decided before its first row is read.

Made by the planner, saved in the registry. Has no secrets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from tidegate.core.changes import ChangeSet
from tidegate.core.display import counted, done_by
from tidegate.core.effects import Effect
from tidegate.core.policies.deletes import Deletes
from tidegate.core.position import Position
from tidegate.core.schema import REPLACED, ChangeKind, Kind, Schema, SchemaChange, Type
from tidegate.core.source_columns import SourceColumns
from tidegate.errors import DeleteFuse


class Mode(StrEnum):
    """How rows get into the table; each mode is one operation of a format."""

    APPEND = "append"
    OVERWRITE = "overwrite"
    OVERWRITE_PARTITIONS = "overwrite_partitions"
    MERGE_PARTITIONS = "merge_partitions"
    MERGE_DIFFERENCES = "merge_differences"
    REPLACE_FILES = "replace_files"
    MERGE_ON_READ = "merge_on_read"
    COPY_ON_WRITE = "copy_on_write"


ORDERED = frozenset({Kind.INTEGER, Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ})
FULL_REFRESH = "--full-refresh"
"""What asks for a full refresh where a person does."""
SHORT_LIST = 32
"""Values of a bound that a writer lists in any case."""
PRUNABLE = ORDERED | {Kind.DECIMAL, Kind.TEXT}


@dataclass(frozen=True, slots=True, kw_only=True)
class Prune:
    """A literal bound on the target side of a merge: `low <= column <= high`, or one of `values`.

    Args:
        low, high: inclusive, canonical text.
        values: a list of every value, none of them outside the bounds; empty for none.
    """

    column: str
    type: Type
    low: str
    high: str
    values: tuple[str, ...] = ()

    def names(self, rows: int | None) -> bool:
        """Whether the bound lets through no other value than those of `rows` rows that all differ in the column.

        Example:
            >>> from tidegate.core.schema import BIGINT
            >>> bound = Prune(column="id", type=BIGINT, low="5", high="7")
            >>> bound.names(3), bound.names(2)
            (True, False)
        """
        if self.values:
            return len(self.values) == rows
        return self.type.kind is Kind.INTEGER and int(self.high) - int(self.low) + 1 == rows

    def meets(self, kind: Kind, low: str, high: str) -> bool:
        """Whether a value may lie within both bounds; no only for kinds whose texts are compared exactly here.

        Example:
            >>> from tidegate.core.schema import BIGINT
            >>> bound = Prune(column="id", type=BIGINT, low="5", high="7")
            >>> bound.meets(Kind.INTEGER, "7", "10"), bound.meets(Kind.INTEGER, "8", "10")
            (True, False)
        """
        if self.type.kind is not kind or kind not in ORDERED:
            return True
        if kind is Kind.INTEGER:
            return int(self.low) <= int(high) and int(low) <= int(self.high)
        return self.low <= high and low <= self.high


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset:
    """A full refresh requested by a person: the table is rebuilt, without its history and rows marked as deleted.

    Made by the engine of `--full-refresh` and `resync --replace` alone; no strategy can ask for it.
    """

    asked_by: str = FULL_REFRESH


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyFacts:
    """What is known about the keys of a batch.

    Args:
        columns: the key columns; empty for none.
        unique: the source guarantees one row per key.
        bounds: the source's bounds of the batch's first key column; None if not known.
        apart: no file of the table can hold a key within these bounds.
    """

    columns: tuple[str, ...] = ()
    unique: bool = False
    bounds: Prune | None = None
    apart: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteFacts:
    """What a writer needs to know to choose a mode.

    Args:
        effect: what the batch does to the table.
        rows: rows of the batch; None if not known.
        table_rows: rows of the table; 0 if it is new or empty, None if not known.
        reset: the permission to drop everything in the table; None unless a person asked for it.
        keys: the keys of the batch.
        aligned: the mirrored partitions are whole files of the table.
        counted: the deleted rows must be known, because they are marked or their number is limited.
        missing_keys: rows of the table may be deleted although the batch does not contain their keys.
        carried: rows carry the name of the file that they came from, in the batch and in the table.
        copies_files: every merge writes the files again that hold a changed row.
        unwritten: columns of the table that the load does not write; a row that stays keeps its values in them.
    """

    effect: Effect
    rows: int | None
    table_rows: int | None
    reset: Reset | None = None
    keys: KeyFacts = field(default_factory=KeyFacts)
    aligned: bool = False
    counted: bool = False
    missing_keys: bool = False
    carried: bool = False
    copies_files: bool = False
    unwritten: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteChoice:
    """The chosen mode, why, and the pruning predicate that the plan knows of (the write derives it again)."""

    mode: Mode
    reason: str
    prune: tuple[Prune, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRef:
    """The stream that a load belongs to.

    Args:
        uid: its identity in the table's commits.
        target: the table's whole name.
    """

    name: str
    uid: str
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Evolution:
    """The changes of the table's columns.

    Args:
        create: this load creates the table.
        seen: how the source's columns differ from the table's.
        apply: the changes that are applied before the write.
        source_columns: which column of the source each of the table is from then on; None where only names tell.
        unwritten: the columns of the table that the load does not write.
    """

    create: bool = False
    seen: tuple[SchemaChange, ...] = ()
    apply: tuple[SchemaChange, ...] = ()
    source_columns: SourceColumns | None = None
    unwritten: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedDeletes:
    """Which rows of the table may be deleted, and how.

    Args:
        policy: what happens to rows that were deleted at the source.
        at_most: the maximum number of deleted rows; None for no limit.
        missing_keys: keys of the table that no longer exist at the source are deleted, too.
        reset: the permission to drop everything in the table; None unless a person asked for it.
    """

    policy: Deletes = field(default_factory=Deletes)
    at_most: int | None = None
    missing_keys: bool = False
    reset: Reset | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPlan:
    """One load: fixed before reading, saved before reading.

    Args:
        base: the target's snapshot that `since` was read from; None for an empty or new table.
        since: the position the load starts from; None for a first load.
        position: the position that the commit will carry.
        columns: the columns to read and write, in order.
        key: the key columns; empty for none.
        added: the writer's own columns, in addition to those of the source.
    """

    stream: StreamRef
    created_at: datetime
    base: str | None
    since: Position | None
    position: Position
    changes: ChangeSet
    columns: Schema
    key: tuple[str, ...] = ()
    added: Schema = field(default_factory=lambda: Schema(columns=()))
    evolution: Evolution = field(default_factory=Evolution)
    write: WriteChoice
    deletes: PlannedDeletes = field(default_factory=PlannedDeletes)

    @property
    def load_id(self) -> str:
        """32 hex digits, the mark in the table's commit."""
        return self.position.load_id

    @property
    def uid(self) -> str:
        """The stream's identity."""
        return self.stream.uid

    @property
    def table(self) -> Schema:
        """The columns of the table that the load writes."""
        return Schema(columns=(*self.columns, *self.added))

    @property
    def prunable(self) -> Mapping[str, Type]:
        """The key columns whose bounds may stand on the target's side of a merge.

        Key columns alone: a row whose other columns changed lies, in the table, outside the batch's bounds of these.
        """
        found = ((name, self.columns.find(name)) for name in self.key)
        return {name: column.type for name, column in found if column and column.type.stored.kind in PRUNABLE}

    @property
    def replaced(self) -> tuple[str, ...]:
        """The columns whose type is replaced by this load, which then replaces all rows."""
        return tuple(change.column for change in self.evolution.apply if change.kind in REPLACED)

    @property
    def renamed(self) -> Mapping[str, str]:
        """The names that columns of the table have until this load changes them, to those that it gives them."""
        changes = (change for change in self.evolution.apply if change.kind is ChangeKind.RENAME)
        return {change.old: change.column for change in changes if change.old is not None}

    @property
    def branch(self) -> str:
        """The invisible version that this load writes to; begins with `branch_prefix(uid)`."""
        return f"{branch_prefix(self.uid)}{self.load_id[:12]}"

    def refuse_many(self, missing: int) -> None:
        """Raises DeleteFuse if more rows would be deleted than allowed."""
        most = self.deletes.at_most
        if most is not None and missing > most:
            raise DeleteFuse(
                f"stream {self.stream.name!r}: {counted(missing, 'row')} of {self.stream.target} no longer "
                f"{done_by(missing, 'exist')} at the source, "
                f"and one load may delete at most {most} ({self.deletes.policy.limit})",
                load_id=self.load_id,
            )

    def to_dict(self) -> dict[str, Any]:
        """The document that a registry keeps: flat, JSON types only, times in ISO 8601."""
        values = asdict(replace(self, columns=replace(self.columns, ids=None)))
        del values["columns"]["ids"], values["added"]["ids"]
        stream, evolution, deletes = values.pop("stream"), values.pop("evolution"), values.pop("deletes")
        document = {
            "load_id": self.load_id,
            "stream": stream["name"],
            "uid": stream["uid"],
            "target": stream["target"],
            **values,
            "schema_changes": evolution["seen"],
            "evolve": evolution["apply"],
            "create": evolution["create"],
            "deletes": deletes["policy"],
            "most_deleted": deletes["at_most"],
            "missing_keys": deletes["missing_keys"],
            "reset": deletes["reset"],
        }
        document["changes"] |= document["changes"].pop("observed")
        document["columns"]["digest"] = self.columns.digest
        plain: dict[str, Any] = _plain(document)
        return plain


def branch_prefix(uid: str) -> str:
    """The prefix of the names of all branches of that stream."""
    return f"tidegate_{uid}_"


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    return value
