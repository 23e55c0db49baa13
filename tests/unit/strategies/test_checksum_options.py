"""Which options, columns and sizes of partitions the checksum strategy takes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidegate.core.grouping import Period, Periods, Prefixes, Steps, Whole
from tidegate.errors import ColumnMissing, PlanError, TidegateError
from tidegate.strategies.checksum import Checksum, Method, size_advice
from unit.strategies.partitions import BY_DAY, lake


def test_partitions_that_are_too_large_or_too_small() -> None:
    days = Periods(column="day", period=Period.DAY)
    assert size_advice(days, [2_000_000, 0]) == ()
    assert "set period: hour" in size_advice(days, [11_000_000, 5])[0]
    assert "set period: week" in size_advice(days, [100] * 101)[0]
    assert size_advice(days, [100] * 100) == (), "few and small is a small table"
    assert "set modulus: 2000000" in size_advice(Steps(column="id", width=1000), [1000] * 101)[0]
    assert "set modulus: 454545" in size_advice(Steps(column="id", width=1_000_000), [11_000_000])[0]
    assert "set length: 3" in size_advice(Prefixes(column="code", length=2), [11_000_000])[0]
    assert "set length: 1" in size_advice(Prefixes(column="code", length=2), [9] * 101)[0]
    assert "spreads the rows less" in size_advice(Prefixes(column="code", length=1), [9] * 101)[0]
    assert "method: by_integer or by_date" in size_advice(Whole(), [11_000_000])[0]
    assert "method: by_integer" in size_advice(Periods(column="at", period=Period.HOUR), [11_000_000])[0]
    assert "spreads the rows less" in size_advice(Periods(column="at", period=Period.YEAR), [9] * 101)[0]


@pytest.mark.parametrize(
    ("strategy", "remedy"),
    [
        (Checksum(max_rows=8), "Set method: by_integer or by_date"),
        (Checksum(method=Method.BY_INTEGER, column="id", modulus=100, max_rows=8), "Set modulus: 44"),
        (Checksum(method=Method.BY_DATE, column="day", period=Period.MONTH, max_rows=7), "Set period: week"),
        (Checksum(method=Method.BY_SUBSTR, column="code", length=1, max_rows=7), "Set length: 2"),
    ],
)
def test_a_partition_above_the_limit_is_refused(strategy: Checksum, remedy: str) -> None:
    with pytest.raises(PlanError, match="more than max_rows") as refused:
        lake(strategy).detect()
    assert refused.value.hint.startswith(remedy)
    assert "raise `max_rows:`" in refused.value.hint
    assert lake(replace(strategy, max_rows=9)).detect() is not None


@pytest.mark.parametrize(
    ("strategy", "error", "told"),
    [
        (replace(BY_DAY, column="dya"), ColumnMissing, "no column 'dya'; it has id, day"),
        (replace(BY_DAY, column="code"), PlanError, "code is string, not a date"),
        (replace(BY_DAY, column="weight"), PlanError, "weight is float8, which no fingerprint covers"),
        (replace(BY_DAY, period=Period.HOUR), PlanError, "no hours"),
        (replace(BY_DAY, lookback="20250313"), PlanError, "is in the future"),
        (Checksum(method=Method.BY_INTEGER, column="code", modulus=1), PlanError, "not an integer"),
        (Checksum(method=Method.BY_SUBSTR, column="day", length=1), PlanError, "not a string"),
    ],
)
def test_columns_and_days_that_cannot_be(strategy: Checksum, error: type[TidegateError], told: str) -> None:
    one = lake(strategy)
    with pytest.raises(error, match=told) as refused:
        one.detect()
    assert refused.value.hint
    assert one.table.asked == [], "nothing was asked of a source that nothing can be asked of"


@pytest.mark.parametrize(
    ("strategy", "told"),
    [
        (Checksum(), None),
        (BY_DAY, None),
        (replace(BY_DAY, lookback="LAST_1_DAY"), None),
        (replace(BY_DAY, lookback="LAST_12_MONTHS"), None),
        (Checksum(method=Method.BY_INTEGER, column="id"), "needs modulus:"),
        (Checksum(method=Method.BY_INTEGER, modulus=1), "needs column:"),
        (Checksum(method=Method.BY_INTEGER, column="id", modulus=0), "modulus must be 1 or more, got 0"),
        (Checksum(method=Method.BY_INTEGER, column="id", modulus=-1), "modulus must be 1 or more, got -1"),
        (Checksum(method=Method.BY_INTEGER, column="id", modulus=2**63), "modulus must be 9223372036854775807 or less"),
        (Checksum(method=Method.BY_SUBSTR, column="code", length=0), "length must be 1 or more"),
        (Checksum(max_rows=0), "max_rows must be 1 or more"),
        (Checksum(column="id"), "whole_table has no column:"),
        (replace(BY_DAY, modulus=3), "by_date has no modulus:"),
        (replace(BY_DAY, length=3), "by_date has no length:"),
        (Checksum(method=Method.BY_INTEGER, column="id", modulus=1, period=Period.DAY), "by_integer has no period:"),
        (Checksum(lookback="LAST_7_DAYS"), "needs method: by_date"),
        (replace(BY_DAY, lookback="LAST_0_DAYS"), "neither a day YYYYMMDD nor LAST_n_DAYS"),
        (replace(BY_DAY, lookback="last_7_days"), "neither a day"),
        (replace(BY_DAY, lookback="LAST_7_YEARS"), "neither a day"),
        (replace(BY_DAY, lookback="LAST_7_DAYS\n"), "neither a day"),
        (replace(BY_DAY, lookback="20250230"), "neither a day"),
        (replace(BY_DAY, lookback="2025-03-01"), "neither a day"),
        (replace(BY_DAY, lookback="00000101"), "neither a day"),
        (replace(BY_DAY, lookback="٢٠٢٥٠٣٠١"), "neither a day"),
        (replace(BY_DAY, lookback=""), "neither a day"),
    ],
)
def test_options(strategy: Checksum, told: str | None) -> None:
    found = strategy.problems()
    assert found == () if told is None else any(told in problem for problem in found)
