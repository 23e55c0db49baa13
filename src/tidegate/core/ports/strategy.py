"""What a strategy implements: it detects what changed and moves no rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

from tidegate.core.bounds import BoundRequest
from tidegate.core.changes import ChangeSet
from tidegate.core.cost_model import CostHistory
from tidegate.core.effects import Effect
from tidegate.core.grouping import Grouping
from tidegate.core.ledger import Ledger
from tidegate.core.log import EventRules
from tidegate.core.manifest import Manifest
from tidegate.core.ports.source import Probe
from tidegate.core.position import Position
from tidegate.core.schema import Schema
from tidegate.core.slices import Everything, Range, Slice


class Strategy(Protocol):
    """Decides what changed; moves no rows. Of a position's `state` only the strategy that wrote it reads its own keys.

    A strategy is a subclass: what few strategies need has a default here.
    `rereads` says that a row may be read again although it did not change (so `append` would double it).
    `restores` says that each run leaves the table as the source is, also where others wrote to it or settings of the
    project changed: only a table that is as its last load left it is left alone.
    `applies_events` says that what it reads are events with an order of their own in a log, `learns` that it chooses by
    what earlier loads took. `cursor` are the columns whose order says which of two rows of one key is later.
    What it may declare beside that is in `core/compatibility`.
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
    def cursor(self) -> tuple[str, ...]:
        """The columns that order the rows of one key; empty where two rows of a key cannot be told apart."""
        return ()

    @abstractmethod
    def detect(self, probe: Probe, since: Position | None, kept: Ledger | None = None) -> ChangeSet | None:
        """What changed since the position; None for nothing.

        Args:
            kept: the partitions as they were loaded, when the registry has them and the position vouches for them.
        """

    def unchanged(self, since: Position) -> str:  # noqa: ARG002 - by default there is nothing to add
        """Why `detect` found nothing after that position, for people."""
        return "nothing changed"

    def problems(self) -> tuple[str, ...]:
        """What is wrong with the options on their own, one sentence each."""
        return ()

    @abstractmethod
    def resume(self, value: str | None) -> Mapping[str, Any]:
        """The state of a table that holds every row up to a cursor value given as canonical text.

        Raises:
            ConfigError: the strategy has no cursor and a value was given, or it has one and none was.
        """

    def resume_at(self, state: Mapping[str, Any]) -> str | None:  # noqa: ARG002 - by default it says no value
        """The cursor value after which a table of that state is continued; None where no value says it."""
        return None

    def covers(self, since: Position | None, probe: Probe) -> Slice:  # noqa: ARG002 - by default a cursor says it
        """The rows of the source that a table at that position holds."""
        if not self.cursor or since is None or since.loaded_through is None:
            return Everything()
        return Range(cursor=self.cursor, after=None, upto=since.loaded_through, nulls=True)

    @property
    def bound_request(self) -> BoundRequest | None:
        """What its source has to be opened with, for a strategy that reads up to a bound; None for none."""
        return None

    @property
    def partitions(self) -> ComparesPartitions | None:
        """What else it answers where it compares partitions; None where it does not."""
        return None

    def event_rules(self) -> EventRules:
        """How events are applied that were read before, for a strategy that `applies_events`."""
        return EventRules()

    def learned(self, cost_history: CostHistory) -> Strategy:  # noqa: ARG002 - by default nothing is learned
        """The same strategy with what earlier loads took, for one that `learns`."""
        return self

    def adopted(self, probe: Probe) -> tuple[Mapping[str, Any], Manifest] | None:  # noqa: ARG002 - by default it has none
        """The state of a table that holds every file that is there now, and what to remember of them.

        None for a strategy whose position is not the files that were loaded.
        """
        return None


class ComparesPartitions(Protocol):
    """What a strategy answers that compares a table with its source partition by partition."""

    @property
    def max_rows(self) -> int:
        """The most rows of one partition."""

    def unlimited(self) -> Strategy:
        """The same, for partitions of any size."""

    def grouping(self, probe: Probe) -> Grouping:
        """How the source's table is partitioned. Raises PlanError where it cannot be."""

    def unpartitioned(self, columns: Schema) -> str | None:
        """Why no column decides a row's partition; None if one does."""
