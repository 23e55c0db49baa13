"""Answers questions of verification about files with the second reader: counts, fingerprints, buckets, rows.

Never starts Spark, and holds only a few pieces of a file in memory.
"""

from __future__ import annotations

import zlib
from array import array
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from tidegate.core import canonical_text
from tidegate.core.batch import Latest
from tidegate.core.bucketing import Buckets, RowDigest
from tidegate.core.fingerprint import Fingerprint
from tidegate.core.grouping import Grouping
from tidegate.core.schema import Column, Schema
from tidegate.core.slices import Files, Slice
from tidegate.sources.shared.reference import selection
from tidegate.sources.shared.reference.rows import FileRows
from tidegate.spark import temporary

BUCKET, CURSOR = "__bucket", "__cursor"
QUARTERS = ("__q0", "__q1", "__q2", "__q3")


KEY = "__key"
MOST = 500_000
BUCKETS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What some files hold.

    Args:
        paths: of all the files that are meant.
    """

    rows: FileRows
    paths: tuple[str, ...]

    def count(self, part: Slice, *, latest: Latest | None = None) -> int:
        """Rows of the slice, or its distinct keys."""
        if latest is not None:
            return sum(found.num_rows for found in self._latest((part,), latest, ()))
        return sum(found.num_rows for found in self._tables((part,), ()))

    def fingerprint(self, part: Slice, *, latest: Latest | None = None) -> Fingerprint:
        total = Fingerprint()
        for found in self._asked((part,), latest, self._covered):
            total += canonical_text.sums(canonical_text.digests(self._covered, found))
        return total

    def partitions(self, grouping: Grouping, scope: Sequence[Slice]) -> Mapping[Slice, Fingerprint]:
        by = [selection.column(self._schema, grouping.column)] if grouping.column else []
        found: defaultdict[Slice, Fingerprint] = defaultdict(Fingerprint)
        for rows in self._tables(scope, [*self._covered, *by]):
            names = selection.partition_names(rows, grouping, self._schema)
            for bucket, one in _grouped(names, canonical_text.digests(self._covered, rows)).items():
                found[grouping.part(grouping.coarse(bucket), by[0] if by else None)] += one
        return found

    def spread(
        self, part: Slice, key: Sequence[str], spread: Buckets, *, latest: Latest | None = None
    ) -> Mapping[str, Fingerprint]:
        keys = [selection.column(self._schema, name) for name in key]
        covered = keys if spread.keys else self._covered
        found: defaultdict[str, Fingerprint] = defaultdict(Fingerprint)
        for rows in self._asked((part,), latest, [*covered, *keys, *([] if keys else self._covered)]):
            inside = selection.named(rows, keys, self._covered, spread)
            if spread.width is not None:
                for name, one in _ranges(*selection.ranges(inside, keys[0], spread.width)).items():
                    found[name] += one
                continue
            names = selection.bucket_names(inside, keys, self._covered, spread.count)
            for bucket, one in _grouped(names, canonical_text.digests(covered, inside)).items():
                found[str(bucket)] += one
        return found

    def digests(
        self, part: Slice, key: Sequence[str], spread: Buckets, *, latest: Latest | None = None
    ) -> Sequence[RowDigest]:
        """The rows of the named buckets by key and md5, also those beyond the slice.

        Args:
            latest: of each key only the latest row that lies in the slice, and the latest one that does not.
        """
        keys = [selection.column(self._schema, name) for name in key]
        made: list[RowDigest] = []
        also = [selection.column(self._schema, name) for name in selection.columns_of((part,))]
        asked = [*keys, *also, *([] if spread.keys else self._covered), *([] if keys else self._covered)]
        found_rows = self._tables((), asked) if latest is None else self._latest((), latest, asked, part)
        for rows in found_rows:
            inside = selection.named(rows, keys, self._covered, spread)
            flags = selection.mask(inside, (part,), self._schema)
            counted = flags.to_pylist() if flags is not None else [True] * inside.num_rows
            fields = [_key_texts(inside, each) for each in keys]
            found = [""] * inside.num_rows if spread.keys else _hex(canonical_text.digests(self._covered, inside))
            values = zip(*fields, strict=True) if fields else ((),) * inside.num_rows
            made += [
                RowDigest(key=tuple(each), digest=digest, inside=flag)
                for each, digest, flag in zip(values, found, counted, strict=True)
            ]
        return made

    @property
    def _schema(self) -> Schema:
        return self.rows.schema

    @property
    def _covered(self) -> tuple[Column, ...]:
        return self.rows.schema.covered

    def _asked(self, parts: Sequence[Slice], latest: Latest | None, columns: Sequence[Column]) -> Iterator[pa.Table]:
        return self._tables(parts, columns) if latest is None else self._latest(parts, latest, columns)

    def _tables(self, parts: Sequence[Slice], columns: Sequence[Column]) -> Iterator[pa.Table]:
        """The rows of the slices, of all files where there are none."""
        names = [*(column.name for column in columns), *selection.columns_of(parts)]
        for rows in self.rows.tables(self._files(parts), names):
            yield selection.within(rows, parts, self._schema) if parts else rows

    def _latest(
        self, parts: Sequence[Slice], rule: Latest, columns: Sequence[Column], apart: Slice | None = None
    ) -> Iterator[pa.Table]:
        """The latest row of each key among the slices.

        Args:
            apart: the latest row that lies in this slice, and the latest one that does not.
        """
        keys = [selection.column(self._schema, name) for name in rule.key]
        cursor: tuple[str, ...] = getattr(rule, "cursor", ())
        touched: tuple[Slice, ...] = getattr(rule, "touched", ())
        also = [selection.column(self._schema, name) for name in (*cursor, *rule.order)]
        also += [selection.column(self._schema, name) for name in selection.columns_of((apart,) if apart else ())]
        only = self._keys_of(touched, keys) if touched else None
        with LatestRows([CURSOR, *rule.order] if cursor else rule.order) as kept:
            for rows in self._tables(parts, [*keys, *also, *columns]):
                named = pa.array(canonical_text.row_texts(keys, rows), pa.string())
                found = rows.append_column(KEY, _by_slice(rows, named, apart, self._schema))
                if cursor:
                    found = found.append_column(CURSOR, pc.coalesce(*(rows[name] for name in cursor)))
                kept.add(found if only is None else found.filter(pc.is_in(named, only)))
            yield from kept.tables()

    def _keys_of(self, parts: Sequence[Slice], keys: Sequence[Column]) -> pa.Array:
        found: set[str] = set()
        for rows in self._tables(parts, keys):
            found.update(canonical_text.row_texts(keys, rows))
        return pa.array(sorted(found), pa.string())

    def _files(self, parts: Sequence[Slice]) -> Sequence[str]:
        named = [part for part in parts if isinstance(part, Files)]
        if not named:
            return self.paths
        wanted = {path for part in named for path in part.paths}
        return [path for path in self.paths if path in wanted]


def _by_slice(rows: pa.Table, keys: pa.Array, part: Slice | None, schema: Schema) -> pa.Array:
    """The keys, told apart by whether a row lies in the slice."""
    inside = None if part is None else selection.mask(rows, (part,), schema)
    return keys if inside is None else pc.binary_join_element_wise(pc.if_else(inside, "1", "0"), keys, "|")


def _grouped(names: Any, numbers: array[int]) -> Mapping[str | None, Fingerprint]:
    """The fingerprint of the rows of each name."""
    columns = {name: _numbers(numbers[at::4]) for at, name in enumerate(QUARTERS)}
    asked = [(QUARTERS[0], "count"), *((name, "sum") for name in QUARTERS)]
    made = pa.table({BUCKET: names, **columns}).group_by(BUCKET).aggregate(asked)
    sums = (made[f"{name}_{how}"].to_pylist() for name, how in asked)
    return {
        bucket: Fingerprint.of_sums(values) for bucket, *values in zip(made[BUCKET].to_pylist(), *sums, strict=True)
    }


def _ranges(names: Any, rest: Any) -> Mapping[str, Fingerprint]:
    made = pa.table({BUCKET: names, "rest": rest}).group_by(BUCKET).aggregate([("rest", "count"), ("rest", "sum")])
    found = zip(made[BUCKET].to_pylist(), made["rest_count"].to_pylist(), made["rest_sum"].to_pylist(), strict=True)
    return {name: Fingerprint(rows=count, s0=total) for name, count, total in found}


def _numbers(quarters: array[int]) -> Any:
    return pa.Array.from_buffers(pa.uint32(), len(quarters), [None, pa.py_buffer(quarters)])


def _hex(numbers: array[int]) -> list[str]:
    return ["%08x%08x%08x%08x" % tuple(numbers[at : at + 4]) for at in range(0, len(numbers), 4)]  # noqa: UP031 - four at once


def _key_texts(rows: pa.Table, column: Column) -> list[str | None]:
    text, values = canonical_text.text_of(column.type), rows[column.name].to_pylist()
    return [None if value is None else text(value) for value in values]


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
