"""Rows fall into partitions: each value into exactly one, whose label leads back to it, up to each type's ends."""

from __future__ import annotations

# ruff: noqa: DTZ001, DTZ901 - a moment of a source has no zone
from datetime import date, datetime, timedelta

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tidegate.core.grouping import CHARACTERS, NULL_LABEL, Grouping, Period, Periods, Prefixes, Ranges, Steps, Whole
from tidegate.core.schema import BIGINT, DATE, DOUBLE, INT, TEXT, TIMESTAMP, TIMESTAMPTZ, UUID, Column, Type, decimal
from tidegate.core.slices import Everything, Partition, joined

few = settings(max_examples=20, deadline=None)
LEAST, GREATEST = -(2**63), 2**63 - 1
INTEGERS = st.integers(LEAST, GREATEST)
WIDTHS = st.one_of(st.integers(1, 1000), st.integers(1, GREATEST))
MOMENTS = st.datetimes(min_value=datetime(1, 1, 1), max_value=datetime.max)
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
DAYS = [date(1, 1, 1), date(1, 1, 7), date(1, 12, 31), date(999, 2, 28), date(2000, 2, 29), date(2024, 12, 30)]
DAYS += [date(2025, 1, 1), date(9999, 12, 26), date(9999, 12, 27), date(9999, 12, 31)]


def column(kind: Type) -> Column:
    return Column(name="c", type=kind)


def grouped(grouping: Grouping, value: object, kind: Type) -> str | None:
    """The bucket of a value, as an engine that does what `_buckets.bucket` says."""
    if value is None:
        return None
    match grouping:
        case Steps(width=width):
            number = int(str(value))
            nearest = abs(number) // width * width * (1 if number >= 0 else -1)
            fine = f"{nearest}{'-' if number < nearest else ''}"
        case Periods(period=period):
            fine = canonical(value, kind)[: CHARACTERS[period]]
        case Prefixes(length=length):
            fine = str(value)[:length]
        case Ranges(cuts=cuts):
            read = int if isinstance(value, int) else str
            fine = [cut for cut in ("", *cuts) if not cut or read(cut) <= read(canonical(value, kind))][-1]
        case _:
            fine = ""
    return grouping.coarse(fine)


def canonical(value: object, kind: Type) -> str:
    if isinstance(value, datetime):
        return value.date().isoformat() if kind == DATE else value.isoformat(" ", "microseconds")
    return str(value)


def holds(part: Partition, value: object, kind: Type) -> bool:
    """What `Partition` says of itself, in plain Python."""
    if value is None or part.of_null:
        return value is None and part.of_null
    if part.prefix is not None:
        return str(value)[: part.length] == part.prefix
    read = int if kind.kind in (BIGINT.kind, decimal(1, 0).kind) else str
    mine = read(canonical(value, kind))
    return read(part.low or "") <= mine and (part.high is None or mine < read(part.high))


def parts_of(grouping: Grouping, values: list, kind: Type) -> list[Partition]:
    found = {part.label: part for value in values for part in [partition(grouping, value, kind)]}
    return list(found.values())


def partition(grouping: Grouping, value: object, kind: Type) -> Partition:
    part = grouping.part(grouped(grouping, value, kind), column(kind))
    assert isinstance(part, Partition)
    return part


def check(grouping: Grouping, values: list, kind: Type) -> None:
    """Each value lies in its partition and in no other; labels lead back; joining covers the same."""
    parts = parts_of(grouping, values, kind)
    for value in values:
        bucket, mine = grouped(grouping, value, kind), partition(grouping, value, kind)
        assert grouping.bucket(mine.label) == bucket
        assert grouping.part(grouping.bucket(mine.label), column(kind)) == mine
        assert [part.label for part in parts if holds(part, value, kind)] == [mine.label]
        assert sum(holds(part, value, kind) for part in joined(parts)) == 1
    some = parts[::2]
    for value in values:
        assert any(holds(p, value, kind) for p in some) == any(holds(p, value, kind) for p in joined(some))


@few
@given(st.lists(st.none() | INTEGERS, min_size=1, max_size=6), WIDTHS)
@example([LEAST, LEAST + 1, -1, 0, 1, GREATEST - 1, GREATEST, None], 1)
@example([LEAST, LEAST + 807, LEAST + 808, -1, 0, 1, GREATEST - 1, GREATEST, None], 1000)
@example([LEAST, -1, 0, GREATEST], GREATEST)
def test_whole_numbers_of_64_bits(values: list[int | None], width: int) -> None:
    check(Steps(column="c", width=width), values, BIGINT)
    for part in parts_of(Steps(column="c", width=width), values, BIGINT):
        for bound in (part.low, part.high):
            assert bound is None or LEAST <= int(bound) <= GREATEST, "no column could be compared with it"


@few
@given(st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=6), WIDTHS)
@example([-(2**31), 2**31 - 1], 1000)
def test_whole_numbers_of_32_bits(values: list[int], width: int) -> None:
    check(Steps(column="c", width=width), values, INT)
    for part in parts_of(Steps(column="c", width=width), values, INT):
        for bound in (part.low, part.high):
            assert bound is None or -(2**31) <= int(bound) < 2**31


@few
@given(st.lists(st.integers(-(10**20) + 1, 10**20 - 1), min_size=1, max_size=6), WIDTHS)
@example([2**63, 10**19, 10**20 - 1, -(10**20) + 1], 1000)
def test_decimals_beyond_64_bits(values: list[int], width: int) -> None:
    check(Steps(column="c", width=width), values, decimal(20, 0))
    for part in parts_of(Steps(column="c", width=width), values, decimal(20, 0)):
        for bound in (part.low, part.high):
            assert bound is None or abs(int(bound)) < 10**20


def test_a_bucket_of_a_free_decimal() -> None:
    steps = Steps(column="c", width=1000)
    assert [steps.coarse(text) for text in ("0.0", "-1000.0", "-1000.0-", "0.0-")] == ["0", "-1000", "-2000", "-1000"]
    assert steps.coarse(None) is None


@pytest.mark.parametrize("period", Period)
@pytest.mark.parametrize("kind", [DATE, TIMESTAMP, TIMESTAMPTZ])
@few
@given(values=st.lists(st.none() | MOMENTS, min_size=1, max_size=6))
@example(values=[datetime(day.year, day.month, day.day, hour) for day in DAYS for hour in (0, 23)])
@example(values=[datetime(9999, 12, 31, 23, 59, 59, 999999), datetime(1, 1, 1), None])
def test_periods(period: Period, kind: Type, values: list[datetime | None]) -> None:
    if kind == DATE and period is Period.HOUR:
        return
    check(Periods(column="c", period=period), values, kind)


@few
@given(MOMENTS, st.sampled_from(Period))
def test_a_period_starts_where_its_partition_does(moment: datetime, period: Period) -> None:
    periods = Periods(column="c", period=period)
    part = partition(periods, moment, TIMESTAMP)
    assert part.low == periods.start(moment).isoformat(" ", "microseconds")
    if part.high is not None:
        before = datetime.fromisoformat(part.high) - timedelta(microseconds=1)
        assert partition(periods, before, TIMESTAMP) == part


@pytest.mark.parametrize(
    ("period", "value", "label", "low", "high"),
    [
        (Period.HOUR, datetime(2025, 3, 9, 7, 59), "2025030907", "2025-03-09 07:00:00.000000", "2025-03-09 08"),
        (Period.HOUR, datetime(7, 3, 9, 7), "0007030907", "0007-03-09 07:00:00.000000", "0007-03-09 08"),
        (Period.HOUR, datetime(9999, 12, 31, 23), "9999123123", "9999-12-31 23:00:00.000000", None),
        (Period.DAY, datetime(2024, 2, 29), "20240229", "2024-02-29", "2024-03-01"),
        (Period.DAY, datetime(1, 1, 1), "00010101", "0001-01-01", "0001-01-02"),
        (Period.DAY, datetime(9999, 12, 31), "99991231", "9999-12-31", None),
        (Period.WEEK, datetime(2025, 1, 1), "20241230", "2024-12-30", "2025-01-06"),
        (Period.WEEK, datetime(2025, 1, 5), "20241230", "2024-12-30", "2025-01-06"),
        (Period.WEEK, datetime(2025, 1, 6), "20250106", "2025-01-06", "2025-01-13"),
        (Period.WEEK, datetime(1, 1, 3), "00010101", "0001-01-01", "0001-01-08"),
        (Period.WEEK, datetime(9999, 12, 31), "99991227", "9999-12-27", None),
        (Period.MONTH, datetime(2024, 12, 31), "202412", "2024-12-01", "2025-01-01"),
        (Period.MONTH, datetime(9999, 12, 1), "999912", "9999-12-01", None),
        (Period.QUARTER, datetime(2025, 3, 31), "2025Q1", "2025-01-01", "2025-04-01"),
        (Period.QUARTER, datetime(2025, 12, 31), "2025Q4", "2025-10-01", "2026-01-01"),
        (Period.QUARTER, datetime(9999, 10, 1), "9999Q4", "9999-10-01", None),
        (Period.YEAR, datetime(2024, 2, 29), "2024", "2024-01-01", "2025-01-01"),
        (Period.YEAR, datetime(1, 5, 5), "0001", "0001-01-01", "0002-01-01"),
        (Period.YEAR, datetime(9999, 5, 5), "9999", "9999-01-01", None),
    ],
)
def test_bounds_of_periods(period: Period, value: datetime, label: str, low: str, high: str | None) -> None:
    kind = TIMESTAMP if period is Period.HOUR else DATE
    part = partition(Periods(column="c", period=period), value, kind)
    whole = high if high is None or kind == DATE else f"{high}:00:00.000000"
    assert part == Partition(column="c", label=label, low=low, high=whole)


@few
@given(st.lists(st.none() | TEXTS, min_size=1, max_size=6), st.integers(1, 6))
@example(["~", "~0", "~N", "", "~0N", None, "~~N", "N"], 1)
@example(["~", "~0", "~N", "", "~0N", None, "~~N", "a\u0308bc", "🚲🚲🚲"], 2)
def test_prefixes(values: list[str | None], length: int) -> None:
    check(Prefixes(column="c", length=length), values, TEXT)
    labels = {
        partition(Prefixes(column="c", length=length), value, TEXT).label for value in values if value is not None
    }
    assert NULL_LABEL not in labels


@few
@given(st.lists(st.none() | INTEGERS, min_size=1, max_size=6), st.sets(INTEGERS, max_size=5))
@example([LEAST, -1, 0, GREATEST, None], {LEAST, 0, GREATEST})
def test_ranges_of_numbers(values: list[int | None], cuts: set[int]) -> None:
    check(Ranges(column="c", cuts=tuple(map(str, sorted(cuts)))), values, BIGINT)


@few
@given(
    st.lists(st.none() | MOMENTS, min_size=1, max_size=6),
    st.sets(MOMENTS, max_size=5),
    st.sampled_from([DATE, TIMESTAMP, TIMESTAMPTZ]),
)
@example([datetime(1, 1, 1), datetime.max, None], {datetime(1, 1, 1)}, TIMESTAMP)
def test_ranges_of_times(values: list[datetime | None], cuts: set[datetime], kind: Type) -> None:
    texts = sorted({canonical(cut, kind) for cut in cuts})
    check(Ranges(column="c", cuts=tuple(texts)), values, kind)


@pytest.mark.parametrize(
    ("cuts", "period", "step"),
    [
        (("2024-01-01", "2025-01-01"), Period.YEAR, None),
        (("2024-02-01", "2025-01-01"), Period.MONTH, None),
        (("2024-02-02",), Period.DAY, None),
        (("2024-01-01 00:00:00.000000", "2024-02-01 00:00:00.000000"), Period.MONTH, None),
        (("2024-01-01 06:00:00.000000", "2024-02-01 00:00:00.000000"), Period.HOUR, None),
        (("2024-01-01 06:30:00.000000",), None, None),
        (("0", "1000", "2500"), None, 500),
        (("-7", "0"), None, 7),
        (("0",), None, None),
    ],
)
def test_of_what_ranges_are_made(cuts: tuple[str, ...], period: Period | None, step: int | None) -> None:
    ranges = Ranges(column="c", cuts=cuts)
    assert (ranges.period, ranges.step) == (period, step)


def test_the_whole_table() -> None:
    whole = Whole()
    part = whole.part(whole.coarse(""), None)
    assert part == Everything()
    assert whole.bucket(part.label) == ""
    assert whole.incompatibility(None) is None
    assert joined([part]) == []


@pytest.mark.parametrize(
    ("grouping", "kind", "reason"),
    [
        (Steps(column="c", width=1), INT, None),
        (Steps(column="c", width=1), decimal(20, 0), None),
        (Steps(column="c", width=1), decimal(20, 2), "not an integer"),
        (Steps(column="c", width=1), TEXT, "not an integer"),
        (Steps(column="c", width=1), DOUBLE, "not an integer"),
        (Periods(column="c", period=Period.DAY), DATE, None),
        (Periods(column="c", period=Period.HOUR), TIMESTAMPTZ, None),
        (Periods(column="c", period=Period.HOUR), DATE, "no hours"),
        (Periods(column="c", period=Period.DAY), TEXT, "not a date"),
        (Prefixes(column="c", length=1), TEXT, None),
        (Prefixes(column="c", length=1), UUID, None),
        (Prefixes(column="c", length=1), BIGINT, "not a string"),
        (Ranges(column="c", cuts=()), INT, None),
        (Ranges(column="c", cuts=()), TIMESTAMPTZ, None),
        (Ranges(column="c", cuts=()), TEXT, "not an integer, a date or a timestamp"),
    ],
)
def test_columns_that_do_not_fit(grouping: Steps | Ranges | Periods | Prefixes, kind: Type, reason: str | None) -> None:
    found = grouping.incompatibility(column(kind))
    assert found is None if reason is None else reason in (found or "")


def test_every_kind_says_what_the_registry_keeps() -> None:
    assert Whole().to_dict() == {"type": "whole_table"}
    assert Steps(column="id", width=7).to_dict() == {"type": "by_integer", "column_name": "id", "modulus": 7}
    assert Periods(column="d", period=Period.WEEK).to_dict() == {
        "type": "by_date",
        "column_name": "d",
        "period": "week",
    }
    ranges = Ranges(column="id", cuts=("0", "9"))
    assert ranges.to_dict() == {"type": "by_range", "column_name": "id", "cuts": ["0", "9"]}
    assert Prefixes(column="t", length=2).to_dict() == {"type": "by_substr", "column_name": "t", "length": 2}


def test_joined_intervals_are_as_few_as_can_be() -> None:
    parts = [Partition(column="c", label=str(n), low=str(n * 10), high=str(n * 10 + 10)) for n in (3, -1, 0, 1, 5)]
    null = Partition(column="c", label=NULL_LABEL)
    prefix = Partition(column="c", label="a", prefix="a", length=2)
    found = joined([*parts, null, prefix, Everything()])
    assert sorted((part.low or "", part.high) for part in found) == [
        ("", None),
        ("", None),
        ("-10", "20"),
        ("30", "40"),
        ("50", "60"),
    ]
    last = Partition(column="c", label="6", low="60")
    assert [(p.low, p.high) for p in joined([last, *parts])][-1] == ("50", None)
