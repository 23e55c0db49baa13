"""Reads a few committed rows back with PyIceberg, for verification without Spark.

PyIceberg is another engine than the one that wrote the rows. The result is used only if no other file of the table can
contain rows of the same keys or partitions.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from pyarrow.dataset import ParquetFileFormat, field  # type: ignore[import-untyped]
from pyiceberg.conversions import from_bytes
from pyiceberg.expressions import (
    AlwaysTrue,
    And,
    BooleanExpression,
    GreaterThanOrEqual,
    IsNull,
    LessThan,
    LessThanOrEqual,
    NotNull,
    Reference,
)
from pyiceberg.expressions.visitors import bind
from pyiceberg.io.pyarrow import ArrowScan, expression_to_pyarrow
from pyiceberg.manifest import DataFile, FileFormat, ManifestContent, ManifestEntryStatus
from pyiceberg.table import FileScanTask
from pyiceberg.types import NestedField, PrimitiveType

from tidegate.core.schema import Kind, Schema, Type
from tidegate.core.slices import Partition, Slice
from tidegate.core.type_limits import least, may_wrap
from tidegate.formats.shared.readback import is_small, places_in, places_of, tried
from tidegate.formats.shared.small_write import BACK_ROWS, OTHER_BYTES, OTHERS, READERS

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

FIELD_ID = b"PARQUET:field_id"
PARTS = 8
"""Partitions that are looked for one by one."""


def added(table: Table, version: int, *, columns: Sequence[str], key: Sequence[str]) -> pa.Table | None:
    """The rows that a version's own commit added.

    Args:
        key: no other row of the version may have the key of one of them; empty where keys do not count.

    Returns:
        None where that is not so, where it would take long to find out, or where PyIceberg cannot read the table.
    """
    snapshot = table.snapshot_by_id(version)
    return None if snapshot is None else tried(lambda: _added(table, snapshot, columns, key))


def among(table: Table, version: int, parts: Sequence[Slice], *, columns: Schema) -> pa.Table | None:
    """The rows of these partitions in a version, whichever commit wrote them.

    Returns:
        None where there are too many, or where PyIceberg cannot tell or read them.
    """
    return tried(lambda: _among(table, version, parts, columns))


def whole(table: Table, names: Sequence[str]) -> pa.Table | None:
    """These columns of every row of the visible version; None where PyIceberg cannot read the table."""
    return tried(lambda: table.scan(selected_fields=tuple(names)).to_arrow().select(list(names)))


def _added(table: Table, snapshot: Snapshot, columns: Sequence[str], key: Sequence[str]) -> pa.Table | None:
    files = _files(table, snapshot)
    if sum(file.record_count for file in files.values()) > BACK_ROWS or not _are_small(table, files.values()):
        return None
    wanted = [FileScanTask(file) for file in files.values()]
    if not key or not wanted:
        return _read(table, wanted, columns)
    rows = _read(table, wanted, [*columns, *(name for name in key if name not in columns)])
    return None if _any_left(table, snapshot.snapshot_id, files, rows.select(list(key))) else rows


def _among(table: Table, version: int, parts: Sequence[Slice], columns: Schema) -> pa.Table | None:
    if len(parts) > PARTS:
        return None
    names, left = [column.name for column in columns.covered], BACK_ROWS
    found = []
    for within in itertools.chain.from_iterable(_conditions(part, columns) for part in parts):
        tasks = list(table.scan(row_filter=within, snapshot_id=version).plan_files())
        left -= sum(task.file.record_count for task in tasks)
        if left < 0 or not _are_small(table, [task.file for task in tasks]):
            return None
        found.append(_read(table, tasks, names, within))
    return pa.concat_tables(found)


def _are_small(table: Table, files: Iterable[DataFile]) -> bool:
    """See `readback.is_small`; no other format than Parquet tells."""
    with ExitStack() as held:
        return is_small(
            ParquetFileFormat().make_fragment(held.enter_context(table.io.new_input(file.file_path).open()))
            for file in files
            if file.file_format == FileFormat.PARQUET
        )


def _conditions(part: Slice, columns: Schema) -> Iterator[BooleanExpression]:
    """What rows of the partition fulfil, one or the other; one by one, for PyIceberg cannot compare NULL.

    Raises:
        ValueError: a partition of a text, whose order is another engine's.
    """
    column = columns.find(part.column) if isinstance(part, Partition) else None
    if column is None or not isinstance(part, Partition) or part.prefix is not None:
        raise ValueError(f"no condition for {part.label}")
    term = Reference(column.name)
    if part.low is not None:
        found: BooleanExpression = NotNull(term=term)
        if part.low != str(least(column.type)):
            if may_wrap(column.type, part.low):
                raise ValueError(f"no condition for {part.label} that skips files")
            found = GreaterThanOrEqual(term=term, value=_literal(column.type, part.low))
        if part.high is not None:
            found = And(found, LessThan(term=term, value=_literal(column.type, part.high)))
        yield found
    if part.of_null or part.nulls:
        yield IsNull(term=term)


def _literal(kind: Type, text: str) -> Any:
    """A canonical text as PyIceberg reads it."""
    match kind.stored.kind:
        case Kind.INTEGER:
            return int(text)
        case Kind.DATE:
            return text
        case Kind.TIMESTAMP:
            return text.replace(" ", "T")
        case Kind.TIMESTAMPTZ:
            return f"{text.replace(' ', 'T')}+00:00"
        case _:
            raise ValueError(f"a partition of a column of type {kind}")


def _files(table: Table, snapshot: Snapshot) -> dict[str, DataFile]:
    """The data files that the commit added, by path."""
    manifests = (
        each
        for each in snapshot.manifests(table.io)
        if each.added_snapshot_id == snapshot.snapshot_id and each.content == ManifestContent.DATA
    )
    entries = (entry for each in manifests for entry in each.fetch_manifest_entry(table.io))
    new = (e for e in entries if e.status == ManifestEntryStatus.ADDED and e.snapshot_id == snapshot.snapshot_id)
    return {entry.data_file.file_path: entry.data_file for entry in new}


def _any_left(table: Table, version: int, files: Mapping[str, DataFile], keys: pa.Table) -> bool:
    """Whether another file of the version holds a live row with one of these keys; yes where it takes long to tell.

    Every file whose bounds do not exclude it is read, and of it the columns of the key alone.
    """
    schema, names = table.schema(), keys.column_names
    within = _within(table, files.values(), names)
    tasks = table.scan(row_filter=within, snapshot_id=version).plan_files()
    others = [task for task in tasks if task.file.file_path not in files]
    ids = [schema.find_field(name).field_id for name in names]
    size = sum((each.file.column_sizes or {}).get(id_, each.file.file_size_in_bytes) for each in others for id_ in ids)
    if sum(task.file.record_count for task in others) > OTHERS or size > OTHER_BYTES:
        return True
    condition = expression_to_pyarrow(bind(schema, within, case_sensitive=True), schema)

    def left(task: FileScanTask) -> bool:
        if all(file.file_format == FileFormat.PARQUET for file in (task.file, *task.delete_files)):
            return _left(table, task, keys, condition)
        return bool(places_of(_read(table, [task], names, within), keys))

    with ThreadPoolExecutor(max_workers=READERS, thread_name_prefix="readback") as pool:
        return any(pool.map(left, others))


def _left(table: Table, task: FileScanTask, keys: pa.Table, condition: Any) -> bool:
    """Whether a row of the file that is not deleted has one of the keys.

    Raises:
        LookupError: the file names a column of the key otherwise.
    """
    with table.io.new_input(task.file.file_path).open() as stream:
        file = ParquetFileFormat().make_fragment(stream)
        for name in keys.column_names:
            known = (file.physical_schema.field(name).metadata or {}).get(FIELD_ID)
            if known != str(table.schema().find_field(name).field_id).encode():
                raise LookupError(name)
        places = places_in(file, keys.column_names, keys, condition)
    for deleted in task.delete_files if len(places) else ():
        with table.io.new_input(deleted.file_path).open() as stream:
            of_file = field("file_path") == task.file.file_path
            deleted_places = ParquetFileFormat().make_fragment(stream).to_table(columns=["pos"], filter=of_file)["pos"]
        places = places.filter(pc.invert(pc.is_in(places, value_set=deleted_places)))
    return len(places) > 0


def _within(table: Table, files: Collection[DataFile], key: Sequence[str]) -> BooleanExpression:
    """The condition of rows between the bounds that the files' own metadata give of every key column.

    Raises:
        LookupError: they give none.
    """
    within: BooleanExpression = AlwaysTrue()
    for name in key:
        field, column = table.schema().find_field(name), Reference(name)
        low = min(_bound(field, file.lower_bounds) for file in files)
        high = max(_bound(field, file.upper_bounds) for file in files)
        within = And(within, GreaterThanOrEqual(term=column, value=low), LessThanOrEqual(term=column, value=high))
    return within


def _bound(field: NestedField, bounds: Mapping[int, bytes]) -> Any:
    return from_bytes(cast("PrimitiveType", field.field_type), bounds[field.field_id])


def _read(
    table: Table, tasks: Iterable[FileScanTask], columns: Sequence[str], within: BooleanExpression | None = None
) -> pa.Table:
    schema = table.schema().select(*columns)  # in the table's order, whatever order they are named in
    return ArrowScan(table.metadata, table.io, schema, within or AlwaysTrue()).to_table(tasks).select(list(columns))
