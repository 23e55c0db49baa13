"""Random histories, shuffled into batches: what comes out is what the set of changes means, whatever the batches."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from support.lake import QUICK
from support.scd2_model import Change, versions
from tidegate.core.schema import BIGINT, TEXT, TIMESTAMP, Column, Schema
from tidegate.writers.scd2 import changes
from tidegate.writers.scd2 import history as histories
from tidegate.writers.scd2.changes import DatingRules
from tidegate.writers.scd2.history import History

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

COLUMNS = Schema(
    columns=(Column(name="id", type=BIGINT), Column(name="name", type=TEXT), Column(name="at", type=TIMESTAMP))
)
HISTORY = History(
    columns=COLUMNS,
    key=("id",),
    tracked=COLUMNS.names,
    sequence=("at",),
    type=TIMESTAMP,
    valid_from="since",
    valid_to="until",
    is_current="now",
)
FLOOR = "2030-01-01 00:00:00.000000"
START = datetime(2024, 1, 1)  # noqa: DTZ001 - a time without a zone is what is stored
STORED = "id bigint, name string, at timestamp_ntz, since timestamp_ntz, until timestamp_ntz, now boolean"
EVENT = "id bigint, name string, at timestamp_ntz, __tidegate_gone boolean"

Row = tuple[Any, ...]


def world(rng: random.Random) -> tuple[dict[int, dict[int, Any]], list[list[Row]]]:
    """Eighty keys, each with a history of its own, and all of their changes in three batches of any order."""
    known = {
        key: {at: rng.choice(["a", "b", None, "gone"]) for at in rng.sample(range(13), rng.randint(1, 7))}
        for key in range(80)
    }
    rows = [
        (key, None if name == "gone" else name, START + timedelta(days=at), name == "gone")
        for key, history in known.items()
        for at, name in history.items()
    ]
    rng.shuffle(rows)
    cut = sorted(rng.sample(range(3, len(rows)), 2))
    batches = [rows[low:high] for low, high in zip([0, *cut], [*cut, len(rows)], strict=True)]
    # What came already comes again.
    return known, [[*batch, *rng.sample(rows[: max(3, len(batch))], 3)] for batch in batches]


def load(spark: SparkSession, table: list[Row], batch: list[Row]) -> list[Row]:
    """The table after a batch of which only the versions were read that it can meet."""
    keys, least = {row[0] for row in batch}, min(row[2] for row in batch)
    met = [row for row in table if row[0] in keys and (row[5] or row[4] >= least)]
    stored: DataFrame = spark.createDataFrame(met, STORED)
    events = changes.of_rows(spark.createDataFrame(batch, EVENT), HISTORY)
    placed = changes.placed(events, stored, HISTORY, DatingRules(floor=None))
    both = placed.unionByName(histories.stored_changes(stored, HISTORY))
    made = histories.versions(both, HISTORY)
    rest = [row for row in table if row not in met]
    return [*rest, *(tuple(row) for row in made.selectExpr("id", "name", "at", "since", "until", "now").collect())]


def test_a_history_is_a_function_of_its_changes(spark: SparkSession) -> None:
    known, batches = world(random.Random(7))
    session = spark.newSession()
    for name, value in QUICK.items():
        session.conf.set(name, value)
    table: list[Row] = []
    for batch in batches:
        table = load(session, table, batch)
        held = session.createDataFrame(table, STORED)
        assert histories.wrong(held, HISTORY) == 0
    found = sorted(((*row[:2], *row[3:]) for row in table if row[3] != row[4]), key=str)
    assert found == sorted(meant(known), key=str)


@pytest.mark.parametrize(
    "history",
    [HISTORY, replace(HISTORY, version="n", row_hash="h", far=FLOOR), replace(HISTORY, sequence=())],
    ids=["plain", "every column", "dated by the load"],
)
def test_single_changes_make_the_versions_that_all_of_the_rules_make(spark: SparkSession, history: History) -> None:
    rows = [
        (key, name, None if key % 5 == 0 and name is None else START + timedelta(days=key), name is None)
        for key in range(60)
        for name in [random.Random(key).choice(["a", "b", None])]
    ]
    known = [row for row in rows if row[2] is not None or row[3]]
    events = changes.of_rows(spark.createDataFrame(known, EVENT), history)
    placed = changes.placed(events, None, history, DatingRules(floor=FLOOR))
    wanted = histories.versions(placed, history)
    found = histories.first(events, history, FLOOR)
    assert found.columns == wanted.columns
    assert sorted(map(tuple, found.collect()), key=str) == sorted(map(tuple, wanted.collect()), key=str)


def meant(known: dict[int, dict[int, Any]]) -> list[Row]:
    found: list[Row] = []
    for key, history in known.items():
        told = [
            Change(START + timedelta(days=at), None if name == "gone" else {"name": name, "at": at})
            for at, name in history.items()
        ]
        found += [(key, one.row["name"], one.since, one.until, one.until is None) for one in versions(told)]
    return found


def test_versions_that_overlap_are_found(spark: SparkSession) -> None:
    def stored(*rows: tuple[int, int, int | None, bool]) -> DataFrame:
        days = [None if one is None else START + timedelta(days=one) for _, *both, _ in rows for one in both]
        values = [(row[0], "a", START, days[2 * n], days[2 * n + 1], row[3]) for n, row in enumerate(rows)]
        return spark.createDataFrame(values, STORED)

    good = [(1, 1, 3, False), (1, 3, 3, False), (1, 4, None, True), (2, 1, None, True)]
    bad = [
        (3, 1, 3, False), (3, 2, None, True),  # overlap
        (4, 1, None, True), (4, 5, None, True),  # two current
        (5, 3, 2, False),  # ends before it begins
        (6, 1, None, False), (7, 1, 2, True),  # what is current has no end
        (8, 1, 2, False), (8, 1, 3, False),  # begin together
    ]  # fmt: skip
    assert histories.wrong(stored(*good), HISTORY) == 0
    assert histories.wrong(stored(*good, *bad), HISTORY) == 6
