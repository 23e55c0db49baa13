"""Decides whether the few rows of one commit can be read back without Spark, and reads them.

Called by the Iceberg staging, for verification. PyIceberg reads the committed files, so it is another engine than the
one that wrote them; must never call rows complete while another file of the table may hold one of their keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc  # type: ignore[import-untyped]
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, GreaterThanOrEqual, LessThanOrEqual, Reference
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.manifest import DataFile, ManifestContent, ManifestEntryStatus
from pyiceberg.table import FileScanTask

from tidegate.formats._few import FEW_ROWS

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

# Beyond so many rows in the files that may hold a key of the commit, Spark reads these sooner.
OTHERS = 2_000_000
Rows = Iterable[Sequence[Any]]


def added(table: Table, version: int, *, columns: Sequence[str], key: Sequence[str]) -> Rows | None:
    """The rows that a version's own commit added, one value a column.

    Args:
        key: no other row of the version may have the key of one of them; empty where keys do not count.

    Returns:
        None where that is not so, where it would take long to find out, or where PyIceberg cannot read the table.
    """
    snapshot = table.snapshot_by_id(version)
    if snapshot is None:
        return None
    try:
        files = _files(table, snapshot)
        if sum(file.record_count for file in files.values()) > FEW_ROWS:
            return None
        rows = _read(table, [FileScanTask(file) for file in files.values()], columns)
        if key and rows.num_rows and not _alone(table, version, rows.select(list(key)), frozenset(files)):
            return None
        return list(zip(*(column.to_pylist() for column in rows.columns), strict=True))
    except (ValueError, TypeError, LookupError, ArithmeticError, NotImplementedError, OSError):
        return None  # a type, a file format or a place that Spark knows and PyIceberg does not


def _files(table: Table, snapshot: Snapshot) -> dict[str, DataFile]:
    """The data files that the commit added, by path."""
    mine = (
        each
        for each in snapshot.manifests(table.io)
        if each.added_snapshot_id == snapshot.snapshot_id and each.content == ManifestContent.DATA
    )
    entries = (entry for each in mine for entry in each.fetch_manifest_entry(table.io))
    new = (e for e in entries if e.status == ManifestEntryStatus.ADDED and e.snapshot_id == snapshot.snapshot_id)
    return {entry.data_file.file_path: entry.data_file for entry in new}


def _alone(table: Table, version: int, keys: pa.Table, mine: frozenset[str]) -> bool:
    """Whether no row of the version's other files has one of the keys."""
    within = _within(keys)
    tasks = table.scan(row_filter=within, snapshot_id=version).plan_files()
    others = [task for task in tasks if task.file.file_path not in mine]
    if sum(task.file.record_count for task in others) > OTHERS:
        return False
    theirs = _read(table, others, keys.column_names, within)
    return not theirs.num_rows or not theirs.join(keys, keys=keys.column_names, join_type="left semi").num_rows


def _within(keys: pa.Table) -> BooleanExpression:
    """The condition of rows between the least and the greatest value of every key column."""
    within: BooleanExpression = AlwaysTrue()
    for name in keys.column_names:
        end = pc.min_max(keys[name]).as_py()
        column = Reference(name)
        above = GreaterThanOrEqual(term=column, value=end["min"])
        within = And(within, above, LessThanOrEqual(term=column, value=end["max"]))
    return within


def _read(
    table: Table, tasks: Iterable[FileScanTask], columns: Sequence[str], within: BooleanExpression | None = None
) -> pa.Table:
    schema = table.schema().select(*columns)  # in the table's order, whatever order they are named in
    return ArrowScan(table.metadata, table.io, schema, within or AlwaysTrue()).to_table(tasks).select(list(columns))
