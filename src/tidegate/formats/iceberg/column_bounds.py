"""Reads bounds of a column from an Iceberg table's manifests.

Bounds are never narrower than the rows: deletes are ignored, and a file without bounds may contain any value.
"""

from __future__ import annotations

import struct
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

from tidegate.core.plan import Prune
from tidegate.core.schema import Kind

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

# Beyond so many, reading them takes longer than a merge that looks for the keys itself.
MANIFESTS = 50
FILES = 10_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def may_hold(table: Table, bound: Prune) -> bool:
    """Whether a data file of the visible snapshot may hold a value within the bound, whose kind is the column's.

    Yes, unread, for a table of very many files.
    """
    snapshot = table.current_snapshot()
    if snapshot is None:
        return False
    manifests = [each for each in snapshot.manifests(table.io) if each.content == 0]
    files = sum((each.existing_files_count or 0) + (each.added_files_count or 0) for each in manifests)
    if len(manifests) > MANIFESTS or files > FILES:
        return True
    field = table.schema().find_field(bound.column).field_id
    # The first file that may hold one ends the search, and it is likeliest where most rows are.
    manifests.sort(key=lambda each: (each.existing_rows_count or 0) + (each.added_rows_count or 0), reverse=True)
    entries = (e for each in manifests for e in each.fetch_manifest_entry(table.io, discard_deleted=True))
    return any(_meets(entry.data_file, field, bound) for entry in entries)


def _meets(file: DataFile, field: int, bound: Prune) -> bool:
    counts, nulls = file.value_counts or {}, file.null_value_counts or {}
    if file.record_count == 0 or (field in counts and counts[field] == nulls.get(field)):
        return False  # every value is NULL, and no key matches NULL
    low, high = (file.lower_bounds or {}).get(field), (file.upper_bounds or {}).get(field)
    kind = bound.type.kind
    if low is None or high is None:
        return True
    try:
        return bound.meets(kind, _text(_number(low), kind), _text(_number(high), kind))
    except OverflowError:  # written by others, beyond the years 1 to 9999: no text of such a day can be compared
        return True


def _number(value: bytes) -> int:
    # Four bytes also in a column of eight: a file written before the column was widened keeps its own bounds.
    number: int = struct.unpack("<i" if len(value) == 4 else "<q", value)[0]
    return number


def _text(value: int, kind: Kind) -> str:
    if kind is Kind.INTEGER:
        return str(value)
    if kind is Kind.DATE:
        return (date(1970, 1, 1) + timedelta(days=value)).isoformat()
    return (_EPOCH + timedelta(microseconds=value)).replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")
