"""A batch that only goes on with histories makes the versions of a history made anew, and no other is taken for one."""

from __future__ import annotations

import pytest

from tidegate.core.schema import BIGINT, BOOLEAN, TEXT, Column, Schema
from tidegate.spark.dataframe_ops import DELETED
from tidegate.writers.scd2 import append_path, changes
from tidegate.writers.scd2 import history as histories
from tidegate.writers.scd2.changes import DatingRules
from tidegate.writers.scd2.history import CLOSED, History

pytestmark = pytest.mark.spark

SOURCE = Schema(
    columns=tuple(Column(name=name, type=BIGINT if name in ("k", "at") else TEXT) for name in ("k", "a", "b", "at"))
)
OWN = (("valid_from", BIGINT), ("valid_to", BIGINT), ("is_current", BOOLEAN), ("hash", TEXT))
TABLE = Schema(columns=(*SOURCE.columns, *(Column(name=name, type=kind) for name, kind in OWN)))
HISTORY = History(
    columns=SOURCE,
    key=("k",),
    tracked=("a",),
    sequence=("at",),
    type=BIGINT,
    valid_from="valid_from",
    valid_to="valid_to",
    is_current="is_current",
    row_hash="hash",
    far="9999",
)
# Key 1 has changed before, 2 was touched at 15 without a new version, 3 is gone since 12.
STORED = (
    "(1, 'old', 'x', 5, 5, 10, false, '-'), (1, 'now', 'x', 10, 10, 9999, true, '-'), "
    "(2, 'now', 'y', 15, 10, 9999, true, '-'), (3, 'was', 'z', 10, 10, 12, false, '-')"
)
GOES_ON = "(1, 'new', 'x', 20), (2, 'now', 'Y', 21), (4, 'first', 'x', 22), (3, 'again', 'z', 23)"


def rows(spark, values, columns):
    types = ", ".join(f"CAST({column.name} AS {column.type.spark}) AS {column.name}" for column in columns)
    return spark.sql(f"SELECT {types} FROM VALUES {values} AS t({', '.join(columns.names)})")


def beside(spark, values, condition="is_current OR valid_to >= 20"):
    stored = rows(spark, STORED, TABLE).where(condition)
    return append_path.with_stored(changes.of_rows(rows(spark, values, SOURCE), HISTORY), stored, HISTORY, TABLE)


def test_the_same_versions_as_by_a_history_made_anew(spark):
    both = beside(spark, GOES_ON)
    assert append_path.appends_only(both, HISTORY, unique=False) == (True, 4)
    found = {tuple(row) for row in append_path.differing(both, HISTORY, TABLE).collect()}

    stored = rows(spark, STORED, TABLE).where("is_current")
    batch = changes.of_rows(rows(spark, GOES_ON, SOURCE), HISTORY)
    placed = changes.placed(batch, stored, HISTORY, DatingRules(floor=None)).unionByName(
        histories.stored_changes(stored, HISTORY)
    )
    anew = histories.differing(histories.versions(placed, HISTORY), stored, HISTORY, TABLE)
    wanted = {tuple(row) for row in anew.drop(CLOSED).collect()}
    # The hash of what is stored is not a real one, and is made anew with its history alone.
    place = TABLE.names.index("hash")
    old = {("now", 10), ("was", 10)}
    bare = [
        {row if (row[1], row[4]) not in old else (*row[:place], *row[place + 1 :]) for row in side}
        for side in (found, wanted)
    ]
    assert bare[0] == bare[1]
    assert len(found) == 5
    assert {row[-1] for row in found} == {False}, DELETED


def test_what_does_not_only_go_on(spark):
    cases = {
        "at the same moment": "(2, 'new', 'y', 15)",
        "before the last touch": "(2, 'new', 'y', 12)",
        "before the end": "(3, 'again', 'z', 11)",
        "no moment": "(4, 'new', 'x', NULL)",
        "two of a key": "(4, 'new', 'x', 20), (4, 'newer', 'x', 21)",
    }
    both = {what: beside(spark, values, "is_current OR k = 3") for what, values in cases.items()}
    found = {what: append_path.appends_only(rows, HISTORY, unique=False)[0] for what, rows in both.items()}
    assert found == dict.fromkeys(cases, False)


def test_a_row_that_is_stored_changes_nothing(spark):
    assert append_path.appends_only(beside(spark, "(2, 'now', 'y', 15)"), HISTORY, unique=True) == (True, 0)
