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
from tidegate.writers.scd2.changes import DatingRules
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
