"""Keeps the latest row of each key with bounded memory, spilling to files by the key's hash."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from tidegate.spark import temporary

KEY = "__key"
MOST = 500_000
BUCKETS = 64


class LatestRows:
    """Gathers rows, then gives one a key: that with the greatest order, column by column, NULL last.

    Args:
        order: columns of the rows; of rows that tie, any.
        most: rows that are held in memory; beyond them they are put aside.

    Rows: with the column `KEY`, a text.
    """

    def __init__(self, order: Sequence[str], *, most: int = MOST) -> None:
        self._order = order
        self._most = most
        self._held: list[pa.Table] = []
        self._rows = 0
        self._aside: list[Any] = []
        self._stack = ExitStack()
        self._folder: Path | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def add(self, rows: pa.Table) -> None:
        """Some more rows."""
        self._held.append(rows)
        self._rows += rows.num_rows
        if self._rows > self._most:
            one = self._reduced(pa.concat_tables(self._held))
            self._held, self._rows = [one], one.num_rows
            if self._rows > self._most // 2:
                self._spill(one)

    def tables(self) -> Iterator[pa.Table]:
        """One row a key, in any order."""
        if self._folder is None:
            if self._held:
                yield self._reduced(pa.concat_tables(self._held))
            return
        if self._held:
            self._spill(pa.concat_tables(self._held))
        for writer in self._aside:
            writer.close()
        for number in range(BUCKETS):
            with pa.OSFile(str(self._folder / str(number))) as file, pa.ipc.open_stream(file) as stream:
                yield self._reduced(stream.read_all())

    def _reduced(self, rows: pa.Table) -> pa.Table:
        # NULL comes last, whatever the direction.
        by = [(KEY, "ascending"), *((name, "descending") for name in self._order)]
        found = rows.take(pc.sort_indices(rows, sort_keys=by)).combine_chunks()
        if not found.num_rows:
            return found
        keys = found[KEY].combine_chunks()
        first = pc.not_equal(keys.slice(1), keys.slice(0, len(keys) - 1))
        return found.filter(pa.concat_arrays([pa.array([True]), first]))

    def _spill(self, rows: pa.Table) -> None:
        if self._folder is None:
            self._folder = self._stack.enter_context(temporary.folder())
            for number in range(BUCKETS):
                file = self._stack.enter_context(pa.OSFile(str(self._folder / str(number)), "wb"))
                self._aside.append(self._stack.enter_context(pa.ipc.new_stream(file, rows.schema)))
        bucket = pa.array([zlib.crc32(key.encode()) % BUCKETS for key in rows[KEY].to_pylist()], pa.int32())
        for number in range(BUCKETS):
            self._aside[number].write_table(rows.filter(pc.equal(bucket, number)))
        self._held, self._rows = [], 0
