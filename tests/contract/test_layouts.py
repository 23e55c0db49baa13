"""Layouts: each one that is accepted holds every value of its column, for readers that are not the engine."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from support.lake import Lake, make_delta_lake
from tidegate.core.changes import ChangeSet
from tidegate.core.effects import Upsert
from tidegate.core.plan import Mode
from tidegate.core.ports.format import Layout
from tidegate.core.schema import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    REAL,
    TEXT,
    TIMESTAMP,
    TIMESTAMPTZ,
    Column,
    Schema,
    Type,
    decimal,
)
from tidegate.errors import SchemaRefused
from tidegate.spark.session import Sessions
from tidegate.testing.frames import frame

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

LAST_SECOND = dt.datetime(1969, 12, 31, 23, 59, 59, 999999)  # noqa: DTZ001 - a type without a zone
VALUES: dict[str, tuple[Type, list[Any]]] = {
    "boolean": (BOOLEAN, [True, False, None]),
    "int": (INT, [-(2**31) + 648, -1, 0, 7, 2**31 - 1, None]),
    "bigint": (BIGINT, [-1, 0, 2**63 - 1, None]),
    "decimal": (decimal(10, 2), [Decimal("-0.01"), Decimal("0.00"), Decimal("99999999.99"), None]),
    "real": (REAL, [0.0, -0.0, 1.5, None]),
    "double": (DOUBLE, [0.0, -0.0, 1e300, float("inf"), None]),
    "date": (DATE, [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(2025, 2, 28), dt.date(9999, 12, 31), None]),
    "local": (TIMESTAMP, [dt.datetime(1, 1, 1), LAST_SECOND, dt.datetime(2025, 2, 28, 1, 2, 3, 456789), None]),  # noqa: DTZ001
    "moment": (TIMESTAMPTZ, [dt.datetime(1900, 1, 1, tzinfo=dt.UTC), LAST_SECOND.replace(tzinfo=dt.UTC), None]),
    "text": (TEXT, [" ", "a/b=c%20", "ä🐘", "x:y", "null", "it's", "line\nbreak", "A", "a", None]),
    "binary": (BINARY, [b"", b"\xff\x00", b"abc", b"/", None]),
}
PARTED = {"iceberg": set(VALUES), "delta": set(VALUES) - {"binary"}}
EXPRESSIONS = ["{}", "years({})", "months({})", "days({})", "hours({})", "bucket(4, {})", "truncate(3, {})"]
SCHEMA = Schema(
    columns=(Column(name="id", type=BIGINT), *(Column(name=name, type=kind) for name, (kind, _) in VALUES.items()))
)


@pytest.fixture
def lakes(spark: Any, lake: Lake, tmp_path: Path) -> dict[str, Lake]:
    def session(found: Any) -> Any:
        return Sessions(borrowed=spark, lakes=[found.spark_conf()]).load_session()

    return {"iceberg": lake, "delta": make_delta_lake(tmp_path / "delta", session)}


def rows() -> dict[int, dict[str, Any]]:
    """Every value of every type, each row by its number."""
    longest = max(len(values) for _, values in VALUES.values())
    return {
        number: {"id": number, **{name: values[number % len(values)] for name, (_, values) in VALUES.items()}}
        for number in range(longest)
    }


def put(lake: Lake, target: Any, mode: Mode, given: dict[int, dict[str, Any]]) -> None:
    plan = lake.plan(target, mode, columns=SCHEMA, key=("id",), changes=ChangeSet(slices=(), effect=Upsert()))
    staging = lake.format.stage(lake.session, target, plan)
    found = frame(lake.session, SCHEMA.columns, given.values())
    if mode is Mode.APPEND:
        staging.append(found)
    else:
        staging.merge(found, prune=(), skip_equal=False)
    staging.publish()


def plain(row: dict[str, Any]) -> dict[str, Any]:
    """Values by what they are: no zone, since both readers give moments in UTC, and floats with their sign."""
    return {
        name: repr(value.replace(tzinfo=None) if isinstance(value, dt.datetime) else value)
        for name, value in row.items()
    }


def holds(lake: Lake, layout: Layout) -> None:
    """A table in that layout takes every value, and gives each row another partition."""
    target, given = lake.table(SCHEMA, layout), rows()
    put(lake, target, Mode.APPEND, given)
    moved = {number: {**given[(number + 1) % len(given)], "id": number} for number in given}
    put(lake, target, Mode.MERGE_ON_READ, moved)
    found = {row["id"]: plain(row) for row in lake.oracle(target)}
    assert found == {number: plain(row) for number, row in moved.items()}


def fitting(lake: Lake, expression: str, names: set[str]) -> list[str]:
    """The expression of each column that it can be of."""
    of_each = [expression.format(name) for name in VALUES if name in names]
    return [each for each in of_each if not list(lake.format.layout_problems(Layout(partition_by=(each,)), SCHEMA))]


@pytest.mark.slow
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_each_transform_holds_every_value_of_the_types_it_takes(lakes, expression):
    found = fitting(lakes["iceberg"], expression, PARTED["iceberg"])
    assert len(found) >= 2
    holds(lakes["iceberg"], Layout(partition_by=tuple(found)))


@pytest.mark.slow
def test_delta_holds_every_value_of_the_columns_that_it_is_partitioned_by(lakes):
    found = fitting(lakes["delta"], "{}", PARTED["delta"])
    assert set(found) == PARTED["delta"]
    holds(lakes["delta"], Layout(partition_by=tuple(found), deletion_vectors=True))


@pytest.mark.slow
def test_a_text_that_delta_would_make_null_is_refused_before_it_is_written(lakes):
    lake = lakes["delta"]
    target = lake.table(SCHEMA, Layout(partition_by=("text",)))
    put(lake, target, Mode.APPEND, {1: {"id": 1, "text": "a"}, 2: {"id": 2, "text": None}})
    before = lake.format.state(target, "0").snapshot
    for mode, lost in ((Mode.APPEND, ""), (Mode.MERGE_ON_READ, ""), (Mode.APPEND, "__HIVE_DEFAULT_PARTITION__")):
        with pytest.raises(SchemaRefused, match="column 'text' holds a text that Delta would store as NULL"):
            put(lake, target, mode, {3: {"id": 3, "text": lost}})
    assert lake.format.state(target, "0").snapshot == before
    assert [(row["id"], row["text"]) for row in lake.oracle(target)] == [(1, "a"), (2, None)]
