"""When rows took effect that waited, and what ends them: not the load that found them gone where a version follows."""

from __future__ import annotations

from datetime import datetime

import pytest

from tidegate.core.schema import BIGINT, TIMESTAMP, TIMESTAMPTZ
from tidegate.spark.dataframe_ops import DELETED, MOMENT
from tidegate.writers.scd2.quarantined import QuarantinedVersions

pytestmark = pytest.mark.spark
READ, GONE_AT, READ_LATER = (datetime.fromisoformat(f"2026-01-0{day}") for day in (1, 2, 3))


def at(minute):
    return datetime.fromisoformat(f"2025-01-01 12:{minute:02}")


def changes(spark, waiting, stored, *, number=False, stated="moment"):
    """What becomes of rows that waited, given as (at, read, ended), beside versions of the same key."""
    kind = "bigint" if number else "timestamp_ntz" if stated else "timestamp"
    rows = [(1, *row) for row in waiting]
    waited = QuarantinedVersions(
        key=("id",),
        stated=stated,
        type=BIGINT if number else TIMESTAMP if stated else TIMESTAMPTZ,
        at="read",
        ended="ended",
        valid_from="valid_from",
        valid_to="valid_to",
        current="valid_to IS NULL",
    )
    found = waited.changes(
        spark.createDataFrame(rows, f"id int, moment {kind}, read timestamp, ended timestamp"),
        spark.createDataFrame([(1, *row) for row in stored], f"id int, valid_from {kind}, valid_to {kind}"),
        ["id"],
    )
    return sorted(((row[DELETED], row[MOMENT]) for row in found.selectExpr(DELETED, MOMENT).collect()), key=str)


def test_what_a_load_found_gone_ends_then(spark):
    assert changes(spark, [(at(10), READ, GONE_AT)], []) == [(False, at(10)), (True, GONE_AT)]


def test_a_version_that_came_back_is_not_ended(spark):
    """It says of itself that it is older than the load which found its key gone."""
    assert changes(spark, [(at(10), READ, GONE_AT)], [(at(20), None)]) == [(False, at(10))]


def test_nor_is_one_that_has_ended_itself(spark):
    assert changes(spark, [(at(10), READ, GONE_AT)], [(at(20), GONE_AT)]) == [(False, at(10))]


def test_a_version_before_it_follows_nothing(spark):
    found = changes(spark, [(at(10), READ, GONE_AT)], [(at(5), GONE_AT)])
    assert found == [(False, at(10)), (True, GONE_AT)]


def test_of_several_that_waited_the_last_one_ends(spark):
    found = changes(spark, [(at(10), READ, GONE_AT), (at(20), READ, GONE_AT)], [])
    assert found == [(False, at(10)), (False, at(20)), (True, GONE_AT)]


def test_one_that_was_read_after_the_end_begins_then(spark):
    found = changes(spark, [(at(10), READ, GONE_AT), (at(20), READ_LATER, None)], [])
    assert found == [(False, at(10)), (False, READ_LATER), (True, GONE_AT)]


def test_numbers_have_no_time_and_their_end_comes_after_all_versions(spark):
    assert changes(spark, [(10, READ, GONE_AT)], [(20, None)], number=True) == [(False, 10)]
    found = changes(spark, [(20, READ, GONE_AT)], [(10, 20)], number=True)
    assert [row for row in found if not row[0]] == [(False, 20)]
    assert [row for row in found if row[0]] == [(True, None)]


def test_a_version_that_still_held_when_the_row_was_found_gone_holds_again(spark):
    """Loads date it: the source went back to what it had, which made no version."""
    row = (None, at(10), at(20))
    assert changes(spark, [row], [(at(5), None)], stated=None) == [(False, at(10)), (False, at(20))]
    assert changes(spark, [row], [(at(5), at(30)), (at(30), None)], stated=None) == [(False, at(10)), (False, at(20))]


def test_a_version_that_ended_with_it_does_not(spark):
    row = (None, at(10), at(20))
    assert changes(spark, [row], [(at(5), at(20))], stated=None) == [(False, at(10)), (True, at(20))]
    assert changes(spark, [row], [(at(5), at(20)), (at(20), None)], stated=None) == [(False, at(10))]
