"""The probe of a change log.

Events cannot answer questions about rows: these go to the table that the log belongs to, if one is configured.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from tidegate.core.batch import Latest
from tidegate.core.bucketing import Buckets, RowDigest
from tidegate.core.changes import SafeBound, SliceStats
from tidegate.core.fingerprint import Fingerprint
from tidegate.core.grouping import Grouping
from tidegate.core.log import Lag, LogSpan, Message
from tidegate.core.plan import Prune
from tidegate.core.ports.capabilities import DetectsRestore, Log
from tidegate.core.ports.envelope import MessageEnvelope
from tidegate.core.ports.source import Probe
from tidegate.core.schema import Schema
from tidegate.core.slices import LogRange, Partition, Slice
from tidegate.errors import ColumnsUnknown, ConfigError, EdgeUnknown, PlanError

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import DataFrame, SparkSession


class OpenLog(Log, Protocol):
    """An open log: of files, of a table, of topics, of a slot. Each is a subclass."""

    @property
    @abstractmethod
    def label(self) -> str:
        """How people call it."""

    @abstractmethod
    def identity(self) -> str:
        """What the log is of; another text means another history."""

    @abstractmethod
    def clock(self) -> int | None:
        """See `Probe.clock`."""

    @abstractmethod
    def schema(self) -> Schema:
        """The columns of the table, as the events that are read next tell them; asked after `after`."""

    def read_twice(
        self,
        session: SparkSession,  # noqa: ARG002 - by default nothing else can read it
        parts: Sequence[Slice],  # noqa: ARG002
        *,
        values: bool,  # noqa: ARG002
    ) -> tuple[Fingerprint, Fingerprint] | None:
        """See `Log.read_twice`."""
        return None

    @abstractmethod
    def events(self, session: SparkSession, parts: Sequence[Slice], schema: Schema) -> DataFrame:
        """The events of ranges of the log, the same every time; see `Log`."""

    @abstractmethod
    def verify_unchanged(self) -> None:
        """See `Probe.verify_unchanged`."""

    @abstractmethod
    def now(self) -> datetime:
        """See `Probe.now`."""

    @abstractmethod
    def notes(self) -> tuple[str, ...]:
        """See `Probe.notes`."""


def columns_of(
    envelope: MessageEnvelope, messages: Sequence[Message], label: str, table: Schema | None = None
) -> Schema:
    """The columns as messages of a log tell them.

    Raises:
        ColumnsUnknown: there is no message yet, and nothing else tells them.
        ConfigError: there are messages, and they do not tell.
    """
    try:
        return envelope.schema(messages, table)
    except ConfigError as error:
        if messages:
            raise
        raise no_event(label) from error


def of_one_table(
    envelope: MessageEnvelope, messages: Sequence[Message], before: str | None
) -> tuple[MessageEnvelope, list[Message]]:
    """The envelope for events of one table, and the messages that may be of it.

    Args:
        before: the table of the events that were read before; else the newest message says it.
    """
    found = envelope.of_table(envelope.table_of(messages, before))
    return found, [each for each, own in zip(messages, found.own(messages), strict=True) if own]


def columns_known(schema: Callable[[], Schema]) -> bool:
    """Whether a log tells the columns, although it holds no event of the table."""
    try:
        return bool(schema().columns)
    except ColumnsUnknown:
        return False


def no_event(label: str) -> ColumnsUnknown:
    """That a log without events does not show its columns."""
    return ColumnsUnknown(f"there is no event yet at {label}, so its columns are unknown")


class LogProbe(Probe):
    """Questions to a log; what only rows tell is asked of the table beside it, if one is named.

    Args:
        events: the table that keeps the log, where one does.
    """

    def __init__(self, opened: OpenLog, table: Probe | None, events: Probe | None = None) -> None:
        self.opened = opened
        self.table = table
        self._events = events
        self._asked = False

    @property
    def log(self) -> Log:
        """Its own."""
        return self

    def after(self, state: Mapping[str, Any] | None, *, most: int | None) -> LogSpan:
        """What lies after a position."""
        self._asked = True
        return self.opened.after(state, most=most)

    def read_twice(
        self, session: SparkSession, parts: Sequence[Slice], *, values: bool
    ) -> tuple[Fingerprint, Fingerprint] | None:
        """What two readers find in the log, where another one than Spark's can read it."""
        return self.opened.read_twice(session, parts, values=values)

    def lag(self, state: Mapping[str, Any] | None) -> Lag:
        """How far a position is behind the log's end."""
        return self.opened.lag(state)

    def schema(self) -> Schema:
        """The columns that a load reads; those of the table where it alone is asked."""
        return self.table.schema() if self.table is not None and not self._asked else self.opened.schema()

    def identity(self) -> str:
        """What the log is of."""
        return self.opened.identity()

    def clock(self) -> int | None:
        """A number that only grows while the history goes on."""
        return self.opened.clock()

    def version(self) -> str | None:
        """That of a table of events; None for other logs, whose rows cannot be told without reading them."""
        return self._events.version() if self._events is not None else None

    @property
    def restore(self) -> DetectsRestore | None:
        """That of a table of events."""
        return self._events.restore if self._events is not None else None

    def unique(self, key: Sequence[str]) -> bool:
        """What the table says; never of events."""
        return self.table is not None and self.table.unique(key)

    def edge(self) -> SafeBound:
        """None: a log has no cursor. Raises EdgeUnknown."""
        raise EdgeUnknown(f"{self.opened.label} is a log, and no column orders its events")

    def stats(self, part: Slice) -> SliceStats:
        """Of rows of the table."""
        return self._rows_of(part).stats(part)

    def key_bounds(self, part: Slice, column: str) -> Prune | None:
        """Of rows of the table; of events nobody knows before they are read."""
        return None if isinstance(part, LogRange) else self._rows_of(part).key_bounds(part, column)

    def fingerprint(self, part: Slice, *, latest: Latest | None = None) -> Fingerprint:
        """Of rows of the table."""
        return self._rows_of(part).fingerprint(part, latest=latest)

    def count(self, part: Slice, *, latest: Latest | None = None) -> int:
        """Rows of the table."""
        return self._rows_of(part).count(part, latest=latest)

    def partitions(
        self, grouping: Grouping, *, since: Partition | None = None, only: Sequence[Slice] = ()
    ) -> Mapping[Slice, Fingerprint]:
        """Of rows of the table."""
        return self._rows().partitions(grouping, since=since, only=only)

    def quick_hashes(self, grouping: Grouping, *, since: Partition | None = None) -> Mapping[Slice, str] | None:
        """Of rows of the table."""
        return self._rows().quick_hashes(grouping, since=since)

    def spread(
        self, part: Slice, key: Sequence[str], buckets: Buckets, *, latest: Latest | None = None
    ) -> Mapping[str, Fingerprint]:
        """Of rows of the table."""
        return self._rows_of(part).spread(part, key, buckets, latest=latest)

    def digests(
        self, part: Slice, key: Sequence[str], buckets: Buckets, *, latest: Latest | None = None
    ) -> Sequence[RowDigest]:
        """Of rows of the table."""
        return self._rows_of(part).digests(part, key, buckets, latest=latest)

    def condition(self, part: Slice) -> str:
        """The slice in words for people."""
        return part.label if isinstance(part, LogRange) or self.table is None else self.table.condition(part)

    def now(self) -> datetime:
        """The time."""
        return self.opened.now()

    def has_snapshot(self) -> bool:
        """Never: the rows of the table go on while its log is read."""
        return False

    def verify_unchanged(self) -> None:
        """What the log says of it."""
        self.opened.verify_unchanged()

    def notes(self) -> tuple[str, ...]:
        """Of the log and of the table."""
        return (*self.opened.notes(), *(self.table.notes() if self.table else ()))

    def _rows_of(self, part: Slice) -> Probe:
        if isinstance(part, LogRange):
            raise PlanError(f"{self.opened.label} cannot be queried for its resulting rows")
        return self._rows()

    def _rows(self) -> Probe:
        if self.table is None:
            raise PlanError(
                f"there is no table to compare with: {self.opened.label} holds events, not rows",
                hint="Name the table that the log belongs to: `source: {database: shop, table: public.orders}`.",
            )
        return self.table
