"""Interprets a Delta table's log: the position, the columns, and what a commit did.

A load's number is no proof that its rows are in the table: RESTORE removes or restores rows and keeps the number.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import unquote

from tidegate.core import schema as types
from tidegate.core.plan import Prune
from tidegate.core.ports.format import Receipt
from tidegate.core.position import Position, columns_name, property_name, repeated_name, touched_name
from tidegate.core.schema import Column, ColumnIds, Kind, Schema, Type, every
from tidegate.core.source_columns import SourceColumns
from tidegate.core.table_facts import TableFacts
from tidegate.errors import WriteError
from tidegate.formats.delta.log import Commit, Log, Snapshot, rows_of, statistics
from tidegate.formats.shared.columns import shown, type_of
from tidegate.spark.sql import quote

VECTORS = "delta.enableDeletionVectors"

PHYSICAL = "delta.columnMapping.physicalName"
_SIMPLE = {
    "boolean": types.BOOLEAN,
    "integer": types.INT,
    "long": types.BIGINT,
    "float": types.REAL,
    "double": types.DOUBLE,
    "date": types.DATE,
    "timestamp_ntz": types.TIMESTAMP,
    "timestamp": types.TIMESTAMPTZ,
    "string": types.TEXT,
    "binary": types.BINARY,
}
_DECIMAL = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedPosition:
    """The position of a stream in a table.

    Args:
        position: of the newest load whose rows the table shows; None where no commit tells.
        version: of the commit that carries it.
        number: of the newest load, where its commit is not kept any more; None where that is not known either.
        as_loaded: no rows came or went since that load.
        source_columns: which column of the source each of the table is, as the load that the position is of says it.
    """

    position: Position | None = None
    version: int | None = None
    number: int | None = None
    as_loaded: bool = False
    source_columns: SourceColumns | None = None


class Commits(Protocol):
    """What knows commits by their versions: a log, or a table's history."""

    def commit(self, version: int) -> Commit | None:
        """The commit that made the version; None if it is not kept any more."""

    def same_files(self, version: int) -> Sequence[int]:
        """The older versions that consist of the same files, oldest first, as far as it knows any."""


def landed(log: Log, snapshot: Snapshot, uid: str) -> LoadedPosition:
    """The stream's newest load among the commits that the visible version stands on.

    What was restored to stands on the version that it was restored from, whatever came in between.

    Raises:
        WriteError: the position is damaged or was written by a newer version.
    """
    restored, as_loaded = False, True
    for commit in ancestors(log, snapshot.version):
        if commit is None:
            number = None if restored else snapshot.transactions.get(uid)
            return LoadedPosition(number=number)
        back = is_restore(commit)
        restored = restored or back
        found = carried(log, commit, uid)
        if found is not None:
            others = any(each.changes_rows for each in _since_repeated(log, commit, uid))
            as_loaded = as_loaded and not others and touched_name(uid) not in (commit.info.get("userMetadata") or "")
            columns = _source_columns(commit, uid, ids(snapshot))
            return LoadedPosition(position=found, version=commit.version, as_loaded=as_loaded, source_columns=columns)
        as_loaded = as_loaded and (back or not commit.changes_rows)  # a RESTORE shows what it went back to
    return LoadedPosition(number=None if restored else snapshot.transactions.get(uid))


def ancestors(log: Commits, version: int) -> Iterator[Commit | None]:
    """The commits that a version stands on, newest first; None and the end where one is not known, or not any more."""
    below: int | None = version
    while below is None or below >= 0:
        commit = None if below is None else log.commit(below)
        yield commit
        if commit is None:
            return
        below = stands_on(log, commit)


def is_restore(commit: Commit) -> bool:
    """Whether the commit went back to an older version."""
    return commit.info.get("operation") == "RESTORE"


def stands_on(log: Commits, commit: Commit) -> int | None:
    """The version that the commit's own is made of: the one before it, or the one that a RESTORE brought back.

    Which one a moment stood for depends on the time zone of a session and on the times of files that are gone, so it is
    told by the files that came back.

    Returns:
        -1 for the first version; None for a moment of which that is not known.
    """
    if not is_restore(commit):
        return commit.version - 1
    asked = str((commit.info.get("operationParameters") or {}).get("version"))
    if asked.isdigit():
        return int(asked)
    same_files = log.same_files(commit.version)
    # Of versions between which no row came or went each is as good; else its files do not tell which one it was.
    return same_files[-1] if len({_filled_by(log, version) for version in same_files}) == 1 else None


def _filled_by(log: Commits, version: int) -> int | None:
    """The version that gave this one its rows; None where it is not kept any more."""
    moved = (each for each in ancestors(log, version) if each is None or (each.changes_rows and not is_restore(each)))
    found = next(moved, None)
    return None if found is None else found.version


def user_metadata(
    uid: str, position: Position, *, columns: str | None = None, repeated: int | None = None, touched: bool = False
) -> str:
    """What a load's commit carries of its position.

    Args:
        columns: which column of the source each of the table is, see `SourceColumns.to_json`.
        repeated: the version in which the position was found that the commit says again; None for a load's own.
        touched: others have changed the table since the load, so the position proves nothing of its rows.
    """
    metadata: dict[str, Any] = {property_name(uid): position.to_dict()}
    metadata |= {} if columns is None else {columns_name(uid): columns}
    metadata |= {touched_name(uid): True} if touched else {}
    metadata |= {} if repeated is None else {repeated_name(uid): repeated}
    return json.dumps(metadata, sort_keys=True, separators=(",", ":"))


def carried(log: Commits, commit: Commit, uid: str) -> Position | None:
    """The position of the stream that the commit carries, and that counts.

    One that maintenance says again counts only if it was still the newest then. Nothing keeps Delta from putting a
    commit without rows behind another one, so whoever reads the log decides.

    Raises:
        WriteError: it is damaged or was written by a newer version.
    """
    found = position_of(commit, uid)
    if found is None:
        return None
    newer = any(is_restore(each) or position_of(each, uid) is not None for each in _since_repeated(log, commit, uid))
    return None if newer else found


def _since_repeated(log: Commits, commit: Commit, uid: str) -> Iterator[Commit]:
    """The commits between the version in which a position was found and the one that says it again, while kept."""
    if is_repeated(commit, uid):
        first = int(json.loads(commit.info["userMetadata"])[repeated_name(uid)]) + 1
        yield from (each for version in range(first, commit.version) if (each := log.commit(version)) is not None)


def is_repeated(commit: Commit, uid: str) -> bool:
    """Whether the commit only says the position of the stream again."""
    return repeated_name(uid) in (commit.info.get("userMetadata") or "")


def position_of(commit: Commit, uid: str) -> Position | None:
    """The position of the stream that the commit carries; None if it is another's.

    Raises:
        WriteError: it is damaged or was written by a newer version.
    """
    text = commit.info.get("userMetadata") or ""
    if property_name(uid) not in text:
        return None
    try:
        return Position.from_json(json.dumps(json.loads(text)[property_name(uid)]))
    except (ValueError, KeyError, TypeError) as error:
        raise WriteError(
            f"the position in version {commit.version} of the table cannot be read",
            hint="Use the version of Tidegate that wrote it, or `tidegate state adopt STREAM`.",
        ) from error


def _source_columns(commit: Commit, uid: str, known: Mapping[str, str]) -> SourceColumns | None:
    """What the commit says of the table's columns, by their present names; None if it says nothing."""
    text = json.loads(commit.info["userMetadata"]).get(columns_name(uid))
    return None if text is None else SourceColumns.from_json(text, known)


def ids(snapshot: Snapshot) -> Mapping[str, str]:
    """The name within the data files of every column by its name: the same, where columns were never mapped."""
    return {field["name"]: physical(field) for field in fields(snapshot)}


def copies_rows(snapshot: Snapshot) -> bool:
    """Whether a merge writes all rows of the files that it touches again, and marks none as deleted beside them."""
    return str(snapshot.metadata["configuration"].get(VECTORS, "false")) != "true"


def receipt(commit: Commit) -> Receipt:
    """What the commit did to rows, in its own words."""
    metrics: Mapping[str, str] = commit.info.get("operationMetrics") or {}
    if "numTargetRowsInserted" in metrics:
        return Receipt(
            snapshot=str(commit.version),
            rows_inserted=int(metrics["numTargetRowsInserted"]),
            rows_updated=int(metrics.get("numTargetRowsUpdated", 0)),
            rows_deleted=int(metrics.get("numTargetRowsDeleted", 0)),
        )
    removed, added = ({file["path"]: rows_of(file) or 0 for file in commit.of(kind)} for kind in ("remove", "add"))
    # Rows that stay: in a file of which others were deleted, or copied into another; Delta may count both as copied.
    stayed = sum(rows for path, rows in added.items() if path in removed)
    kept = max(stayed, int(metrics.get("numCopiedRows", 0)))
    return Receipt(
        snapshot=str(commit.version),
        rows_inserted=sum(added.values()) - kept,
        # Where Delta rewrites files, the log says of the removed ones no rows, but counts those that were deleted.
        rows_deleted=int(metrics.get("numDeletedRows", sum(removed.values()) - kept)),
    )


def schema(snapshot: Snapshot, takes: Callable[[str], bool] = every) -> Schema:
    """The columns of the version; of those that are not read the names alone.

    Raises:
        SchemaRefused: a column of a type that Tidegate does not load.
    """
    mapped = all(PHYSICAL in (field.get("metadata") or {}) for field in fields(snapshot))
    known = ColumnIds(relation=snapshot.metadata.get("id", ""), columns=ids(snapshot), takes=takes) if mapped else None
    return Schema(
        ids=known,
        columns=tuple(
            Column(
                name=field["name"],
                type=field_type(field),
                nullable=field.get("nullable", True),
                native=shown(field["type"]),
                ident=(field.get("metadata") or {}).get(PHYSICAL),
                comment=(field.get("metadata") or {}).get("comment", ""),
            )
            for field in fields(snapshot)
            if takes(field["name"])
        ),
        excluded=tuple(field["name"] for field in fields(snapshot) if not takes(field["name"])),
        comment=snapshot.metadata.get("description") or "",
    )


def fields(snapshot: Snapshot) -> list[Mapping[str, Any]]:
    """The columns as the metadata writes them."""
    found: list[Mapping[str, Any]] = json.loads(snapshot.metadata["schemaString"])["fields"]
    return found


def as_seen(then: Snapshot, columns: Schema) -> list[str]:
    """The select list by which rows of that version have these columns, whatever they are called there.

    Args:
        columns: of `schema`, of any version. One that the version did not have yet is NULL.
    """
    known = {physical(field): field for field in fields(then)}
    found = ((column, known.get(column.ident or column.name)) for column in columns)
    return [_expression(column, field) for column, field in found]


def _expression(column: Column, then: Mapping[str, Any] | None) -> str:
    name, kind = quote(column.name), column.type.stored.spark
    if then is None:
        return f"CAST(NULL AS {kind}) AS {name}"
    old = quote(then["name"])
    return f"{old} AS {name}" if spark_type(then) == kind else f"CAST({old} AS {kind}) AS {name}"


def partition_by(snapshot: Snapshot) -> tuple[str, ...]:
    """The columns that files are apart by."""
    return tuple(snapshot.metadata.get("partitionColumns") or ())


def physical(field: Mapping[str, Any]) -> str:
    """The column's name within the data files and their statistics."""
    name: str = (field.get("metadata") or {}).get(PHYSICAL, field["name"])
    return name


def facts(snapshot: Snapshot) -> TableFacts:
    """Layout and size of the version."""
    return TableFacts(
        format="delta",
        partition_by=tuple(snapshot.metadata.get("partitionColumns") or ()),
        files=len(snapshot.files),
        bytes=sum(int(file.get("size") or 0) for file in snapshot.files),
        delete_files=sum(1 for file in snapshot.files if file.get("deletionVector")),
    )


def field_type(field: Mapping[str, Any]) -> Type:
    """The column's type."""
    return _type(field["type"], field["name"])


def spark_type(field: Mapping[str, Any]) -> str:
    """The column's type as Spark's DDL writes it."""
    return field_type(field).spark


def may_hold(snapshot: Snapshot, bound: Prune) -> bool:
    """Whether a file may hold a value within the bound; yes where nothing proves otherwise.

    Integers and dates alone: times are cut to milliseconds in the statistics. Deleted rows only widen what files say.
    """
    known = _comparable(snapshot, [bound])
    return not known or any(_within(file, known) for file in snapshot.files)


def holding(snapshot: Snapshot, files: Iterable[Mapping[str, Any]], bounds: Sequence[Prune]) -> list[Mapping[str, Any]]:
    """The files that may hold a row within all bounds, as `may_hold` tells."""
    known = _comparable(snapshot, bounds)
    return [file for file in files if _within(file, known)]


def _comparable(snapshot: Snapshot, bounds: Sequence[Prune]) -> list[tuple[str, Prune, Kind]]:
    """The bounds that statistics can be compared with, each with its column's name in them and its kind."""
    named = {field["name"]: field for field in fields(snapshot) if isinstance(field["type"], str)}
    known = [(named[bound.column], bound) for bound in bounds if bound.column in named]
    kinds = [(physical(field), bound, kind.kind) for field, bound in known if (kind := _SIMPLE.get(field["type"]))]
    return [each for each in kinds if each[2] in (Kind.INTEGER, Kind.DATE)]


def _within(file: Mapping[str, Any], known: Sequence[tuple[str, Prune, Kind]]) -> bool:
    stats = statistics(file) if known else {}
    return all(_meets(stats, name, bound, kind) for name, bound, kind in known)


def own_path(file: Mapping[str, Any]) -> str | None:
    """Where a data file lies, relative to its table; None where it does not lie below the table."""
    path = unquote(file["path"])
    return None if "://" in path or path.startswith(("/", "file:")) else path


def _meets(stats: Mapping[str, Any], name: str, bound: Prune, kind: Kind) -> bool:
    rows = stats.get("numRecords")
    if rows == 0 or (rows is not None and (stats.get("nullCount") or {}).get(name) == rows):
        return False  # every value is NULL, and no key matches NULL
    low, high = ((stats.get(end) or {}).get(name) for end in ("minValues", "maxValues"))
    return low is None or high is None or bound.meets(kind, str(low), str(high))


def _type(native: Any, column: str) -> Type:
    return type_of(native, column, scalar=_scalar, listed=("array", "elementType"))


def _scalar(native: str) -> Type | None:
    if found := _DECIMAL.fullmatch(native):
        return types.decimal(int(found[1]), int(found[2]))
    return _SIMPLE.get(native)
