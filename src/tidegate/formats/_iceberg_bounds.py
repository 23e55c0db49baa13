"""Decides what the manifests of an Iceberg table prove about the values of a column.

Called by the Iceberg format while planning. Must never give bounds narrower than the rows: deletes are ignored,
which only widens them, and a file without bounds ends the proof.
"""

from __future__ import annotations

import struct
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

from tidegate.core.plan import Prune
from tidegate.core.schema import Kind, Type

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table import Table

MANIFESTS = 50
KINDS = frozenset({Kind.INTEGER, Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ})
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def bounds(table: Table, column: str, kind: Type) -> Prune | None:
    """Least and greatest value over all data files of the visible snapshot; None when they prove nothing."""
    snapshot = table.current_snapshot()
    if kind.kind not in KINDS or snapshot is None:
        return None
    field = table.schema().find_field(column).field_id
    manifests = snapshot.manifests(table.io)
    if len(manifests) > MANIFESTS:
        return None
    found = _ends(table.io, [each for each in manifests if each.content == 0], field)
    if found is None:
        return None
    return Prune(column=column, type=kind, low=_text(found[0], kind), high=_text(found[1], kind))


def _ends(io: FileIO, manifests: list, field: int) -> tuple[int, int] | None:  # type: ignore[type-arg]
    lows: list[int] = []
    highs: list[int] = []
    for manifest in manifests:
        for entry in manifest.fetch_manifest_entry(io, discard_deleted=True):
            file = entry.data_file
            if file.record_count == 0:
                continue
            counts, nulls = file.value_counts or {}, file.null_value_counts or {}
            if field in counts and counts[field] == nulls.get(field):
                continue  # every value is NULL, and no key matches NULL
            low, high = (file.lower_bounds or {}).get(field), (file.upper_bounds or {}).get(field)
            if low is None or high is None:
                return None
            lows.append(_number(low))
            highs.append(_number(high))
    return (min(lows), max(highs)) if lows else None


def _number(value: bytes) -> int:
    # Four bytes also in a column of eight: a file written before the column was widened keeps its own bounds.
    number: int = struct.unpack("<i" if len(value) == 4 else "<q", value)[0]
    return number


def _text(value: int, kind: Type) -> str:
    if kind.kind is Kind.INTEGER:
        return str(value)
    if kind.kind is Kind.DATE:
        return (date(1970, 1, 1) + timedelta(days=value)).isoformat()
    return (_EPOCH + timedelta(microseconds=value)).replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")
