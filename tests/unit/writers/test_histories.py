"""Versions of keys, as the statements make them that Spark runs: DuckDB answers them for random histories."""

from __future__ import annotations

import random
from datetime import datetime, timedelta

import pytest

from support.duck_frame import DuckFrame, connect
from support.scd2_model import Change, versions
from tidegate.core.schema import BIGINT, TEXT, TIMESTAMP, Column, Schema
from tidegate.writers.scd2 import changes
from tidegate.writers.scd2 import history as histories
from tidegate.writers.scd2.changes import Brings, DatingRules
from tidegate.writers.scd2.history import History

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
START = datetime(2024, 1, 1)  # noqa: DTZ001 - a time without a zone is what is stored
ROW = {"id": "bigint", "name": "varchar", "at": "timestamp"}
STORED = {**ROW, "since": "timestamp", "until": "timestamp", "now": "boolean"}
KEYS, MOMENTS, BATCHES = range(30), range(8), 3


def day(number: int) -> datetime:
    return START + timedelta(days=number)


def loaded(table, batch):
    """The table after a batch of which only the versions were read that it can change."""
    duck = connect()
    keys, least = {row[0] for row in batch}, min(row[2] for row in batch)
    read = [row for row in table if row[0] in keys and (row[5] or row[4] >= least)]
    stored = DuckFrame.of(duck, STORED, *read)
    rows = changes.of_rows(DuckFrame.of(duck, {**ROW, "__tidegate_gone": "boolean"}, *batch), HISTORY)
    placed = changes.placed(rows, stored, HISTORY, DatingRules(floor=None))
    made = histories.versions(placed.unionByName(histories.stored_changes(stored, HISTORY)), HISTORY).collect()
    assert histories.wrong(DuckFrame.of(duck, STORED, *made), HISTORY) == 0
    return [*(row for row in table if row not in read), *made]


@pytest.mark.parametrize("seed", range(2))
def test_a_history_is_a_function_of_its_changes_however_late_they_come(seed):
    chance = random.Random(seed)
    said = {key: {at: chance.choice(["a", "b", None]) for at in MOMENTS if chance.random() < 0.6} for key in KEYS}
    rows = [(key, name, day(at), name is None) for key, told in said.items() for at, name in told.items()]
    chance.shuffle(rows)
    table = []
    for number in range(BATCHES):
        table = loaded(table, [*rows[number::BATCHES], *rows[:3]])
    found = [(row[0], row[1], row[3], row[4], row[5]) for row in table if row[3] != row[4]]
    wanted = [
        (key, one.row["name"], one.since, one.until, one.until is None)
        for key, told in said.items()
        for one in versions(
            Change(day(at), None if name is None else {"name": name, "at": at}) for at, name in told.items()
        )
    ]
    assert sorted(found, key=str) == sorted(wanted, key=str)


def shown(*versions):
    """Stored versions: key, name, the row's own day, and the days from and to which it is valid."""
    return [
        (key, name, day(own), day(since), None if until is None else day(until), until is None)
        for key, name, own, since, until in versions
    ]


def placed(batch, table, brings):
    """The versions that rows make of a table, with the late keys and the begins that verification looks for."""
    duck = connect()
    stored = DuckFrame.of(duck, STORED, *table)
    named = [(key, name, day(at), False) for key, name, at in batch]
    rows = changes.of_rows(DuckFrame.of(duck, {**ROW, "__tidegate_gone": "boolean"}, *named), HISTORY)
    dated = changes.placed(rows, stored, HISTORY, DatingRules(floor=None, brings=brings))
    made = histories.versions(dated.unionByName(histories.stored_changes(stored, HISTORY)), HISTORY).collect()
    assert histories.wrong(DuckFrame.of(duck, STORED, *made), HISTORY) == 0
    late = {row[0] for row in changes.late(rows, stored, HISTORY).collect()}
    begins = {tuple(row) for row in changes.begins(rows, stored, HISTORY).collect()}
    return sorted(map(tuple, made), key=str), late, begins


END = day(5) + timedelta(microseconds=1)
LIFE = [
    # Found gone at day 5; its row comes back and states a time before that.
    ([(1, "back", 4)], shown((1, "a", 1, 1, 5)), ("back", END)),
    # So does an older state of it, which took effect when it says.
    ([(1, "old", 3), (1, "back", 4)], shown((1, "a", 1, 1, 5)), ("back", END)),
    # What came back and was dated by its load is followed by what states a later time than it did itself.
    ([(1, "next", 4)], shown((1, "a", 1, 1, 5), (1, "back", 3, 5, None)), ("next", END)),
    # The same row again changes nothing.
    ([(1, "back", 3)], shown((1, "a", 1, 1, 5), (1, "back", 3, 5, None)), ("back", day(5))),
]


@pytest.mark.parametrize(("batch", "table", "current"), LIFE)
def test_a_row_that_the_source_holds_is_current_whatever_ended_its_key_before(batch, table, current):
    made, late, begins = placed(batch, table, Brings.ROWS)
    assert [(row[1], row[3]) for row in made if row[5]] == [current]
    assert (1, current[1]) in begins
    assert not late or batch[-1][1] == table[-1][1]
    if current[0] != table[-1][1]:
        waited = placed(batch, table, Brings.CHANGES)[0]
        assert [row[1] for row in waited if row[5]] != [current[0]], "rows that waited may be gone again"


def test_a_row_that_is_older_than_the_current_one_of_its_key_is_late():
    table = shown((1, "a", 1, 1, None))
    made, late, begins = placed([(1, "older", 0)], table, Brings.ROWS)
    assert [(row[1], row[3], row[5]) for row in made] == [("a", day(1), True), ("older", day(0), False)]
    assert (late, begins) == ({1}, {(1, day(0))})
