"""A change log in a lake table whose versions only add events.

Never continues if the table has lost events, or has changed or deleted any.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import reduce
from typing import TYPE_CHECKING, Any, Protocol, cast

from tidegate.core.change_feed import EMPTY, FeedContent, Span
from tidegate.core.log import ORIGIN, PLACE, RAW, REFUSED, Lag, LogSpan
from tidegate.core.ports.envelope import Envelope, RowEnvelope
from tidegate.core.ports.source import Probe
from tidegate.core.schema import Schema
from tidegate.core.slices import LogRange, Slice, SnapshotPair
from tidegate.dialects.spark import Spark
from tidegate.errors import ConfigError, HistoryGone, InternalError
from tidegate.sources.change_log.log import OpenLog
from tidegate.sources.shared.frame_probe import Frame, reading

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Table(Probe, Protocol):
    """A probe of one version of a lake table, and of what happened before it."""

    frame: Frame

    def between(self, after: str, upto: str | None = None) -> Span:
        """See `core.ports.format.ChangeFeed`; up to the version that is read unless given."""

    def enabling_statement(self) -> str | None:
        """See `core.ports.format.ChangeFeed`."""

    def read_changes(self, session: SparkSession, pair: SnapshotPair, schema: Schema) -> DataFrame:
        """The rows that came."""


def check(envelope: Envelope) -> None:
    if envelope.messages:
        raise ConfigError(f"envelope: {envelope.kind} is for messages, but a table of events holds rows")


class TableLog(OpenLog):
    """A table of events, as of its newest version."""

    def __init__(self, name: str, envelope: Envelope, table: Table) -> None:
        self._name = name
        self._envelope = cast("RowEnvelope", envelope)
        self._table = table

    @property
    def label(self) -> str:
        return self._name

    def identity(self) -> str:
        """The table's own; one that was made again has another."""
        return f"log in {self._table.identity()}"

    def clock(self) -> int | None:
        return None

    def now(self) -> datetime:
        return datetime.now(UTC)

    def verify_unchanged(self) -> None:
        """Nothing: a version stays what it is."""

    def notes(self) -> tuple[str, ...]:
        return ()

    def schema(self) -> Schema:
        return self._envelope.schema(self._table.schema())

    def after(self, state: Mapping[str, Any] | None, *, most: int | None) -> LogSpan:  # noqa: ARG002 - versions are whole
        """The events that came after the version that was read; all there are in the newest one before the first.

        Raises:
            HistoryGone: nobody can tell them any more, or others went.
            ConfigError: the table does not tell what comes to it.
        """
        now = self._table.version() or EMPTY
        after = self._read_before(state)
        if (statement := self._table.enabling_statement()) is not None:
            raise ConfigError(
                f"{self.label} does not record which events are added to it: its change data feed is off",
                hint=f"Let Spark run `{statement}`, then `tidegate run STREAM`.",
            )
        if now in (after, EMPTY):
            if after not in (None, now):
                raise HistoryGone(f"version {after} of {self.label} was read, but it has no version now")
            return LogSpan(slices=(), state={"version": now}, events=0)
        events = self._table.frame.count if after is None else self._span_after(after).rows
        return LogSpan(
            slices=(LogRange(part=self.label, after=after, upto=now),),
            state={"version": now},
            events=events,
            taken=events or 0,
            reason=f"events of versions after {after}" if after is not None else f"every event of version {now}",
        )

    def lag(self, state: Mapping[str, Any] | None) -> Lag:
        """The events of the versions after the position; since when they are there no metadata tell."""
        after, now = self._read_before(state), self._table.version() or EMPTY
        if now in (after, EMPTY):
            return Lag(events=0, seconds=0)
        return Lag(events=self._span_after(after).rows) if after is not None else Lag()

    def events(self, session: SparkSession, parts: Sequence[Slice], schema: Schema) -> DataFrame:
        """The events that these ranges of versions brought."""
        columns = self._table.schema()
        with reading(self.label):
            found = [self._rows(session, part, columns) for part in parts]
            rows = reduce(lambda one, other: one.unionByName(other), found)
            return self._envelope.events(rows, columns, schema)

    def _rows(self, session: SparkSession, part: Slice, columns: Schema) -> DataFrame:
        if not isinstance(part, LogRange):
            raise InternalError("a log is read by ranges")
        quiet = part.after is not None and self._table.between(part.after, part.upto).content is FeedContent.NOTHING
        pair = SnapshotPair(after=None if quiet else part.after, upto=part.upto, appends=True)
        rows = self._table.read_changes(session, pair, columns)
        string, none = Spark().string, "CAST(NULL AS string)"
        return (rows.where("false") if quiet else rows).selectExpr(
            *(Spark().quote(name) for name in columns.names),
            f"{string('')} AS {PLACE}",
            f"{string(f'{self.label}, {part.upto}')} AS {ORIGIN}",
            f"{none} AS {REFUSED}",
            f"{none} AS {RAW}",
        )

    def _read_before(self, state: Mapping[str, Any] | None) -> str | None:
        """The version that was read; None for none with an event."""
        found = (state or {}).get("version")
        return None if found in (None, EMPTY) else str(found)

    def _span_after(self, after: str) -> Span:
        """What came after that version. Raises HistoryGone where anything else happened."""
        span = self._table.between(after)
        match span.content:
            case FeedContent.APPENDS:
                return span
            case FeedContent.NOTHING:
                return Span(content=FeedContent.NOTHING, rows=0)
            case FeedContent.CHANGES:
                raise HistoryGone(
                    f"rows of {self.label} were changed or deleted after version {after}, which was read: a log of "
                    f"events must be append-only, and it is unknown which of them were never read"
                )
            case FeedContent.UNKNOWN:
                raise HistoryGone(
                    f"{self.label} does not show which events were added after version {after}, which was read: "
                    f"{span.reason}"
                )
