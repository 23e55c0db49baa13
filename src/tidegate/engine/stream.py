"""A stream, assembled and checked: its source, table, strategy, writer and policies.

Has no connection and no session.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum

from tidegate.core.bounds import BoundRequest
from tidegate.core.ids import Connection, Target
from tidegate.core.plan import StreamRef
from tidegate.core.policies.deletes import Deletes
from tidegate.core.policies.maintenance import Maintenance
from tidegate.core.policies.retention import Kept, Retain
from tidegate.core.policies.rules import OnFail, Rule
from tidegate.core.policies.schedule import Schedule
from tidegate.core.ports.format import Format, Layout
from tidegate.core.ports.hook import StatedHook
from tidegate.core.ports.source import Probe, Source
from tidegate.core.ports.strategy import Strategy
from tidegate.core.ports.writer import Writer
from tidegate.core.schema import Schema


class VerifyLevel(StrEnum):
    """How much is proven before a load is published."""

    NONE = "none"
    COUNTS = "counts"
    MOVED = "moved"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policies:
    """What the project says of a stream beside its parts.

    Args:
        full_every: how old the last proof of the whole table may become before a run makes another.
        contract: the mode for each kind of change of columns.
        checks: what its rows have to fulfil before anything is visible.
        measured_by: what runs the query that maintenance measures; None for Spark.
        after_publish: what is run after a load was published.
    """

    verify: VerifyLevel = VerifyLevel.MOVED
    full_every: timedelta | None = None
    contract: Mapping[str, str] = field(default_factory=dict)
    layout: Layout = field(default_factory=Layout)
    deletes: Deletes = field(default_factory=Deletes)
    maintenance: Maintenance = field(default_factory=Maintenance)
    schedule: Schedule | None = None
    retain: Retain | None = None
    checks: tuple[Rule, ...] = ()
    measured_by: Connection | None = None
    after_publish: tuple[StatedHook, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadsTable:
    """The table in the lake that tells of the project's runs; see `engine.loads`.

    Args:
        every: how often a stream that stays unchanged gets a row: a commit costs more than a run that finds nothing.
    """

    format: Format
    target: Target
    every: timedelta = timedelta(minutes=15)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """One source, one table, and how rows get from one to the other.

    Args:
        uid: the identity in the table's commits.
        kept: the rows that the table keeps, which `source` then shows alone; None for all.
        source_name: for people and the registry, `connection:relation`, without a secret.
        loads: where its runs are told of in the lake; None where the project keeps no such table.
    """

    name: str
    uid: str
    source: Source[Probe]
    source_name: str
    target: Target
    format: Format
    strategy: Strategy
    writer: Writer
    key: tuple[str, ...] = ()
    policies: Policies = field(default_factory=Policies)
    loads: LoadsTable | None = None
    kept: Kept | None = None

    @property
    def ref(self) -> StreamRef:
        """What a load's plan names it by."""
        return StreamRef(name=self.name, uid=self.uid, target=str(self.target))

    @property
    def added(self) -> Schema:
        return self.policies.deletes.columns

    @property
    def bound_request(self) -> BoundRequest | None:
        """What the source has to be opened with where its changes are looked for."""
        return self.strategy.bound_request

    @property
    def order(self) -> tuple[str, ...]:
        """The columns by which rows of one key take each other's place: the cursor, then what the writer is told."""
        more = getattr(self.writer, "order_by", ())
        return (*self.strategy.cursor, *(name for name in more if name not in self.strategy.cursor))

    @property
    def refused(self) -> OnFail:
        """What becomes of events of a log that cannot be taken."""
        return OnFail(getattr(self.strategy, "bad_events", OnFail.STOP))
