"""Partitions at the ends of a type: whatever a table is partitioned by, no row is lost and none goes with another."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest

from support.lake import Lake
from tidegate.core.changes import ChangeSet
from tidegate.core.effects import Mirror, Upsert
from tidegate.core.grouping import Grouping, Period, Periods, Ranges, Steps
from tidegate.core.plan import Mode, Prune
from tidegate.core.ports.format import Layout
from tidegate.core.schema import BIGINT, DATE, INT, TEXT, TIMESTAMP, Column, Kind, Schema, Type, decimal
from tidegate.core.slices import Partition
from tidegate.dialects.spark import Spark
from tidegate.formats.shared.statements import bound

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

INTS, LONGS = 2**31, 2**63
FIRST, LAST = datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999)  # noqa: DTZ001 - a type without a zone


def rows_of(kind: Type) -> Schema:
    return Schema(columns=(Column(name="g", type=kind), Column(name="v", type=TEXT)))


def put(lake: Lake, target: Any, kind: Type, rows: Mapping[Any, str], mode: Mode, parts: Sequence[Any] = ()) -> None:
    """One load of these rows, in place of those partitions if any are named."""
    changes = ChangeSet(slices=tuple(parts), effect=Mirror() if parts else Upsert())
    plan = lake.plan(target, mode, columns=rows_of(kind), key=("g",), changes=changes)
    staging = lake.format.stage(lake.session, target, plan)
    given = [(Decimal(value) if kind.kind is Kind.DECIMAL else value, text) for value, text in rows.items()]
    frame = lake.session.createDataFrame(given, f"g {kind.stored.spark}, v string")
    if parts:
        staging.overwrite(frame, parts)
    elif mode is Mode.APPEND:
        staging.append(frame)
    else:
        staging.merge(frame, prune=bounds(kind, rows), skip_equal=False)
    staging.publish()


def bounds(kind: Type, rows: Mapping[Any, str]) -> tuple[Prune, ...]:
    return (Prune(column="g", type=kind, low=str(min(rows)), high=str(max(rows))),)


def held(lake: Lake, target: Any) -> dict[Any, str]:
    """What PyIceberg reads, key by key; a key that comes twice fails."""
    found = [(row["g"], row["v"]) for row in lake.oracle(target)]
    assert len(found) == len(dict(found)), found
    return dict(found)


def exchanged(
    lake: Lake, target: Any, kind: Type, parts: Sequence[Partition], model: dict[Any, str], inside: Any
) -> None:
    """Each partition in turn becomes what it was but for its first row; the others stay."""
    for part in parts:
        gone, *kept = sorted(value for value in model if inside(part, value))
        model |= dict.fromkeys(kept, part.label)
        del model[gone]
        whole = lake.format.aligned(target, Steps(column="g", width=1000))
        mode = Mode.OVERWRITE_PARTITIONS if whole else Mode.REPLACE_FILES
        put(lake, target, kind, {value: model[value] for value in kept}, mode, [part])
        assert held(lake, target) == model, f"partition {part.label} of {kind}"


def asked(lake: Lake, target: Any, where: str) -> set[int]:
    return {int(row.g) for row in lake.session.sql(f"SELECT g FROM {lake.sql_name(target)} WHERE {where}").collect()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "values"),
    [
        pytest.param(INT, [-INTS, -INTS + 1, -INTS + 648, -INTS + 700, -1000, -1, 0, INTS - 2, INTS - 1], id="int"),
        pytest.param(INT, [-INTS + 648, -INTS + 700, -1000, -1, 0, INTS - 2, INTS - 1], id="int-above-the-least-step"),
        pytest.param(BIGINT, [-LONGS, -LONGS + 1, -LONGS + 900, -1, 0, LONGS - 2, LONGS - 1], id="bigint"),
        pytest.param(decimal(4, 0), [-9999, -9998, -1, 0, 1, 9998, 9999], id="decimal"),
    ],
)
def test_steps_of_numbers(lake: Lake, kind: Type, values: list[int]) -> None:
    steps, column = Steps(column="g", width=1000), Column(name="g", type=kind)
    target = lake.table(rows_of(kind), Layout(partition_by=lake.format.partition_by(steps)))
    put(lake, target, kind, dict.fromkeys(values[2:], "a"), Mode.APPEND)
    assert lake.format.aligned(target, steps)
    put(lake, target, kind, dict.fromkeys(values[:2], "b"), Mode.MERGE_ON_READ)
    put(lake, target, kind, dict.fromkeys(values[1:3], "c"), Mode.MERGE_ON_READ)
    put(lake, target, kind, {values[0]: "d", values[-1]: "d"}, Mode.COPY_ON_WRITE)
    model = dict.fromkeys(values, "a") | {values[0]: "d", values[1]: "c", values[2]: "c", values[-1]: "d"}
    assert held(lake, target) == model

    parts = {value: steps.part(str(value // 1000 * 1000), column) for value in values}
    for value, part in parts.items():
        assert asked(lake, target, Spark().among([part], rows_of(kind))) == {
            each for each in values if each // 1000 == value // 1000
        }
    for low, high in itertools.combinations_with_replacement(values, 2):
        within = {each for each in values if low <= each <= high}
        assert asked(lake, target, bound(Prune(column="g", type=kind, low=str(low), high=str(high)))) >= within
    for value in values:
        above, below = (Spark().compared("g", sign, kind, str(value)) for sign in (">", "<"))
        assert asked(lake, target, above) == {each for each in values if each > value}
        assert asked(lake, target, below) == {each for each in values if each < value}

    ends = [parts[max(values)], parts[min(values)]]
    exchanged(lake, target, kind, ends, model, lambda part, value: value // 1000 == int(part.label))


def test_the_lowest_range_of_a_table_that_is_kept_in_ranges(lake: Lake) -> None:
    ranges: Grouping = Ranges(column="g", cuts=("-1000", "0", "3000"))
    column = Column(name="g", type=INT)
    target = lake.table(rows_of(INT), Layout(partition_by=lake.format.partition_by(ranges)))
    model = dict.fromkeys([-5000, -4000, -900, -1, 0, 7, 3000, INTS - 1], "a")
    put(lake, target, INT, model, Mode.APPEND)
    lowest = ranges.part("", column)
    put(lake, target, INT, {-4000: "b", -3500: "b"}, Mode.OVERWRITE_PARTITIONS, [lowest])
    model |= {-4000: "b", -3500: "b"}
    del model[-5000]
    assert held(lake, target) == model
    put(lake, target, INT, {}, Mode.OVERWRITE_PARTITIONS, [lowest])
    assert held(lake, target) == {value: text for value, text in model.items() if value >= -1000}
    put(lake, target, INT, {-INTS: "c", -2000: "c"}, Mode.OVERWRITE_PARTITIONS, [lowest])
    put(lake, target, INT, {}, Mode.REPLACE_FILES, [ranges.part("3000", column)])
    wanted = {value: text for value, text in model.items() if -1000 <= value < 3000} | {-INTS: "c", -2000: "c"}
    assert held(lake, target) == wanted
    assert lake.format.layout_differs(target, lake.format.partition_by(ranges)) is None


@pytest.mark.parametrize("period", [Period.HOUR, Period.DAY, Period.MONTH, Period.YEAR])
def test_periods_of_times(lake: Lake, period: Period) -> None:
    periods, column = Periods(column="g", period=period), Column(name="g", type=TIMESTAMP)
    target = lake.table(rows_of(TIMESTAMP), Layout(partition_by=lake.format.partition_by(periods)))
    edges = [FIRST, datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(1970, 1, 1), LAST]  # noqa: DTZ001 - as above
    second = [FIRST.replace(microsecond=1), datetime(1969, 12, 31, 23, 0, 0), LAST.replace(second=0)]  # noqa: DTZ001
    model = dict.fromkeys([*edges, *second], "a")
    put(lake, target, TIMESTAMP, model, Mode.APPEND)
    assert lake.format.aligned(target, periods)

    def begin(moment: datetime) -> datetime:
        return periods.start(moment)

    for edge in edges:
        text = edge.isoformat(" ", "microseconds")[: {"hour": 13, "day": 10, "month": 7, "year": 4}[period]]
        part = periods.part(text, column)
        kept = {value: "b" for value in model if begin(value) == begin(edge) and value != edge}
        put(lake, target, TIMESTAMP, kept, Mode.OVERWRITE_PARTITIONS, [part])
        model = {value: text for value, text in model.items() if begin(value) != begin(edge)} | kept
        assert held(lake, target) == model, part.label


def test_days_and_buckets(lake: Lake) -> None:
    days, column = Periods(column="g", period=Period.DAY), Column(name="g", type=DATE)
    target = lake.table(rows_of(DATE), Layout(partition_by=lake.format.partition_by(days)))
    values = [FIRST.date(), datetime(1969, 12, 31).date(), datetime(1970, 1, 1).date(), LAST.date()]  # noqa: DTZ001
    put(lake, target, DATE, dict.fromkeys(values, "a"), Mode.APPEND)
    for number, value in enumerate(values):
        put(lake, target, DATE, {}, Mode.OVERWRITE_PARTITIONS, [days.part(value.isoformat(), column)])
        assert held(lake, target) == dict.fromkeys(values[number + 1 :], "a")
    buckets = lake.table(rows_of(BIGINT), Layout(partition_by=["bucket(7, g)"]))
    numbers = [-LONGS, -LONGS + 1, -1, 0, 1, LONGS - 1]
    put(lake, buckets, BIGINT, dict.fromkeys(numbers, "a"), Mode.APPEND)
    put(lake, buckets, BIGINT, dict.fromkeys(numbers[:2], "b"), Mode.MERGE_ON_READ)
    assert held(lake, buckets) == dict.fromkeys(numbers, "a") | dict.fromkeys(numbers[:2], "b")
