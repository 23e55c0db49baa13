"""A source whose rows are a list in memory: what a test changes between two loads, and reads through every stage."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from tidegate.core.batch import Latest
from tidegate.core.bounds import BoundRequest, SequenceBound
from tidegate.core.bucketing import Buckets, RowDigest
from tidegate.core.changes import SafeBound, SliceStats
from tidegate.core.fingerprint import Fingerprint
from tidegate.core.grouping import NULL_LABEL, Grouping
from tidegate.core.plan import Prune
from tidegate.core.ports.source import Probe, Source, SparkProvider
from tidegate.core.schema import Kind, Schema
from tidegate.core.slices import Partition, Range, Slice
from tidegate.dialects.shared.time_bounds import inclusive, must_be_time
from tidegate.errors import ConfigError, InternalError, SchemaRefused
from tidegate.testing.frames import frame
from tidegate.testing.rows import Rows, greatest, md5

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Clock:
    """A clock that moves when a test moves it.

    Args:
        now: the time that it shows, aware.

    Example:
        >>> clock = Clock(datetime(2025, 1, 1, tzinfo=UTC))
        >>> clock.advance(timedelta(hours=1))
        >>> clock().isoformat()
        '2025-01-01T01:00:00+00:00'
    """

    def __init__(self, now: datetime = datetime(2030, 1, 1, tzinfo=UTC)) -> None:
        self._now = now
        self._lock = threading.Lock()

    def __call__(self) -> datetime:
        """The time, aware."""
        with self._lock:
            return self._now

    def advance(self, by: timedelta) -> None:
        """Moves the clock."""
        with self._lock:
            self._now += by


@dataclass(slots=True, kw_only=True)
class MemorySource(Source["MemoryProbe"]):
    """Rows in memory as a source, for tests.

    A probe copies the rows when it is opened and answers from that copy, so a test may change `rows` at any time. The
    safe bound is the last moment before the clock's time, or for numbers the greatest one.

    Args:
        schema: the columns, and the order in which they are read.
        rows: one mapping a row, from names of columns to values of the stored types; an absent name is NULL.
        key: columns of which the source guarantees one row for each value; it holds only while the rows keep it.
        name: what identifies the source; another name is another history.
        clock: the time at the source; one that goes back is a source that was restored.
    """

    kind: ClassVar[str] = "memory"

    schema: Schema
    rows: list[dict[str, Any]] = field(default_factory=list)
    key: tuple[str, ...] = ()
    name: str = "memory"
    clock: Clock = field(default_factory=Clock)

    @contextmanager
    def probe(self, sparks: SparkProvider | None = None, bound: BoundRequest | None = None) -> Iterator[MemoryProbe]:
        """Opens a copy of the rows.

        Raises:
            SchemaRefused: a row has a name that is not a column's.
            ColumnMissing, ConfigError: the bound's column is missing or cannot be followed.
        """
        del sparks  # nothing is asked of Spark
        known = set(self.schema.names)
        unknown = sorted({name for row in self.rows for name in row} - known)
        if unknown:
            raise SchemaRefused(
                f"the rows of {self.name} have {unknown[0]!r}, which is not a column", column=unknown[0]
            )
        copied = Rows(schema=self.schema, rows=tuple(dict(row) for row in self.rows))
        yield MemoryProbe(name=self.name, held=copied, at=self.clock(), key=self.key, bound=bound)

    def read(self, session: SparkSession, probe: MemoryProbe, parts: Sequence[Slice], schema: Schema) -> DataFrame:
        """The rows of the slices as they were when the probe was opened."""
        return frame(session, schema.columns, probe.held.among(parts))

    def jars(self) -> tuple[str, ...]:
        """None."""
        return ()

    def spark_conf(self) -> Mapping[str, str]:
        """None."""
        return {}


class MemoryProbe(Probe):
    """The rows of one moment; every answer is computed in plain Python."""

    def __init__(
        self, *, name: str, held: Rows, at: datetime, key: tuple[str, ...], bound: BoundRequest | None
    ) -> None:
        self.held = held
        self._name, self._at, self._key = name, at, key
        self._edge = None if bound is None else _safe(held, at, bound)
        self._later: dict[str, int] = {}

    def schema(self) -> Schema:
        """The columns that a load reads."""
        return self.held.schema

    def identity(self) -> str:
        """The source's name."""
        return f"memory:{self._name}"

    def clock(self) -> int:
        """Microseconds of the source's clock."""
        return int(self._at.timestamp() * 1_000_000)

    def version(self) -> str:
        """The md5 of all rows and columns, whatever the order of the rows."""
        rows = sorted(repr([row.get(name) for name in self.held.schema.names]) for row in self.held.rows)
        return md5("\n".join((self.held.schema.digest, *rows)))

    def unique(self, key: Sequence[str]) -> bool:
        """Whether the source's key lies within these columns, and its rows keep it."""
        if not self._key or not set(self._key) <= set(key):
            return False
        keys = [self.held.key(row, self._key) for row in self.held.rows]
        return len(set(keys)) == len(keys) and all(None not in each for each in keys)

    def edge(self) -> SafeBound:
        """The bound that the source was opened with."""
        if self._edge is None:
            raise InternalError("a source that was opened without a bound was asked for one")
        return self._edge

    def safe_bound(self) -> str | None:
        """The safe bound, if one was asked for."""
        return self._edge.upto if self._edge is not None else None

    def stats(self, part: Slice) -> SliceStats:
        """Rows, last cursor and bytes of a slice."""
        found = self.held.stats(part)
        if isinstance(part, Range) and part.upto is not None:
            self._later[part.upto] = max(found.later, self._later.get(part.upto, 0))
        return replace(found, bytes=64 * found.rows)

    def key_bounds(self, part: Slice, column: str) -> Prune | None:
        """Least and greatest value of a column in a slice."""
        return self.held.key_bounds(part, column)

    def fingerprint(self, part: Slice, *, latest: Latest | None = None) -> Fingerprint:
        """Fingerprint of the slice's rows."""
        return self.held.fingerprint(self.held.last(self.held.among([part]), latest))

    def count(self, part: Slice, *, latest: Latest | None = None) -> int:
        """Rows of the slice."""
        return len(self.held.last(self.held.among([part]), latest))

    def partitions(
        self, grouping: Grouping, *, since: Partition | None = None, only: Sequence[Slice] = ()
    ) -> Mapping[Slice, Fingerprint]:
        """Fingerprint of every partition that has rows."""
        return self.held.partitions(grouping, self._scope(since, only))

    def quick_hashes(self, grouping: Grouping, *, since: Partition | None = None) -> None:
        """None: rows in memory have no hash beside their fingerprint."""
        del grouping, since

    def spread(
        self, part: Slice, key: Sequence[str], buckets: Buckets, *, latest: Latest | None = None
    ) -> Mapping[str, Fingerprint]:
        """Fingerprint of every bucket of the slice that has rows."""
        return self.held.spread(self.held.last(list(self.held.in_buckets(part, key, buckets)), latest), key, buckets)

    def digests(
        self, part: Slice, key: Sequence[str], buckets: Buckets, *, latest: Latest | None = None
    ) -> Sequence[RowDigest]:
        """The rows of the named buckets by key and md5, also those beyond the slice."""
        return self.held.digests(part, key, buckets, latest)

    def condition(self, part: Slice) -> str:
        """The slice's label."""
        return part.label

    def now(self) -> datetime:
        """The clock's time when the source was opened."""
        return self._at

    def has_snapshot(self) -> bool:
        """Always: the rows were copied."""
        return True

    def verify_unchanged(self) -> None:
        """Nothing: a copy does not change."""

    def at_bound(self) -> SliceStats:
        """Of the rows beyond the safe bound."""
        return SliceStats(rows=0, later=self._later.get(self.safe_bound() or "", 0))

    def notes(self) -> tuple[str, ...]:
        """None."""
        return ()

    def _scope(self, since: Partition | None, only: Sequence[Slice]) -> Sequence[Mapping[str, Any]]:
        if only:
            return self.held.among(only)
        if since is None:
            return self.held.rows
        return self.held.among([since, Partition(column=since.column, label=NULL_LABEL)])


def _safe(held: Rows, at: datetime, bound: BoundRequest) -> SafeBound:
    column = held.column(bound.column)
    if isinstance(bound, SequenceBound):
        if column.type.kind is not Kind.INTEGER:
            raise ConfigError(f"column {column.name!r} is {column.type}, and a sequence needs an integer")
        texts = (text for row in held.rows if (text := held.text(row, column.name)) is not None)
        return SafeBound(upto=greatest(column.type, texts))
    must_be_time(column.name, column.type)
    return SafeBound(upto=inclusive(at, bound.lag, column.type, bound.time_zone or "UTC"))
