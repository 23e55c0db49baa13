"""What every source of rows owes a load: its answers are those that plain Python computes over the same rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

import pytest

from tidegate.core.batch import Latest
from tidegate.core.bucketing import Buckets
from tidegate.core.grouping import Grouping, Period, Periods, Prefixes, Steps, Whole
from tidegate.core.ports.source import Source
from tidegate.core.schema import BIGINT, DATE, TEXT, TIMESTAMP, Column, Schema
from tidegate.core.slices import Everything, Keys, Partition, Range, Slice
from tidegate.errors import SourceMoved
from tidegate.testing.rows import Row, Rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = Schema(
    columns=(
        Column(name="id", type=BIGINT, nullable=False),
        Column(name="code", type=TEXT),
        Column(name="changed", type=TIMESTAMP),
        Column(name="day", type=DATE),
    )
)
"""The columns of the suite's rows; `id` is unique."""


def _row(number: int, code: str | None, changed: str | None, day: str | None) -> Row:
    return {
        "id": number,
        "code": code,
        "changed": datetime.fromisoformat(changed) if changed else None,
        "day": date.fromisoformat(day) if day else None,
    }


CONTENT = (
    _row(-7, "a|b", "2024-12-31 23:59:59.999999", "2024-12-31"),
    _row(0, "~N", "2025-01-01 00:00:00", "2025-01-01"),
    _row(1, "", "2025-01-01 00:00:00", "2025-01-01"),
    _row(10, "äöü 🐘", "2025-01-01 12:00:00.5", "2025-01-31"),
    _row(11, "it's\\ \\n'", "2025-01-01 13:00:00", "2025-02-01"),
    _row(99, "Zz", "2025-02-28 08:00:00.000001", "2025-04-01"),
    _row(100, None, None, None),
    _row(2**40, "abc", "2025-12-31 00:00:00", "2025-12-31"),
)
"""Texts that look like separators and escapes, ties, NULLs, and numbers on both sides of zero."""

_UPTO = "2025-01-01 12:00:00.500000"
SLICES: tuple[Slice, ...] = (
    Everything(),
    Range(cursor=("changed",), after=None, upto=_UPTO),
    Range(cursor=("changed",), after="2025-01-01 00:00:00.000000", upto="2025-12-31 00:00:00.000000", nulls=True),
    Range(cursor=("id",), after="-7", upto="10"),
    Range(cursor=("changed",), after=None, upto=None, nulls=True),
    Partition(column="id", label="0", low="0", high="100"),
    Partition(column="day", label="202501", low="2025-01-01", high="2025-02-01"),
    Partition(column="code", label="a", prefix="a", length=1),
    Partition(column="day", label="~N"),
    Partition(column="code", label="it's\\", prefix="it's\\", length=5),
    Range(cursor=("code",), after="it's\\", upto="it's\\ \\n'"),
    Keys(columns=("id",), values=(("10",), ("-7",), ("5",))),
    Keys(columns=("code",), values=(("it's\\ \\n'",), ("a|b",))),
)
GROUPINGS: tuple[Grouping, ...] = (
    Whole(),
    Steps(column="id", width=10),
    Periods(column="day", period=Period.QUARTER),
    Periods(column="changed", period=Period.WEEK),
    Periods(column="changed", period=Period.HOUR),
    Prefixes(column="code", length=1),
)
LATEST = Latest(key=("day",), order=("changed", "id"))
each_slice = pytest.mark.parametrize("part", SLICES, ids=lambda part: f"{type(part).__name__} {part.label}")

Make = Callable[[Sequence[Row]], Source[Any]]


class SourceContract:
    """The suite of a source of rows: subclass it and override the fixtures `make` and, to read rows, `spark`."""

    @pytest.fixture
    def make(self) -> Make:
        """A function that gives a source with `COLUMNS` that holds these rows; called again, the rows take their place.

        Values are those of Python: `int`, `str`, `datetime` without a zone, `date`, None for NULL.
        """
        raise NotImplementedError

    @pytest.fixture
    def reference(self) -> Rows:
        """The rows, and every answer in plain Python."""
        return Rows(schema=COLUMNS, rows=CONTENT)

    def test_its_columns_have_their_exact_types(self, make: Make) -> None:
        """In order, with the types that a table keeps."""
        with make(CONTENT).probe() as probe:
            found = [(column.name, column.type.stored) for column in probe.schema()]
        assert found == [(column.name, column.type) for column in COLUMNS]

    @each_slice
    def test_a_slice_has_these_rows(self, make: Make, reference: Rows, part: Slice) -> None:
        """Their number, their fingerprint, and the greatest cursor."""
        with make(CONTENT).probe() as probe:
            known = reference.stats(part)
            found = probe.stats(part)
            assert (found.rows, found.last, found.later) == (known.rows, known.last, known.later)
            assert probe.count(part) == known.rows
            assert probe.fingerprint(part) == reference.fingerprint(reference.among([part]))

    @each_slice
    def test_the_last_row_of_each_key_counts(self, make: Make, reference: Rows, part: Slice) -> None:
        """By the order that is asked for, NULL before everything."""
        with make(CONTENT).probe() as probe:
            kept = reference.last(reference.among([part]), LATEST)
            assert probe.count(part, latest=LATEST) == len(kept)
            assert probe.fingerprint(part, latest=LATEST) == reference.fingerprint(kept)

    @pytest.mark.parametrize("grouping", GROUPINGS, ids=str)
    def test_partitions_are_those_of_the_grouping(self, make: Make, reference: Rows, grouping: Grouping) -> None:
        """Every partition that has rows, with its fingerprint, and no other."""
        with make(CONTENT).probe() as probe:
            found = probe.partitions(grouping)
            assert dict(found) == reference.partitions(grouping, CONTENT)
            one = next(iter(found))
            assert dict(probe.partitions(grouping, only=[one])) == {one: found[one]}

    @pytest.mark.parametrize("key", [("id",), ("code", "day"), ()], ids=str)
    def test_buckets_are_those_of_every_engine(self, make: Make, reference: Rows, key: tuple[str, ...]) -> None:
        """A row lies in the same bucket wherever it is looked at; those of a multiple lie within it."""
        spread = Buckets(count=4)
        with make(CONTENT).probe() as probe:
            found = dict(probe.spread(Everything(), key, spread))
            assert found == reference.spread(CONTENT, key, spread)
            finer = replace(spread, count=8, within=tuple(found)[:1], among=4)
            wanted = list(reference.in_buckets(Everything(), key, finer))
            assert dict(probe.spread(Everything(), key, finer)) == reference.spread(wanted, key, finer)
            part = SLICES[1]
            digests = probe.digests(part, key, finer)
            assert sorted(digests, key=repr) == sorted(reference.digests(part, key, finer, None), key=repr)

    @each_slice
    def test_bounds_of_a_key_hold_every_row(self, make: Make, reference: Rows, part: Slice) -> None:
        """The bounds may be wider than needed, never narrower."""
        with make(CONTENT).probe() as probe:
            bound = probe.key_bounds(part, "id")
            held = reference.among([part])
            assert (bound is None) == (not held) or bound is None
            assert bound is None or all(reference.within(bound, row) for row in held)

    def test_every_answer_is_of_one_moment(self, make: Make, reference: Rows) -> None:
        """What changes while the probe is open is not seen, or `verify_unchanged` refuses it."""
        with make(CONTENT).probe() as probe:
            before = probe.fingerprint(Everything())
            make(CONTENT[:3])
            try:
                probe.verify_unchanged()
            except SourceMoved:
                return
            assert probe.has_snapshot()
            assert probe.fingerprint(Everything()) == before == reference.fingerprint(CONTENT)

    def test_it_stays_the_same_source(self, make: Make) -> None:
        """Its identity does not depend on its rows, its clock does not go back, and its version tells rows apart."""
        with make(CONTENT).probe() as probe:
            first = (probe.identity(), probe.clock() or 0, probe.version())
        with make(CONTENT[1:]).probe() as probe:
            second = (probe.identity(), probe.clock() or 0, probe.version())
        assert first[0] == second[0]
        assert first[1] <= second[1]
        assert first[2] is None or first[2] != second[2]

    def test_only_what_is_guaranteed_is_unique(self, make: Make) -> None:
        """A column with ties or NULLs is not; the key may be."""
        with make(CONTENT).probe() as probe:
            assert not probe.unique(("day",))
            assert not probe.unique(("code",))
            assert probe.unique(("id",)) in (True, False)

    @each_slice
    def test_the_rows_of_a_slice_are_read(self, make: Make, reference: Rows, spark: SparkSession, part: Slice) -> None:
        """The columns in order, with their stored types, and every value exactly."""
        source = make(CONTENT)
        with source.probe() as probe:
            schema = probe.schema()
            rows = source.read(spark, probe, [part], schema)
            assert [(name, kind) for name, kind in rows.dtypes] == [
                (column.name, column.type.stored.spark) for column in schema
            ]
            found: list[dict[str, Any]] = rows.toArrow().to_pylist()
        assert sorted(map(repr, found)) == sorted(repr(dict(row)) for row in reference.among([part]))
