"""Which version a RESTORE to a moment brought back: its files tell, never the moment."""

from __future__ import annotations

import time
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tidegate.errors import PositionMoved
from tidegate.formats.delta import Delta
from tidegate.formats.delta.log import Log
from tidegate.formats.delta.staging import DeltaStaging
from tidegate.formats.shared.storage import store_of
from unit.formats import delta_logs
from unit.formats.delta_logs import MADE, TARGET, UID, add, info, load, remove, write

SPARK = {"version": None, "timestamp": "2026-07-01 14:00:00"}
DELTA_RS = {"datetime": "1795829699532"}


def loaded(number: int, *actions: dict[str, Any]) -> list[dict[str, Any]]:
    return load(number, *actions, at=number * 3_600_000)


def restore(asked: dict[str, Any], *actions: dict[str, Any]) -> list[dict[str, Any]]:
    return [info("RESTORE", operationParameters=asked, at=1), *actions]


def lake_of(folder: Path, *commits: list[dict[str, Any]]) -> Delta:
    lake = Delta(name="lake", folder=folder)
    write(lake, MADE, *commits)
    return lake


def position(lake: Delta) -> int | None:
    found = lake.state(TARGET, UID).position
    return None if found is None else found.sequence


@pytest.fixture(params=["UTC", "Europe/Zurich", "Pacific/Auckland"])
def zone(request, monkeypatch):
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("asked", [SPARK, DELTA_RS, {}], ids=["Spark", "delta-rs", "nothing"])
def test_the_version_is_the_one_whose_files_came_back(tmp_path, zone, asked):
    loads = [loaded(1, add("a")), loaded(2, add("b")), loaded(3, add("c"))]
    assert position(lake_of(tmp_path, *loads, restore(asked, remove("c")))) == 2
    (version,) = [
        each
        for each in lake_of(tmp_path / "x", *loads, restore(asked, remove("c"))).versions(TARGET, UID)
        if each.current
    ]
    assert version.load == 2


def test_a_version_in_which_no_row_moved_is_as_good_as_the_one_before_it(tmp_path):
    loads = [loaded(1, add("a")), loaded(2), loaded(3, add("c"))]
    assert position(lake_of(tmp_path, *loads, restore(SPARK, remove("c")))) == 2


def test_versions_of_the_same_files_with_others_between_them_tell_none(tmp_path):
    back = [{"commitInfo": {"operation": "DELETE"}}, remove("b")]
    lake = lake_of(
        tmp_path, loaded(1, add("a")), loaded(2, add("b")), back, loaded(3, add("c")), restore(SPARK, remove("c"))
    )
    found = lake.state(TARGET, UID)
    assert (found.position, found.number) == (None, None), "load 1, or load 2 without what was deleted since"


def test_a_version_that_was_itself_restored_is_the_one_that_it_restored(tmp_path):
    loads = [loaded(1, add("a")), loaded(2, add("b")), restore({"version": 1}, remove("b")), loaded(3, add("c"))]
    assert position(lake_of(tmp_path, *loads, restore(SPARK, remove("c")))) == 1


def test_files_of_no_version_that_is_kept_tell_none(tmp_path):
    lake = lake_of(tmp_path, loaded(1, add("a")), loaded(2, add("b")), restore(SPARK, remove("b"), add("x")))
    assert (position(lake), lake.state(TARGET, UID).last_sequence) == (None, 2)
    assert lake.versions(TARGET, UID)[-1].load is None


@pytest.mark.parametrize(
    ("between", "own", "moved"),
    [
        ([], True, None),
        ([loaded(7, add("x"))], True, "its rows are in the table, too"),
        ([restore(SPARK, remove("b"))], True, "its rows are in the table, too"),
        ([restore(SPARK, remove("b"))], False, "it was skipped"),
        ([[{"commitInfo": {"operation": "OPTIMIZE"}}]], True, None),
    ],
    ids=["nothing", "a load of this stream", "a RESTORE", "a RESTORE and no load", "other work"],
)
def test_what_comes_between_plan_and_commit_is_noticed(tmp_path, between, own, moved):
    lake_of(tmp_path, loaded(1, add("a")), loaded(2, add("b")), *between, *([loaded(3, add("c"))] if own else []))
    plan = SimpleNamespace(uid=UID, base="2", position=delta_logs.position(3), stream=SimpleNamespace(name="orders"))
    load_log = partial(Log.open, store_of(f"file://{tmp_path}/warehouse/shop/orders"))
    staging = DeltaStaging(session=None, target=TARGET, plan=plan, location="", load=load_log)
    staging._look()
    assert len(staging._landed) == own
    with pytest.raises(PositionMoved, match=moved) if moved else nullcontext():
        staging._need_own()
