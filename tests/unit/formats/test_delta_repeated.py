"""A position that maintenance says again: it counts only if no load came in between."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tidegate.core.ids import Target
from tidegate.core.policies.maintenance import Maintenance, Step, Upkeep
from tidegate.core.position import Position
from tidegate.formats.delta import Delta, table

UID = "0123456789abcdef"
TARGET = Target(lake="lake", namespace=("shop",), table="orders")
UPKEEP = Upkeep(
    target=TARGET, uid=UID, rules=Maintenance(), now=datetime(2026, 1, 1, tzinfo=UTC), partition_by=(), force=False
)
SCHEMA = json.dumps({"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]})
MADE = [
    {"commitInfo": {"operation": "CREATE TABLE"}},
    {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
    {"metaData": {"id": "t", "schemaString": SCHEMA, "partitionColumns": [], "configuration": {}}},
]


def position(number: int) -> Position:
    return Position(sequence=number, load_id=f"l{number}", kind="watermark", state={"at": number})


def add(path: str) -> dict[str, Any]:
    return {"add": {"path": path, "partitionValues": {}, "stats": '{"numRecords": 1}'}}


def load(number: int) -> list[dict[str, Any]]:
    info = {"operation": "WRITE", "userMetadata": table.user_metadata(UID, position(number))}
    return [{"commitInfo": info}, {"txn": {"appId": UID, "version": number}}, add(f"f{number}")]


def others() -> list[dict[str, Any]]:
    return [{"commitInfo": {"operation": "WRITE"}}, add("other")]


def restore() -> list[dict[str, Any]]:
    return [{"commitInfo": {"operation": "RESTORE", "operationParameters": {"version": 1}}}]


class Session:
    """A Spark that commits what is written, after what others commit meanwhile."""

    def __init__(self, log: Path, *meanwhile: list[dict[str, Any]]) -> None:
        self.log, self.meanwhile, self.metadata = log, meanwhile, ""
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
        commit(self.log, *self.meanwhile, [{"commitInfo": {"operation": "WRITE", "userMetadata": self.metadata}}])


def commit(log: Path, *commits: list[dict[str, Any]]) -> None:
    first = len(list(log.glob("*.json")))
    for version, actions in enumerate(commits, first):
        (log / f"{version:020}.json").write_text("\n".join(map(json.dumps, actions)))


@pytest.fixture
def lake(tmp_path):
    log = tmp_path / "warehouse" / "shop" / "orders" / "_delta_log"
    log.mkdir(parents=True)
    commit(log, MADE, load(1), load(2))
    return Delta(name="lake", folder=tmp_path), log


def test_the_position_is_in_a_young_commit_again(lake):
    delta, log = lake
    assert delta.maintain(Session(log), UPKEEP, Step.POSITION) == "load 2 was re-stamped"
    found = delta.state(TARGET, UID)
    assert (found.position, found.position_snapshot, found.since_load.same_rows) == (position(2), "3", True)
    assert [version.load for version in delta.versions(TARGET, UID)] == [None, 1, 2, 2]


def test_a_load_that_comes_in_between_is_the_newest(lake):
    delta, log = lake
    done = delta.maintain(Session(log, load(3)), UPKEEP, Step.POSITION)
    assert done == "nothing re-stamped: a load or a RESTORE came in between"
    found = delta.state(TARGET, UID)
    assert (found.position, found.position_snapshot) == (position(3), "3")
    assert [version.load for version in delta.versions(TARGET, UID)][-2:] == [3, 3]


def test_a_table_that_is_restored_in_between_stands_where_it_went_back_to(lake):
    delta, log = lake
    delta.maintain(Session(log, restore()), UPKEEP, Step.POSITION)
    assert delta.state(TARGET, UID).position == position(1)


def test_rows_that_others_add_in_between_are_not_those_of_the_load(lake):
    delta, log = lake
    delta.maintain(Session(log, others()), UPKEEP, Step.POSITION)
    found = delta.state(TARGET, UID)
    assert (found.position, found.since_load.same_rows) == (position(2), False)
