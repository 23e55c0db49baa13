"""Reads few committed rows, or columns of a small Delta table, with PyArrow, without Spark.

PyArrow is another engine than the one that wrote the rows. What it cannot tell is None, never a guess.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import IO, Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from pyarrow.dataset import ParquetFileFormat, ParquetReadOptions, field  # type: ignore[import-untyped]

from tidegate.core.plan import Prune
from tidegate.formats.delta import deletion_vectors, table
from tidegate.formats.delta.log import Commit, Log, Snapshot, rows_of
from tidegate.formats.shared.readback import is_small, places_in, places_of, tried
from tidegate.formats.shared.small_write import BACK_ROWS, OTHER_BYTES, OTHERS, READERS

# Spark stores timestamps as INT96 unless told otherwise, and nanoseconds end in the year 2262.
PARQUET = ParquetFileFormat(read_options=ParquetReadOptions(coerce_int96_timestamp_unit="us"))
VALUES = {"string": pa.string(), "integer": pa.int32(), "long": pa.int64(), "date": pa.date32()}
"""Types of partition columns whose values are read from the log's texts."""
INSTANT = pa.timestamp("us", "UTC")


def rows(log: Log, names: Sequence[str]) -> pa.Table | None:
    """These columns of every row of the newest version.

    Returns:
        None where PyArrow alone cannot tell: rows were deleted beside their files, or a column is not in every file.
    """
    snapshot = log.snapshot()
    if any(file.get("deletionVector") for file in snapshot.files):
        return None
    return tried(lambda: Files(log, snapshot).read(snapshot.files, names))


def added(log: Log, commit: Commit, *, columns: Sequence[str], key: Sequence[str]) -> pa.Table | None:
    """The rows in the files that a commit added.

    Args:
        key: no other row of the version may have the key of one of them; empty where keys do not count.

    Returns:
        None where that is not so, where it would take long to find out, or where PyArrow cannot read the table.
    """
    return tried(lambda: _added(log, commit, columns, key))


def _added(log: Log, commit: Commit, columns: Sequence[str], key: Sequence[str]) -> pa.Table | None:
    # A file of which rows were deleted beside it is removed and added again by the same commit.
    kept = {file["path"] for file in commit.of("remove")}
    new = [file for file in commit.of("add") if file["path"] not in kept]
    if any(file.get("deletionVector") for file in new) or sum(rows_of(file) or BACK_ROWS for file in new) > BACK_ROWS:
        return None
    files = Files(log, log.snapshot(commit.version))
    if not files.are_small(new):
        return None
    found = files.read(new, [*columns, *(name for name in key if name not in columns)])
    if not key or not found.num_rows:
        return found.select(list(columns))
    paths = {file["path"] for file in new}
    others = [file for file in files.snapshot.files if file["path"] not in paths]
    left = files.any_left(others, found.select(list(key)))
    return None if left else found.select(list(columns))


@dataclass(frozen=True, slots=True)
class Files:
    """The data files of one version, read by the names of the table's columns."""

    log: Log
    snapshot: Snapshot

    def read(self, files: Iterable[Mapping[str, Any]], names: Sequence[str]) -> pa.Table:
        """These columns of every row of the files, deleted ones among them."""
        fields = self._fields(names)
        parts = [self._read(file, fields) for file in files]
        return pa.concat_tables(parts) if parts else pa.table({name: [] for name in names})

    def are_small(self, files: Iterable[Mapping[str, Any]]) -> bool:
        """See `readback.is_small`."""
        with ExitStack() as held:
            return is_small(PARQUET.make_fragment(held.enter_context(self._open(file))) for file in files)

    def any_left(self, files: Sequence[Mapping[str, Any]], keys: pa.Table) -> bool:
        """Whether one of the files holds a live row with one of these keys; yes where it takes long to tell.

        Every file whose statistics do not exclude it is read, and of it the columns of the key alone.
        """
        fields = self._fields(keys.column_names)
        ends = {name: pc.min_max(keys[name]).as_py() for name in keys.column_names}
        bounds = [_bound(each, ends[each["name"]]) for each in fields]
        near = table.holding(self.snapshot, files, bounds)
        share = keys.num_columns / len(table.fields(self.snapshot))
        size = sum(file["size"] for file in near) * share
        if sum(rows_of(file) or OTHERS for file in near) > OTHERS or size > OTHER_BYTES:
            return True
        with ThreadPoolExecutor(max_workers=READERS, thread_name_prefix="readback") as pool:
            return any(pool.map(lambda file: self._left(file, keys, fields, ends), near))

    def _left(
        self,
        file: Mapping[str, Any],
        keys: pa.Table,
        fields: Sequence[Mapping[str, Any]],
        ends: Mapping[str, Mapping[str, Any]],
    ) -> bool:
        if _partitioned(self.snapshot, fields):
            places = places_of(self._read(file, fields), keys)
        else:
            names = [table.physical(each) for each in fields]
            near = [
                (field(name) >= ends[each["name"]]["min"]) & (field(name) <= ends[each["name"]]["max"])
                for name, each in zip(names, fields, strict=True)
            ]
            with self._open(file) as stream:
                places = places_in(PARQUET.make_fragment(stream), names, keys, functools.reduce(operator.and_, near))
        vector = file.get("deletionVector")
        if not vector or not len(places):
            return len(places) > 0
        deleted = deletion_vectors.places(self.log.store, vector)
        return any(place not in deleted for place in places.to_pylist())

    def _read(self, file: Mapping[str, Any], fields: Sequence[Mapping[str, Any]]) -> pa.Table:
        apart = _partitioned(self.snapshot, fields)
        stored = [table.physical(each) for each in fields if each not in apart]
        with self._open(file) as stream:
            found = PARQUET.make_fragment(stream).to_table(columns=stored)
        columns = {}
        for each in fields:
            name = table.physical(each)
            if each in apart:
                value = pa.scalar(file["partitionValues"][name], pa.string()).cast(VALUES[each["type"]])
                columns[each["name"]] = pa.chunked_array([pa.repeat(value, len(found))])
            else:
                columns[each["name"]] = found[name].cast(INSTANT) if each["type"] == "timestamp" else found[name]
        return pa.table(columns)

    def _open(self, file: Mapping[str, Any]) -> IO[bytes]:
        if (path := table.own_path(file)) is None:
            raise ValueError(f"{file['path']} does not lie below the table")
        return self.log.store.open(path)

    def _fields(self, names: Sequence[str]) -> list[Mapping[str, Any]]:
        known = {each["name"]: each for each in table.fields(self.snapshot)}
        return [known[name] for name in names]


def _bound(field: Mapping[str, Any], ends: Mapping[str, Any]) -> Prune:
    return Prune(column=field["name"], type=table.field_type(field), low=str(ends["min"]), high=str(ends["max"]))


def _partitioned(snapshot: Snapshot, fields: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [each for each in fields if each["name"] in table.partition_by(snapshot)]
