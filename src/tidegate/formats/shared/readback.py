"""Reads committed rows back with Arrow, and finds rows by their keys, whatever the table's format."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from tidegate.formats.shared.small_write import BACK_BYTES

PLACE = "__tidegate_place"


def tried(read: Callable[[], pa.Table | None]) -> pa.Table | None:
    """What `read` returns; None where a type, a file format or a place is beyond Arrow, so that Spark has to read."""
    try:
        return read()
    except (ValueError, TypeError, LookupError, ArithmeticError, NotImplementedError, OSError):
        return None


def is_small(files: Iterable[Any]) -> bool:
    """Whether the values in these Parquet files fit in this process, by what they were before they were compressed.

    Args:
        files: `ParquetFileFragment`s.
    """
    return sum(int(group.total_byte_size) for file in files for group in file.row_groups) <= BACK_BYTES


def places_of(rows: pa.Table, keys: pa.Table) -> pa.Array:
    """Where the rows lie, counted from 0, whose key is among these.

    Args:
        rows: with the columns of `keys`, of types that can be cast to theirs.

    Raises:
        ValueError: a value does not fit, or floats, of which two zeros are one key, and two numbers for Arrow.
    """
    if any(pa.types.is_floating(each.type) for each in keys.schema):
        raise ValueError("a key of floats")
    rows = rows.cast(keys.schema)
    near = [pc.is_in(rows[name], value_set=keys[name].combine_chunks()) for name in keys.column_names]
    places = pc.indices_nonzero(functools.reduce(pc.and_, near)).cast(pa.int64())
    if len(near) == 1 or not len(places):
        return places
    numbered = rows.take(places).append_column(PLACE, places)
    return numbered.join(keys, keys=keys.column_names, join_type="left semi")[PLACE].combine_chunks()


def places_in(file: Any, names: Sequence[str], keys: pa.Table, condition: Any) -> pa.ChunkedArray:
    """Where the rows lie in a Parquet file, counted from 0, whose key is among these.

    Args:
        file: a `ParquetFileFragment`.
        names: what the columns of `keys` are called in the file.
        condition: of every row with such a key; row groups that hold no such row are not read.

    Raises:
        ValueError: as `places_of`.
    """
    found, begin = [], 0
    near = {group.id for group in file.subset(filter=condition).row_groups}
    for group in file.row_groups:
        if group.id in near:
            rows = file.subset(row_group_ids=[group.id]).to_table(columns=list(names))
            found.append(pc.add(places_of(rows.rename_columns(keys.column_names), keys), begin))
        begin += group.num_rows
    return pa.chunked_array(found, pa.int64())
