"""The cases that dlt tests its scd2 by, each under its name there (`tests/load/pipeline/test_scd2.py`).

A few stand elsewhere: `validity_column_name_conflict` and `active_record_timestamp` need no table (tests/unit/writers),
and `arrow_custom_hash` is `user_provided_row_hash` here, for a hash is a column like any other.
"""

from __future__ import annotations

from datetime import timedelta

import pytest

from support.dimension import NOW, Dimension, day
from support.lake import Lake
from tidegate.core.effects import Mirror, Upsert
from tidegate.core.schema import BIGINT, DATE, TEXT, Column, Schema, array
from tidegate.core.slices import Partition
from tidegate.writers.scd2 import Scd2

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600), pytest.mark.slow]

ALL = Mirror()


def columns(**types: object) -> Schema:
    return Schema(columns=tuple(Column(name=name, type=kind) for name, kind in types.items()))  # type: ignore[arg-type]


def ended(table: Dimension, *names: str) -> list[tuple[object, ...]]:
    """Values of the named columns, and whether the version has ended."""
    rows = [(*(row[name] for name in names), row["valid_to"] is not None) for row in table.rows()]
    return sorted(rows, key=str)


def test_core_functionality(lake: Lake) -> None:
    table = Dimension(lake=lake, cursor=(), writer=Scd2(far_date="2099-12-31T22:02:59"))
    far = "2099-12-31T22:02:59"
    table.load((1, "foo", None), (2, "bar", None), effect=ALL)
    table.load((1, "foo updated", None), (2, "bar", None), effect=ALL)
    table.load((1, "foo updated", None), effect=ALL)
    table.load((1, "foo updated", None), (3, "baz", None), effect=ALL)
    assert table.seen() == [
        (1, "foo", "load 0", "load 1", False),
        (1, "foo updated", "load 1", far, True),
        (2, "bar", "load 0", "load 2", False),
        (3, "baz", "load 3", far, True),
    ]


def test_child_table(lake: Lake) -> None:
    """Nested values stay in their row: a change of one of them is a change of the row."""
    table = Dimension(lake=lake, cursor=(), schema=columns(id=BIGINT, c1=TEXT, c2=array(BIGINT)))
    table.load((1, "foo", [1]), (2, "bar", [2, 3]), effect=ALL)
    table.load((1, "foo", [1, 2]), (2, "bar", [2, 3]), effect=ALL)
    assert ended(table, "id", "c2") == [(1, [1, 2], False), (1, [1], True), (2, [2, 3], False)]


def test_boundary_timestamp(lake: Lake) -> None:
    """A clock that went back ends no version before it began."""
    table = Dimension(lake=lake, cursor=())
    table.load((1, "a", None), (2, "b", None), effect=ALL, created_at=NOW)
    table.load((1, "c", None), effect=ALL, created_at=NOW - timedelta(days=2))
    for row in table.rows():
        assert row["valid_to"] is None or row["valid_to"] > row["valid_from"]
    assert ended(table, "id", "name") == [(1, "a", True), (1, "c", False), (2, "b", True)]


def test_merge_key_natural_key(lake: Lake) -> None:
    """Upserts say nothing of keys that they do not have; a change back is a change."""
    table = Dimension(lake=lake)
    table.load((1, "foo", day(1)), (2, "foo", day(1)))
    table.load((1, "foo", day(1)))
    assert ended(table, "id") == [(1, False), (2, False)]
    table.load((1, "bar", day(2)))
    table.load((1, "foo", day(3)))
    assert ended(table, "id", "name") == [(1, "bar", True), (1, "foo", False), (1, "foo", True), (2, "foo", False)]


@pytest.mark.parametrize("kind", [TEXT, BIGINT])
def test_merge_key_compound_natural_key(lake: Lake, kind: object) -> None:
    first = "John" if kind is TEXT else 1
    schema = columns(first=kind, last=TEXT, age=BIGINT)
    table = Dimension(lake=lake, cursor=(), schema=schema, key=("first", "last"))
    table.load((first, "Doe", 20), (first, "Dodo", 20), effect=Upsert())
    table.load((first, "Doe", 30), effect=Upsert())
    assert ended(table, "last", "age") == [("Dodo", 20, False), ("Doe", 20, True), ("Doe", 30, False)]


def test_merge_key_partition(lake: Lake) -> None:
    """A snapshot of one partition closes what vanished there, and nothing elsewhere."""
    table = Dimension(lake=lake, cursor=(), schema=columns(id=BIGINT, name=TEXT, day=TEXT))
    table.load((1, "a", "d1"), (2, "b", "d1"), (3, "c", "d2"), (4, "d", "d2"), effect=ALL)
    part = Partition(column="day", label="d1", prefix="d1", length=2)
    table.load((1, "a", "d1"), (5, "bb", "d1"), effect=ALL, parts=(part,))
    assert ended(table, "id", "name") == [
        (1, "a", False),
        (2, "b", True),
        (3, "c", False),
        (4, "d", False),
        (5, "bb", False),
    ]


def test_user_provided_row_hash(lake: Lake) -> None:
    table = Dimension(
        lake=lake,
        cursor=(),
        writer=Scd2(track_history=("hash",)),
        schema=columns(id=BIGINT, name=TEXT, hash=TEXT, seen=DATE),
    )
    table.load((1, "foo", "h1", None), (2, "bar", "h2", None), effect=ALL)
    table.load((1, "foo updated", "h1b", None), (2, "bar", "h2", None), effect=ALL)
    table.load((1, "foo, same hash", "h1b", None), effect=ALL)
    assert ended(table, "id", "name") == [(1, "foo", True), (1, "foo, same hash", False), (2, "bar", True)]
