"""Which partitions are whole files of an Iceberg table: by the transforms of every spec that it ever had."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.core.grouping import Grouping, Period, Periods, Prefixes, Ranges, Steps, Whole
from tidegate.core.ports.format import Layout
from tidegate.core.schema import BIGINT, DATE, TEXT, Column, Schema
from tidegate.formats.iceberg import ddl
from tidegate.formats.iceberg.partitions import WIDEST, aligned, partition_by

FIELDS = {"id": 1, "d": 2, "code": 3, "other": 4}


def table(*specs: list[tuple[str, str]], renamed: dict[str, str] | None = None) -> dict[str, Any]:
    """Metadata with these specs of (transform, column)."""
    fields = [{"id": number, "name": name} for name, number in FIELDS.items()]
    schemas = [{"schema-id": 0, "fields": fields}]
    if renamed:
        now = [{**field, "name": renamed.get(str(field["name"]), field["name"])} for field in fields]
        schemas.append({"schema-id": 1, "fields": now})
    return {
        "schemas": schemas,
        "partition-specs": [
            {
                "spec-id": number,
                "fields": [{"source-id": FIELDS[column], "transform": transform} for transform, column in spec],
            }
            for number, spec in enumerate(specs)
        ],
    }


def by(period: Period) -> Periods:
    return Periods(column="d", period=period)


TRANSFORMS = ["hour", "day", "month", "year", "identity", "void", "bucket[16]", "truncate[4]"]


@pytest.mark.parametrize(
    ("period", "whole"),
    [
        (Period.HOUR, {"hour"}),
        (Period.DAY, {"hour", "day", "identity"}),
        (Period.WEEK, {"hour", "day", "identity"}),
        (Period.MONTH, {"hour", "day", "month", "identity"}),
        (Period.QUARTER, {"hour", "day", "month", "identity"}),
        (Period.YEAR, {"hour", "day", "month", "year", "identity"}),
    ],
)
def test_periods_are_whole_files_of_finer_ones(period: Period, whole: set[str]) -> None:
    assert {each for each in TRANSFORMS if aligned(table([(each, "d")]), by(period))} == whole


def ranges(column: str, *cuts: str) -> Ranges:
    return Ranges(column=column, cuts=cuts)


def test_ranges_are_whole_files_of_what_they_are_made_of() -> None:
    months, odd = ranges("d", "2025-01-01", "2025-02-01"), ranges("d", "2025-01-01 00:30:00.000000")
    whole = {"hour", "day", "month", "identity"}
    assert {each for each in TRANSFORMS if aligned(table([(each, "d")]), months)} == whole
    assert not any(aligned(table([(each, "d")]), odd) for each in TRANSFORMS)
    thousands = ranges("id", "0", "1000", "3000")
    wanted = {"truncate[1000]": True, "truncate[500]": True, "truncate[2000]": False, "identity": True, "day": False}
    assert {each: aligned(table([(each, "id")]), thousands) for each in wanted} == wanted


CUTS = {f"truncate[{width}]" for width in (1, 2, 3, 4, 100)} | {"identity", "bucket[3]", "bucket[100]", "void", "day"}


@pytest.mark.parametrize(
    ("grouping", "widths"),
    [
        (Steps(column="id", width=100), (1, 2, 4, 100)),
        (Steps(column="id", width=300), (1, 2, 3, 4, 100)),
        (Steps(column="id", width=150), (1, 2, 3)),
        (Steps(column="id", width=7), (1,)),
        (Prefixes(column="code", length=3), (3, 4, 100)),
    ],
)
def test_steps_are_whole_files_of_their_divisors_and_prefixes_of_longer_ones(grouping, widths) -> None:
    whole = {each for each in CUTS if aligned(table([(each, grouping.column)]), grouping)}
    assert whole == {"identity", *(f"truncate[{width}]" for width in widths)}


def test_every_spec_counts_for_files_of_old_ones_may_be_left() -> None:
    day = [("day", "d")]
    assert aligned(table(day, [("hour", "d")]), by(Period.DAY))
    assert not aligned(table([], day), by(Period.DAY)), "the table was made without partitions"
    assert not aligned(table(day, []), by(Period.DAY)), "it has none any more"
    assert not aligned(table([("month", "d")], day), by(Period.DAY))
    assert not aligned({"schemas": [], "partition-specs": []}, by(Period.DAY))
    assert not aligned({}, by(Period.DAY))


def test_other_columns_beside_it_only_divide_further() -> None:
    assert aligned(table([("bucket[4]", "id"), ("day", "d")]), by(Period.DAY))
    assert not aligned(table([("day", "other")]), by(Period.DAY))


def test_a_renamed_column_is_the_one_it_is_now() -> None:
    raw = table([("day", "d")], renamed={"d": "day", "other": "d"})
    assert not aligned(raw, by(Period.DAY)), "another column has that name now"
    assert aligned(raw, Periods(column="day", period=Period.DAY))


def test_the_whole_table_is_whole_files() -> None:
    assert aligned({}, Whole())
    assert partition_by(Whole()) == ()


@pytest.mark.parametrize(
    ("grouping", "wanted"),
    [
        (by(Period.HOUR), ("hours(d)",)),
        (by(Period.DAY), ("days(d)",)),
        (by(Period.WEEK), ("days(d)",)),
        (by(Period.MONTH), ("months(d)",)),
        (by(Period.QUARTER), ("months(d)",)),
        (by(Period.YEAR), ("years(d)",)),
        (Steps(column="id", width=7), ("truncate(7, id)",)),
        (Steps(column="id", width=WIDEST), (f"truncate({WIDEST}, id)",)),
        (Steps(column="id", width=WIDEST + 1), ()),
        (Prefixes(column="code", length=2), ("truncate(2, code)",)),
        (ranges("d", "2024-01-01", "2025-01-01"), ("years(d)",)),
        (ranges("d", "2025-01-01 06:00:00.000000"), ("hours(d)",)),
        (ranges("d", "2025-01-01 00:00:00.000001"), ()),
        (ranges("d"), ()),
        (ranges("id", "0", "1000", "3000"), ("truncate(1000, id)",)),
        (ranges("id", "0", "7", "1000"), ()),
        (ranges("id", "5", "10000000"), ()),
    ],
)
def test_a_new_table_is_laid_out_by_its_partitions(grouping: Grouping, wanted: tuple[str, ...]) -> None:
    assert partition_by(grouping) == wanted
    words = {"hours": "hour", "days": "day", "months": "month", "years": "year"}
    for expression in wanted:
        word, _, rest = expression.rstrip(")").partition("(")
        number, _, column = rest.rpartition(", ")
        transform = f"truncate[{number}]" if number else words[word]
        assert aligned(table([(transform, column)]), grouping), "what is made is what is asked for"


BLANK = pytest.mark.xfail(reason="a layout's expression is read without the blanks around a name", strict=True)
NAMES = ["Order Day", "a,b", "x)", "ta`ck", "dot.ted", 'quo"te', "days(x)", "ümlaut"]


@pytest.mark.parametrize("name", [*NAMES, pytest.param(" lead", marks=BLANK)])
def test_any_name_of_a_column_can_be_laid_out_by(name: str) -> None:
    schema = Schema(columns=(Column(name=name, type=DATE), Column(name="id", type=BIGINT), Column(name="c", type=TEXT)))
    layout = Layout(partition_by=partition_by(Periods(column=name, period=Period.DAY)))
    (made,) = ddl.partitions(layout.partition_by, schema)
    assert made == f"days(`{name.replace('`', '``')}`)"
