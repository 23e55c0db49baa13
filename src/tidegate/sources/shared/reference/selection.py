"""Filters rows by slice, and assigns rows to buckets.

Gives the same answers as the SQL of a slice, including for NULL.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from tidegate.core import canonical_text
from tidegate.core.bucketing import Buckets
from tidegate.core.grouping import CHARACTERS, Grouping, Periods, Prefixes, Ranges, Steps
from tidegate.core.manifest import LOAD, LOADED
from tidegate.core.schema import Column, Kind, Schema, Type
from tidegate.core.slices import Everything, Files, Keys, Partition, Range, Slice
from tidegate.errors import ColumnMissing, InternalError
from tidegate.sources.shared.reference.values import TextRules, arrow_type, of_texts


def columns_of(parts: Iterable[Slice]) -> set[str]:
    """The columns that say whether a row lies in one of the slices."""
    found: set[str] = set()
    for part in parts:
        match part:
            case Range():
                found |= set(part.cursor)
            case Partition():
                found.add(part.column)
            case Keys():
                found |= set(part.columns)
    return found


def within(rows: pa.Table, parts: Sequence[Slice], schema: Schema) -> pa.Table:
    found = mask(rows, parts, schema)
    return rows if found is None else rows.filter(found)


def mask(rows: pa.Table, parts: Sequence[Slice], schema: Schema) -> Any:
    """For each row whether it lies in one of the slices; None where all do."""
    if any(isinstance(part, Everything | Files) for part in parts):
        return None
    found = [pc.fill_null(_inside(rows, part, schema), fill_value=False) for part in parts]
    return reduce(pc.or_, found) if found else pa.array([False] * rows.num_rows)


def value(kind: Type, text: str) -> Any:
    """The scalar of a canonical text."""
    stored = kind.stored
    if stored.kind is Kind.BOOLEAN:
        return pa.scalar(text == "1")
    if stored.kind is Kind.BINARY:
        return pa.scalar(bytes.fromhex(text), pa.binary())
    return of_texts(pa.array([text], pa.string()), kind, TextRules())[0]


def column(schema: Schema, name: str) -> Column:
    found = LOAD if name == LOADED else schema.find(name)
    if found is None:
        raise ColumnMissing(f"there is no column {name!r}; there are {', '.join(schema.names)}", column=name)
    return found


def _inside(rows: pa.Table, part: Slice, schema: Schema) -> Any:
    match part:
        case Range():
            return _in_range(rows, part, schema)
        case Partition():
            return _in_partition(rows, part, schema)
        case Keys():
            keys = [column(schema, name) for name in part.columns]
            known = [found for each in part.values if (found := _values(keys, each)) is not None]
            wanted = pa.table(
                {key.name: pa.array([each[at] for each in known], arrow_type(key.type)) for at, key in enumerate(keys)}
            )
            named = pa.array(canonical_text.row_texts(keys, wanted), pa.string())
            present = reduce(pc.and_, [pc.is_valid(rows[key.name]) for key in keys])
            found = pc.and_(present, pc.is_in(pa.array(canonical_text.row_texts(keys, rows), pa.string()), named))
            return pc.or_(found, pc.invert(present)) if getattr(part, "nulls", False) else found
    raise InternalError(f"files have no {part.label}")


def _values(keys: Sequence[Column], canonical: Sequence[str]) -> list[Any] | None:
    """The values of one key; None if one is not valid for its type: another writer may have added such a row."""
    try:
        return [value(key.type, text).as_py() for key, text in zip(keys, canonical, strict=True)]
    except (ValueError, ArithmeticError):
        return None


def _in_range(rows: pa.Table, part: Range, schema: Schema) -> Any:
    cursor = pc.coalesce(*(rows[name] for name in part.cursor))
    kind = column(schema, part.cursor[0]).type
    missing = pc.is_null(cursor)
    if part.upto is None:
        return missing if part.nulls else pa.array([False] * rows.num_rows)
    found = pc.less_equal(cursor, value(kind, part.upto))
    if part.after is not None:
        found = pc.and_(pc.greater(cursor, value(kind, part.after)), found)
    return pc.or_(pc.fill_null(found, fill_value=False), missing) if part.nulls else found


def _in_partition(rows: pa.Table, part: Partition, schema: Schema) -> Any:
    found, kind = rows[part.column], column(schema, part.column).type
    if part.of_null:
        return pc.is_null(found)
    if part.prefix is not None:
        return pc.equal(pc.utf8_slice_codeunits(found, 0, part.length), part.prefix)
    inside = pc.greater_equal(found, value(kind, part.low or ""))
    if part.high is not None:
        inside = pc.and_(inside, pc.less(found, value(kind, part.high)))
    return pc.or_(pc.fill_null(inside, fill_value=False), pc.is_null(found)) if part.nulls else inside


def partition_names(rows: pa.Table, grouping: Grouping, schema: Schema) -> Any:
    """The bucket of each row, such that `grouping.coarse` knows it; NULL where the column is NULL."""
    if grouping.column is None:
        return pa.array([""] * rows.num_rows, pa.string())
    by = column(schema, grouping.column)
    match grouping:
        case Steps(width=width):
            numbers = (None if each is None else int(each) for each in rows[by.name].to_pylist())
            return pa.array([None if each is None else str(each // width * width) for each in numbers], pa.string())
        case Ranges(cuts=cuts):
            edges = [value(by.type, cut).as_py() for cut in cuts]
            names = ("", *cuts)
            found = rows[by.name].to_pylist()
            return pa.array([None if each is None else names[bisect_right(edges, each)] for each in found], pa.string())
        case Periods(period=period):
            return pc.utf8_slice_codeunits(_texts(rows, by), 0, CHARACTERS[period])
        case Prefixes(length=length):
            return pc.utf8_slice_codeunits(rows[by.name], 0, length)
    raise InternalError("a grouping with a column that it does not use")


def bucket_names(rows: pa.Table, key: Sequence[Column], covered: Sequence[Column], count: int) -> Any:
    """The bucket of each row among `count`, as every engine names it."""
    if len(key) == 1 and key[0].type.kind is Kind.INTEGER:
        numbers = (each or 0 for each in rows[key[0].name].to_pylist())
        # As SQL divides: the remainder has the sign of the number.
        return pa.array([str(each % count if each >= 0 else -(-each % count)) for each in numbers], pa.string())
    last = canonical_text.digests(key or covered, rows)[3::4]
    return pa.array([str(each % count) for each in last], pa.string())


def ranges(rows: pa.Table, key: Column, width: int) -> tuple[Any, Any]:
    """The name of the range of integers that each key lies in, and the key's distance from it."""
    found = rows[key.name].to_pylist()
    rest = [None if each is None else (each % width if each >= 0 else -(-each % width)) for each in found]
    names = [str(None if each is None else each - over) for each, over in zip(found, rest, strict=True) if True]
    return pa.array(names, pa.string()), pa.array([over or 0 for over in rest], pa.int64())


def named(rows: pa.Table, key: Sequence[Column], covered: Sequence[Column], spread: Buckets) -> pa.Table:
    if spread.within is None:
        return rows
    if spread.width is not None:
        found, _ = ranges(rows, key[0], spread.width)
    else:
        found = bucket_names(rows, key, covered, spread.among)
    return rows.filter(pc.is_in(found, pa.array(spread.within, pa.string())))


def _texts(rows: pa.Table, by: Column) -> Any:
    """A column's canonical texts, which hold nothing that a row's text would escape; NULL stays NULL."""
    present = pc.is_valid(rows[by.name])
    return pc.if_else(
        present, pa.array(canonical_text.row_texts([by], rows), pa.string()), pa.scalar(None, pa.string())
    )
