"""What every strategy over rows owes a load: what it names is complete, and what it says is repeatable."""

from __future__ import annotations

import json
from datetime import datetime, timedelta

import pytest

from tidegate.core.changes import ChangeSet
from tidegate.core.effects import Mirror
from tidegate.core.ports.strategy import Strategy
from tidegate.core.position import Position
from tidegate.core.schema import BIGINT, TEXT, TIMESTAMP, Column, Schema
from tidegate.testing.rows import Rows
from tidegate.testing.source import MemorySource

COLUMNS = Schema(
    columns=(
        Column(name="id", type=BIGINT, nullable=False),
        Column(name="name", type=TEXT),
        Column(name="changed", type=TIMESTAMP, nullable=False),
    )
)
"""The columns of the suite's rows: `id` grows, `changed` is when the row was written."""


class StrategyContract:
    """The suite of a strategy that reads rows: subclass it and override the fixture `strategy`; needs no Spark."""

    @pytest.fixture
    def strategy(self) -> Strategy:
        """The strategy, with options for `COLUMNS`."""
        raise NotImplementedError

    @pytest.fixture
    def source(self) -> MemorySource:
        """Three rows; a test adds others."""
        source = MemorySource(schema=COLUMNS, key=("id",))
        for number in range(3):
            _add(source, number)
        return source

    def test_its_options_and_effects_are_said(self, strategy: Strategy) -> None:
        """Nothing is wrong with the options, and it says what it emits."""
        assert strategy.problems() == ()
        assert strategy.emits

    def test_a_first_load_reads_every_row(self, strategy: Strategy, source: MemorySource) -> None:
        """Its effect is one that it emits."""
        changes, held = detected(strategy, source, None)
        assert changes is not None
        assert type(changes.effect) in strategy.emits
        assert len(held.among(changes.slices)) == len(source.rows)
        assert changes.reason

    def test_the_same_source_gives_the_same_answer(self, strategy: Strategy, source: MemorySource) -> None:
        """Detecting changes nothing, so that it can be done again after a crash."""
        assert detected(strategy, source, None)[0] == detected(strategy, source, None)[0]

    def test_its_state_survives_the_commit(self, strategy: Strategy, source: MemorySource) -> None:
        """It is made of JSON types."""
        changes, _ = detected(strategy, source, None)
        assert changes is not None
        assert json.loads(json.dumps(changes.state)) == changes.state

    def test_without_a_change_there_is_nothing_to_load(self, strategy: Strategy, source: MemorySource) -> None:
        """None, or a mirror, which may be made again without changing a row."""
        changes, _ = detected(strategy, source, None)
        assert changes is not None
        again, _ = detected(strategy, source, position(strategy, changes))
        assert again is None or isinstance(again.effect, Mirror) or strategy.rereads

    def test_a_row_that_comes_is_read(self, strategy: Strategy, source: MemorySource) -> None:
        """Whatever else is read beside it."""
        changes, _ = detected(strategy, source, None)
        assert changes is not None
        _add(source, 3)
        more, held = detected(strategy, source, position(strategy, changes))
        assert more is not None
        assert 3 in {row["id"] for row in held.among(more.slices)}


def detected(strategy: Strategy, source: MemorySource, since: Position | None) -> tuple[ChangeSet | None, Rows]:
    """What a strategy finds since a position, and the rows that it looked at."""
    bound = strategy.bound_request
    with source.probe(bound=bound) as probe:
        return strategy.detect(probe, since), probe.held


def position(strategy: Strategy, changes: ChangeSet) -> Position:
    """Where a table stands that the changes were loaded into, as its commit would carry it."""
    kept = Position(
        sequence=1, load_id="0" * 32, kind=strategy.kind, state=changes.state, loaded_through=changes.loaded_through
    )
    return Position.from_json(kept.to_json())


def _add(source: MemorySource, number: int) -> None:
    source.rows.append(
        {"id": number, "name": f"row {number}", "changed": datetime(2025, 1, 1) + timedelta(hours=number)}  # noqa: DTZ001 - a column without a zone
    )
    source.clock.advance(timedelta(hours=1))
