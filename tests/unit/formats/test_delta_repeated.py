"""A position that maintenance says again: it counts only if no load came in between."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tidegate.core.policies.maintenance import Maintenance, Step, Upkeep
from tidegate.formats.delta import Delta
from unit.formats.delta_logs import MADE, TARGET, UID, add, info, load, position, write

UPKEEP = Upkeep(
    target=TARGET, uid=UID, rules=Maintenance(), now=datetime(2026, 1, 1, tzinfo=UTC), partition_by=(), force=False
)
OTHERS = [info(), add("other")]
RESTORE = [info("RESTORE", operationParameters={"version": 1})]


def loaded(number: int) -> list[dict[str, Any]]:
    return load(number, add(f"f{number}"))


class Session:
    """A Spark that commits what is written, after what others commit meanwhile."""

    def __init__(self, lake: Delta, *meanwhile: list[dict[str, Any]]) -> None:
        self.lake, self.meanwhile, self.metadata = lake, meanwhile, ""
        self.conf = self.read = self.write = self

    def set(self, *_: str) -> None:
        pass

    def load(self, _what: object) -> Session:
        return self

    format = mode = limit = load

    def option(self, name: str, value: str) -> Session:
        assert name == "userMetadata"
        self.metadata = value
        return self

    def save(self, _location: str) -> None:
        write(self.lake, *self.meanwhile, [info(userMetadata=self.metadata)])


@pytest.fixture
def delta(tmp_path):
    made = Delta(name="lake", folder=tmp_path)
    write(made, MADE, loaded(1), loaded(2))
    return made


def test_the_position_is_in_a_young_commit_again(delta):
    assert delta.maintain(Session(delta), UPKEEP, Step.POSITION) == "load 2 was re-stamped"
    found = delta.state(TARGET, UID)
    assert (found.position, found.position_snapshot, found.since_load.same_rows) == (position(2), "3", True)
    assert [version.load for version in delta.versions(TARGET, UID)] == [None, 1, 2, 2]


def test_a_load_that_comes_in_between_is_the_newest(delta):
    done = delta.maintain(Session(delta, loaded(3)), UPKEEP, Step.POSITION)
    assert done == "nothing re-stamped: a load or a RESTORE came in between"
    found = delta.state(TARGET, UID)
    assert (found.position, found.position_snapshot) == (position(3), "3")
    assert [version.load for version in delta.versions(TARGET, UID)][-2:] == [3, 3]


def test_a_table_that_is_restored_in_between_stands_where_it_went_back_to(delta):
    delta.maintain(Session(delta, RESTORE), UPKEEP, Step.POSITION)
    assert delta.state(TARGET, UID).position == position(1)


def test_rows_that_others_add_in_between_are_not_those_of_the_load(delta):
    delta.maintain(Session(delta, OTHERS), UPKEEP, Step.POSITION)
    found = delta.state(TARGET, UID)
    assert (found.position, found.since_load.same_rows) == (position(2), False)
