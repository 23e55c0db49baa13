"""Columns of the log are found by their numbers: against a model of a table whose columns come, go and are renamed."""

from __future__ import annotations

import random

import pytest

from tidegate.errors import HistoryGone
from tidegate.sources.change_log.slot.attributes import Attributes, places


class Model:
    """A table as PostgreSQL keeps it; each column is known for good by a number."""

    def __init__(self, *names: str) -> None:
        self.columns: dict[int, str | None] = dict(enumerate(names, 1))

    @property
    def names(self) -> dict[int, str]:
        return {number: name for number, name in self.columns.items() if name is not None}

    def attributes(self) -> Attributes:
        return Attributes(names=self.names, last=len(self.columns))

    def add(self, name: str) -> None:
        self.columns[len(self.columns) + 1] = name

    def drop(self, name: str) -> None:
        self.columns[self.number(name)] = None

    def rename(self, name: str, to: str) -> None:
        self.columns[self.number(name)] = to

    def number(self, name: str) -> int:
        return next(number for number, known in self.names.items() if known == name)

    def places(self, numbers: list[int]) -> dict[str, int]:
        """Where the columns of now stand in a tuple."""
        return {self.names[number]: place for place, number in enumerate(numbers) if number in self.names}

    def logged(self) -> tuple[list[str], list[int]]:
        """Names in a tuple, and the numbers that the log does not show."""
        return [*self.names.values()], [*self.names]


def read(kept: str, logged: list[str], now: Model):
    """What each column of now has in the tuple: its place."""
    return dict(places(logged, now.attributes(), kept))


def test_a_renamed_column_is_found_by_its_old_name_and_its_new_one():
    table = Model("id", "v")
    kept, (before, _) = table.attributes().kept(), table.logged()
    table.rename("v", "vv")
    assert read(kept, before, table) == {"id": 0, "vv": 1} == read(kept, table.logged()[0], table)


def test_a_column_that_was_renamed_for_a_while_is_found():
    table = Model("id", "a", "b")
    kept = table.attributes().kept()
    table.rename("a", "t")
    table.rename("b", "a")
    table.rename("t", "b")
    exchanged, _ = table.logged()
    back = Model("id", "a", "b")
    assert exchanged == ["id", "b", "a"]
    assert read(kept, exchanged, back) == {"id": 0, "a": 1, "b": 2}


def test_a_column_that_was_added_later_is_not_in_the_tuple():
    table = Model("id", "v")
    kept, (before, _) = table.attributes().kept(), table.logged()
    table.add("w")
    assert read(kept, before, table) == {"id": 0, "v": 1}
    assert read(kept, table.logged()[0], table) == {"id": 0, "v": 1, "w": 2}


def test_one_that_was_dropped_and_another_one_added():
    table = Model("id", "old", "v")
    kept, (before, _) = table.attributes().kept(), table.logged()
    table.drop("old")
    table.add("new")
    assert read(kept, before, table) == {"id": 0, "v": 2}
    assert read(kept, table.logged()[0], table) == {"id": 0, "v": 1, "new": 2}


def test_a_column_that_replaced_another_one_of_its_name():
    """Old and new tuples look the same; only one that has both is certain."""
    table = Model("id", "v")
    kept, (before, _) = table.attributes().kept(), table.logged()
    table.add("v2")
    both, _ = table.logged()
    table.drop("v")
    table.rename("v2", "v")
    assert read(kept, both, table) == {"id": 0, "v": 2}
    for logged in (before, ["id", "v2"]):
        with pytest.raises(HistoryGone, match="unknown which of them the log means"):
            read(kept, logged, table)


@pytest.mark.parametrize(
    ("change", "replaced"),
    [
        ([("rename", "v", "vv"), ("add", "x")], []),
        ([("drop", "v"), ("add", "v")], ["v"]),
        ([("add", "v2"), ("drop", "v"), ("rename", "v2", "v")], ["v"]),
        ([("rename", "v", "t"), ("rename", "w", "v"), ("rename", "t", "w")], ["w", "v"]),
        ([("rename", "v", "t"), ("add", "v")], ["v"]),
    ],
)
def test_names_that_other_columns_have_now(change, replaced):
    table = Model("id", "v", "w")
    kept = table.attributes().kept()
    for kind, *names in change:
        getattr(table, kind)(*names)
    assert table.attributes().replaced(kept) == replaced


def test_a_tuple_that_no_history_explains():
    table = Model("id", "v")
    for logged in (["id"], ["id", "v", "w"]):
        with pytest.raises(HistoryGone):
            read(table.attributes().kept(), logged, table)


@pytest.mark.parametrize("seed", range(200))
def test_columns_that_are_added_and_renamed_are_always_read_right(seed):
    chance = random.Random(seed)
    table, tuples, kept = history(chance, ["add", "rename", "exchange"])
    for logged, numbers in tuples:
        assert read(kept, logged, table) == table.places(numbers)


@pytest.mark.parametrize("seed", range(300))
def test_random_histories_are_read_right_or_not_at_all(seed):
    """New names are new: one that a column had in between, and another one has now, deceives."""
    chance = random.Random(seed)
    table, tuples, kept = history(chance, ["add", "drop", "rename"])
    for logged, numbers in tuples:
        try:
            assert read(kept, logged, table) == table.places(numbers)
        except HistoryGone:
            assert table.columns.keys() - table.names.keys()


def history(chance: random.Random, kinds: list[str]):
    """A table, the tuples that it had since its position, and what the position kept."""
    table, free = Model("id", *"abc"[: chance.randint(0, 3)]), iter("defghijklmnop")
    for _ in range(chance.randint(0, 3)):
        change(table, chance, free, kinds)
    kept, tuples = table.attributes().kept(), [table.logged()]
    for _ in range(chance.randint(0, 4)):
        change(table, chance, free, kinds)
        tuples.append(table.logged())
    return table, tuples, kept


def change(table: Model, chance: random.Random, free, kinds: list[str]) -> None:
    names = [name for name in table.names.values() if name != "id"]
    kind = chance.choice(kinds)
    if kind == "add" or not names:
        table.add(next(free))
    elif kind == "drop":
        table.drop(chance.choice(names))
    elif kind == "rename":
        table.rename(chance.choice(names), next(free))
    elif len(names) > 1:
        one, other = chance.sample(names, 2)
        table.rename(one, "tmp")
        table.rename(other, one)
        table.rename("tmp", other)
