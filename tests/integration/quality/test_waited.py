"""When rows took effect that waited, and what ends them: not the load that found them gone where a version follows."""

from __future__ import annotations

from datetime import datetime

import pytest

from tidegate.core.schema import BIGINT, TIMESTAMP, TIMESTAMPTZ, Type
from tidegate.spark.dataframe_ops import DELETED, MOMENT
from tidegate.writers.scd2.writer import QuarantinedVersions

pytestmark = pytest.mark.spark
READ, GONE_AT, READ_LATER = (datetime.fromisoformat(f"2026-01-0{day}") for day in (1, 2, 3))


def at(minute):
    return datetime.fromisoformat(f"2025-01-01 12:{minute:02}")


def changes(spark, kind: Type, cases, *, stated="moment"):
    """Of each case what becomes of rows that waited, (moment, read, ended), beside stored versions of their key."""
    waited = QuarantinedVersions(
        key=("id",),
        stated=stated,
        type=kind,
        at="read",
        ended="ended",
        valid_from="valid_from",
        valid_to="valid_to",
        current="valid_to IS NULL",
    )
    waiting = [(name, *row) for name, (rows, _, _) in cases.items() for row in rows]
    stored = [(name, *row) for name, (_, rows, _) in cases.items() for row in rows]
    found = waited.changes(
        spark.createDataFrame(waiting, f"id string, moment {kind.spark}, read timestamp, ended timestamp"),
        spark.createDataFrame(stored, f"id string, valid_from {kind.spark}, valid_to {kind.spark}"),
        ["id"],
    )
    told = {name: [] for name in cases}
    for row in found.select("id", DELETED, MOMENT).collect():
        told[row["id"]].append((row[DELETED], row[MOMENT]))
    return {name: sorted(rows, key=str) for name, rows in told.items()}


def test_rows_that_state_their_moment(spark):
    gone = (at(10), READ, GONE_AT)
    cases = {
        "what a load found gone ends then": ([gone], [], [(False, at(10)), (True, GONE_AT)]),
        "a version that came back is not ended: it is older than the load that found its key gone": (
            [gone], [(at(20), None)], [(False, at(10))],
        ),
        "nor is one that has ended itself": ([gone], [(at(20), GONE_AT)], [(False, at(10))]),
        "a version before it follows nothing": ([gone], [(at(5), GONE_AT)], [(False, at(10)), (True, GONE_AT)]),
        "of several that waited the last one ends": (
            [gone, (at(20), READ, GONE_AT)], [], [(False, at(10)), (False, at(20)), (True, GONE_AT)],
        ),
        "one that was read after the end begins then": (
            [gone, (at(20), READ_LATER, None)], [], [(False, at(10)), (False, READ_LATER), (True, GONE_AT)],
        ),
    }  # fmt: skip
    assert changes(spark, TIMESTAMP, cases) == {name: expected for name, (*_, expected) in cases.items()}


def test_numbers_have_no_time_and_their_end_comes_after_all_versions(spark):
    cases = {
        "not the last": ([(10, READ, GONE_AT)], [(20, None)], [(False, 10)]),
        "the last": ([(20, READ, GONE_AT)], [(10, 20)], [(False, 20), (True, None)]),
    }
    assert changes(spark, BIGINT, cases) == {name: expected for name, (*_, expected) in cases.items()}


def test_rows_that_their_loads_date(spark):
    """A version that still held when the row was found gone holds again: the source went back, which made none."""
    row = (None, at(10), at(20))
    again, ended = [(False, at(10)), (False, at(20))], [(False, at(10)), (True, at(20))]
    cases = {
        "still current": ([row], [(at(5), None)], again),
        "ended later": ([row], [(at(5), at(30)), (at(30), None)], again),
        "ended with it": ([row], [(at(5), at(20))], ended),
        "followed": ([row], [(at(5), at(20)), (at(20), None)], [(False, at(10))]),
    }
    assert changes(spark, TIMESTAMPTZ, cases, stated=None) == {name: want for name, (*_, want) in cases.items()}
