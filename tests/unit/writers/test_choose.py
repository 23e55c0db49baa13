"""Which write is chosen, and why: facts in, one mode and one sentence out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tidegate.core.compatibility import incompatibilities
from tidegate.core.effects import Mirror, Upsert, WriteHint
from tidegate.core.plan import KeyFacts, Mode, Prune, Reset, WriteFacts
from tidegate.core.schema import BIGINT, DATE, TEXT, TIMESTAMP, Type
from tidegate.errors import PlanError
from tidegate.strategies.full import Full
from tidegate.writers.append import Append
from tidegate.writers.merge import Merge
from tidegate.writers.replace import Replace


def facts(**changes: Any) -> WriteFacts:
    return WriteFacts(**{"effect": Upsert(), "rows": 10, "table_rows": 1000, **changes})


def keys(low: Any, high: Any, kind: Type = BIGINT) -> Prune:
    return Prune(column="id", type=kind, low=str(low), high=str(high))


NEW_YEAR, BEFORE = "2024-01-01 00:00:00.000000", "2023-01-01 00:00:00.000000"
AFTER, LATER = "2024-01-01 00:00:00.000001", "2024-01-03 00:00:00.000000"
OUTSIDE = KeyFacts(bounds=keys(200, 300), apart=True)


@pytest.mark.parametrize(
    ("given", "mode"),
    [
        ({}, Mode.MERGE_ON_READ),
        ({"rows": 200}, Mode.MERGE_ON_READ),
        ({"rows": 201}, Mode.COPY_ON_WRITE),
        ({"rows": 5000}, Mode.COPY_ON_WRITE),
        ({"rows": None}, Mode.MERGE_ON_READ),
        ({"table_rows": None}, Mode.MERGE_ON_READ),
        ({"table_rows": 0}, Mode.APPEND),
        ({"table_rows": 0, "rows": None}, Mode.APPEND),
        ({"reset": Reset()}, Mode.OVERWRITE),
        ({"reset": Reset(), "table_rows": 0}, Mode.OVERWRITE),
        ({"effect": Mirror()}, Mode.MERGE_DIFFERENCES),
        ({"effect": Mirror(hint=WriteHint.REWRITE)}, Mode.OVERWRITE),
        ({"effect": Mirror(hint=WriteHint.REWRITE), "counted": True}, Mode.MERGE_DIFFERENCES),
        ({"effect": Mirror(hint=WriteHint.REWRITE), "unwritten": ("old",)}, Mode.MERGE_DIFFERENCES),
        ({"keys": replace(OUTSIDE, unique=True)}, Mode.APPEND),
        ({"keys": OUTSIDE}, Mode.MERGE_ON_READ),
        ({"keys": KeyFacts(bounds=keys(99, 300), unique=True)}, Mode.MERGE_ON_READ),
    ],
)
def test_merge_takes_the_cheapest_mode_that_is_proven(given: dict[str, Any], mode: Mode) -> None:
    choice = Merge().choose(facts(**given))
    assert choice.mode is mode
    assert choice.reason
    assert "\n" not in choice.reason


@pytest.mark.parametrize("given", [{}, {"rows": None}, {"table_rows": None}])
def test_a_small_merge_says_what_becomes_of_the_files(given: dict[str, Any]) -> None:
    """Without deletion vectors a Delta table has no place for changes beside its files."""
    beside = Merge().choose(facts(**given))
    copied = Merge().choose(facts(**given, copies_files=True))
    assert beside.reason.endswith("so files stay and changes are written beside them")
    assert copied.reason.endswith("so only files that hold changed rows are written again")
    assert beside.mode is copied.mode


def test_the_bounds_that_the_plan_knows_are_told() -> None:
    assert Merge().choose(facts(keys=KeyFacts(bounds=keys(1, 5)))).prune == (keys(1, 5),)
    assert Merge().choose(facts(table_rows=0, keys=KeyFacts(bounds=keys(1, 5)))).prune == ()


@pytest.mark.parametrize(
    ("batch", "files", "answer"),
    [
        (keys(10, 11), keys(1, 9), True),  # as numbers, not as texts
        (keys(-5, -1), keys(0, 9), True),
        (keys(9, 11), keys(1, 9), False),
        (keys(0, 100), keys(5, 6), False),
        (keys("2024-01-02", "2024-01-03", DATE), keys("2024-01-01", "2024-01-01", DATE), True),
        (keys(AFTER, LATER, TIMESTAMP), keys(BEFORE, NEW_YEAR, TIMESTAMP), True),
        (keys("x", "y", TEXT), keys("a", "b", TEXT), False),  # a collation may order otherwise
        (keys("2024-01-02", "2024-01-03", DATE), keys(BEFORE, NEW_YEAR, TIMESTAMP), False),
    ],
)
def test_apart_is_said_only_where_it_is_proven(batch: Prune, files: Prune, answer: bool) -> None:
    assert batch.meets(files.type.kind, files.low, files.high) is not answer


def test_replace_and_append() -> None:
    assert Replace().choose(facts()).mode is Mode.OVERWRITE
    assert Replace().choose(facts(table_rows=0)).mode is Mode.APPEND
    assert Replace().choose(facts(table_rows=None)).mode is Mode.OVERWRITE
    assert Append().choose(facts()).mode is Mode.APPEND
    assert Append().choose(facts(reset=Reset())).mode is Mode.OVERWRITE


def test_what_fits() -> None:
    assert incompatibilities(strategy=Full(), writer=Replace(), key=()) == ()
    assert incompatibilities(strategy=Full(), writer=Merge(), key=("id",)) == ()
    assert len(incompatibilities(strategy=Full(), writer=Append(), key=())) == 2


AGAIN = {"effect": Upsert(repeats="a.csv is not the same as when loaded")}


@pytest.mark.parametrize(
    ("writer", "given", "mode"),
    [
        (Append(), {}, Mode.APPEND),
        (Append(), {**AGAIN, "carried": True}, Mode.REPLACE_FILES),
        (Append(), {**AGAIN, "table_rows": 0}, Mode.APPEND),
        (Append(), {**AGAIN, "reset": Reset()}, Mode.OVERWRITE),
        (Merge(), {**AGAIN, "carried": True}, Mode.MERGE_PARTITIONS),
        (Merge(), AGAIN, Mode.MERGE_ON_READ),
    ],
)
def test_files_that_are_read_again_are_exchanged_or_merged(writer, given, mode):
    assert writer.choose(facts(**given)).mode is mode


def test_append_refuses_rows_that_may_be_there():
    with pytest.raises(PlanError, match=r"a\.csv is not the same as when loaded.*twice") as caught:
        Append().choose(facts(**AGAIN))
    assert "--full-refresh" in caught.value.hint
