"""Merges of few rows into large tables, whose keys are listed, leave the same rows as a dict."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path

import pytest

from support.lake import Lake, make_delta_lake, make_lake
from tidegate.core.changes import ChangeSet
from tidegate.core.effects import Upsert
from tidegate.core.plan import Mode
from tidegate.core.schema import BIGINT, DATE, DOUBLE, INT, TEXT, TIMESTAMP, TIMESTAMPTZ, UUID, Column, Schema, decimal
from tidegate.core.slices import Everything, Keys
from tidegate.formats.iceberg import Iceberg
from tidegate.formats.shared.listed_keys import LARGE_TABLE, listed, listed_keys, worth_listing
from tidegate.formats.shared.statements import bound
from tidegate.spark import sql
from tidegate.spark.session import Sessions
from tidegate.testing.frames import frame

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]
NOON = datetime(2025, 1, 1, 12, tzinfo=UTC)
VALUES = {
    "bigint": (BIGINT, [-(2**63), -5, 0, 10, 9, 2**63 - 1]),
    "int": (INT, [-(2**31), -5, 0, 10, 9, 2**31 - 1]),
    "text": (TEXT, ["", " ", "it's", "a", "A", "ä", "\U0001f418", "${x}", "\\n", "x" * 300, "null", '"']),
    "uuid": (UUID, ["00000000-0000-0000-0000-000000000001", "ffffffff-0000-0000-0000-000000000001"]),
    "decimal": (decimal(12, 2), [Decimal("-10.00"), Decimal("-9.50"), Decimal("0.00"), Decimal("10.01"), Decimal(9)]),
    "date": (DATE, [date(1, 1, 1), date(1969, 12, 31), date(9999, 12, 31)]),
    "timestamp": (TIMESTAMP, [NOON.replace(tzinfo=None), datetime(1969, 12, 31, 23, 59, 59, 1)]),  # noqa: DTZ001
    "timestamptz": (TIMESTAMPTZ, [NOON, datetime(1969, 12, 31, 23, 59, 59, 1, tzinfo=UTC)]),
}


@pytest.fixture(
    params=[make_lake, make_delta_lake, partial(make_delta_lake, deletion_vectors=True)],
    ids=["iceberg", "delta", "vectors"],
)
def lake(request: pytest.FixtureRequest, spark, tmp_path: Path) -> Lake:
    made: Lake = request.param(
        tmp_path, lambda lake: Sessions(borrowed=spark, lakes=[lake.spark_conf()]).load_session()
    )
    return made


def planned(lake: Lake, target, rows: int | None, **changes):
    changes = {"changes": ChangeSet(slices=(Everything(),), effect=Upsert(), rows=rows), **changes}
    return lake.plan(target, Mode.MERGE_ON_READ, **changes)


@pytest.mark.parametrize("kind", VALUES)
def test_every_row_lies_within_its_own_list(spark, tmp_path, kind):
    """Whatever its type; and a list of more than 200 values has bounds beside it."""
    of, values = VALUES[kind]
    lake = make_lake(tmp_path, lambda lake: Sessions(borrowed=spark, lakes=[lake.spark_conf()]).load_session())
    schema = Schema(columns=(Column(name="k`1", type=of), Column(name="two", type=BIGINT)))
    plan = planned(lake, lake.target(), None, columns=schema, key=("k`1", "two"))
    rows = frame(lake.session, schema.columns, [{"k`1": value, "two": n} for n, value in enumerate(values * 300)])
    found = listed_keys(rows, plan, ())
    assert [(each.column, len(each.values)) for each in found] == [("k`1", len(values)), ("two", 300 * len(values))]
    within = rows.where(" AND ".join(bound(each) for each in found))
    assert within.count() == rows.count()
    others = rows.where(bound(replace(found[0], values=found[0].values[1:])))
    assert others.count() == 300 * (len(values) - 1), "and others do not"


def test_the_settings_of_the_session_come_back(spark, tmp_path):
    lake = make_lake(tmp_path, lambda lake: Sessions(borrowed=spark, lakes=[lake.spark_conf()]).load_session())
    name = "spark.sql.adaptive.enabled"
    rows = lake.session.range(100).toDF("id")
    plan = planned(lake, lake.target(), 100)
    with listed(lake.session, rows, plan, (), table_rows=LARGE_TABLE) as found:
        assert lake.session.conf.get(name) == "false"
        assert len(found[0].values) == 100
    assert lake.session.conf.get(name) == "true"
    with listed(lake.session, rows, plan, (), table_rows=LARGE_TABLE - 1) as found:
        assert found == ()


def test_keys_are_listed_where_it_pays_and_no_key_is_null(spark, tmp_path):
    lake = make_lake(tmp_path, lambda lake: Sessions(borrowed=spark, lakes=[lake.spark_conf()]).load_session())
    target = lake.target()
    assert worth_listing(planned(lake, target, 100), LARGE_TABLE)
    for rows, table_rows in ((None, LARGE_TABLE), (100_000, LARGE_TABLE), (100, None), (100, LARGE_TABLE - 1)):
        assert not worth_listing(planned(lake, target, rows), table_rows)
    nulls = ChangeSet(slices=(Keys(columns=("id",), values=(), nulls=True),), effect=Upsert(), rows=1)
    assert not worth_listing(planned(lake, target, 1, changes=nulls), LARGE_TABLE)
    other = replace(planned(lake, target, 100), columns=Schema(columns=(Column(name="id", type=DOUBLE),)))
    assert listed_keys(spark.range(3).toDF("id"), other, ()) == (), "two zeros are one key"


def test_columns_that_share_their_values_among_many_keys_are_not_listed(spark, tmp_path):
    """A list of 50 days and one of 50 shops would leave in what lies in any of the days and any of the shops."""
    lake = make_lake(tmp_path, lambda lake: Sessions(borrowed=spark, lakes=[lake.spark_conf()]).load_session())
    schema = Schema(columns=(Column(name="day", type=INT), Column(name="shop", type=BIGINT)))
    plan = planned(lake, lake.target(), 2500, columns=schema, key=("day", "shop"))
    rows = lake.session.range(2500).selectExpr("CAST(id % 50 AS int) AS day", "id div 50 AS shop")
    with listed(lake.session, rows, plan, (), table_rows=LARGE_TABLE) as found:
        assert found == ()


@pytest.mark.slow
@pytest.mark.parametrize("deletes", [False, True])
def test_a_large_table_holds_what_a_dict_holds(lake: Lake, deletes: bool):
    """Rows are updated, inserted and deleted all over the table, three times; what came is read back."""
    target, size = lake.table(), LARGE_TABLE
    plan = planned(lake, target, size)
    staging = lake.format.stage(lake.session, target, replace(plan, write=replace(plan.write, mode=Mode.APPEND)))
    staging.append(
        lake.session.range(size).selectExpr("id", "'old' AS name", "CAST(NULL AS timestamp_ntz) AS changed_at")
    )
    staging.publish()
    held = dict.fromkeys(range(size), "old")
    for turn in (1, 2, 3):
        rows = [(number, f"n{turn}", None) for number in (*range(turn, size, 500), *range(-turn * 10, 0))]
        came = lake.rows(*rows).selectExpr("*", "pmod(id, 7) = 3 AS gone" if deletes else "false AS gone")
        for number, name, _ in rows:
            if deletes and number % 7 == 3:
                held.pop(number, None)
            else:
                held[number] = name
        plan = planned(lake, target, len(rows))
        staging = lake.format.stage(lake.session, target, plan)
        staging.merge(
            came if deletes else came.drop("gone"), prune=(), skip_equal=False, delete_if="gone" if deletes else None
        )
        written = staging.written()
        staging.publish()
        assert {row["id"]: row["name"] for row in lake.oracle(target)} == held
        assert len(lake.ids(target)) == len(held)
        assert lake.format.state(target, plan.uid).position == plan.position
    if isinstance(lake.format, Iceberg) or lake.format.deletion_vectors:
        assert written is not None
        assert sorted(written["id"].to_pylist()) == sorted(n for n, _, _ in rows if held.get(n) == "n3")


def test_a_live_row_is_found_in_whichever_row_group_it_lies(spark, tmp_path):
    """The first hundred rows are deleted; one of the second hundred, at the same place of its group, is live."""
    lake = make_lake(tmp_path, lambda lake: Sessions(borrowed=spark, lakes=[lake.spark_conf()]).load_session())
    target = lake.table()
    small = "'write.parquet.row-group-size-bytes' = '1000', 'write.parquet.row-group-check-max-record-count' = '100'"
    lake.session.sql(f"ALTER TABLE {sql.table(target)} SET TBLPROPERTIES ({small})")
    lake.load(target, Mode.APPEND, *((number, "old", None) for number in range(400)))
    staging = lake.format.stage(lake.session, target, planned(lake, target, 100))
    staging.delete(lake.session.range(100).toDF("id"), prune=())
    staging.publish()

    def appended(number: int):
        staging = lake.format.stage(lake.session, target, planned(lake, target, 1))
        staging.append(lake.rows((number, "new", None)))
        found = staging.written()
        staging.discard()
        return found

    assert appended(50)["id"].to_pylist() == [50], "its old row is deleted"
    assert appended(150) is None, "its old row is live"
