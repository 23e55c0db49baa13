"""What a strategy implements: it detects what changed and moves no rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

from tidegate.core import position_state
from tidegate.core.bounds import BoundRequest
from tidegate.core.changes import ChangeSet, Part
from tidegate.core.cost_model import CostHistory
from tidegate.core.effects import Effect, Mirror
from tidegate.core.grouping import Grouping
from tidegate.core.ledger import Ledger
from tidegate.core.log import EventRules
from tidegate.core.manifest import Manifest
from tidegate.core.ports.source import Probe
from tidegate.core.position import Position
from tidegate.core.schema import Schema
from tidegate.core.slices import Everything, Range, Slice


class Strategy(Protocol):
    """Detects what changed; moves no rows. Only the strategy that wrote a position's `state` reads its own keys.

    Strategies inherit from this class and its defaults.
    `rereads` says that an unchanged row may be read again (so `append` would duplicate it).
    `restores` says that each run makes the table equal to the source, even if others wrote to it or settings of the
    project changed; only a table that is unchanged since its last load is skipped.
    `applies_events` says that it reads events of a log, which have an order. `learns` says that it chooses by the costs
    of earlier loads. `cursor` are the columns whose order says which of two rows of one key is later.
    Further declarations are in `core/compatibility`.
    """

    kind: ClassVar[str]
    emits: ClassVar[frozenset[type[Effect]]]
    applies_events: ClassVar[bool] = False
    learns: ClassVar[bool] = False
    restores: ClassVar[bool] = False

    @property
    @abstractmethod
    def rereads(self) -> bool:
        """Whether an unchanged row may be read again."""

    @property
    def settles_unverified(self) -> bool:
        """Whether a run makes the table equal to the source where the position claims nothing of the table's rows."""
        return self.emits == {Mirror}

    @property
    def cursor(self) -> tuple[str, ...]:
        """The columns that order the rows of one key; empty if nothing orders them."""
        return ()

    @abstractmethod
    def detect(self, probe: Probe, since: Position | None, kept: Ledger | None = None) -> ChangeSet | None:
        """What changed since the position; None for nothing.

        Args:
            kept: the partitions as they were loaded, if the registry has them and the position vouches for them.
        """

    def check_position(self, since: Position, probe: Probe) -> None:  # noqa: ARG002 - by default it may be any
        """Raises where a load must not go on from the position.

        By default it may: a strategy that makes the table equal to its source does so whatever was loaded before.

        Raises:
            ConfigError: another strategy or other columns wrote the position.
            HistoryGone: the source is another one, or an older state of the same.
        """
        return

    def unchanged(self, since: Position) -> str:  # noqa: ARG002 - by default there is nothing to add
        """Why `detect` found nothing after that position, for people."""
        return "nothing changed"

    def problems(self) -> tuple[str, ...]:
        """Errors in the options alone, one sentence each."""
        return ()

    @abstractmethod
    def resume(self, value: str | None) -> Mapping[str, Any]:
        """The state of a table that holds every row up to a cursor value given as canonical text.

        Raises:
            ConfigError: the strategy has no cursor and a value was given, or it has one and none was.
        """

    def resume_at(self, state: Mapping[str, Any]) -> str | None:  # noqa: ARG002 - by default it says no value
        """The cursor value after which the next load continues; None if the position is not a cursor value."""
        return None

    def check_value(self, state: Mapping[str, Any], probe: Probe) -> None:  # noqa: ARG002 - by default there is none
        """Refuses a position that a person sets at a value which the source has yet to reach.

        Args:
            state: as `resume` made it.

        Raises:
            ConfigError: rows that come until it is reached would never be read.
        """
        return

    def unclaimed(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """The state without what it claims of the table's rows; where the next load continues stays in it."""
        return position_state.unclaimed(state)

    def covers(self, since: Position | None, probe: Probe) -> Slice:  # noqa: ARG002 - by default a cursor says it
        """The rows of the source that a table at that position holds."""
        if not self.cursor or since is None or since.loaded_through is None:
            return Everything()
        return Range(cursor=self.cursor, after=None, upto=since.loaded_through, nulls=True)

    @property
    def bound_request(self) -> BoundRequest | None:
        """The bound that its source determines when it is opened; None for a strategy without a bound."""
        return None

    @property
    def partitions(self) -> ComparesPartitions | None:
        """What it answers in addition if it compares partitions; None otherwise."""
        return None

    def event_rules(self) -> EventRules:
        """How events are applied, for a strategy that `applies_events`."""
        return EventRules()

    def refreshing(self, since: Position) -> Strategy:  # noqa: ARG002 - by default every load may see every row
        """The same strategy for a load that reads every row of the table at that position again."""
        return self

    def learned(self, cost_history: CostHistory) -> Strategy:  # noqa: ARG002 - by default nothing is learned
        """The same strategy with the costs of earlier loads, for one that `learns`."""
        return self

    def adopted(self, probe: Probe) -> tuple[Mapping[str, Any], Manifest] | None:  # noqa: ARG002 - by default it has none
        """The state of a table that already holds all present files, and the manifest to store.

        None for a strategy whose position does not consist of files.
        """
        return None


class ComparesPartitions(Protocol):
    """What a strategy answers if it compares a table with its source partition by partition."""

    @property
    def max_rows(self) -> int:
        """The maximum number of rows in one partition."""

    def unlimited(self) -> Strategy:
        """The same strategy without that maximum."""

    def equal(self, probe: Probe, since: Position | None, kept: Ledger) -> tuple[Part, ...]:
        """Every partition of `kept` that is compared, of a table where `detect` found none that differs."""

    def grouping(self, probe: Probe) -> Grouping:
        """How the source's table is partitioned. Raises PlanError where it cannot be."""

    def unpartitioned(self, columns: Schema) -> str | None:
        """Why no column decides a row's partition; None if one does."""
