"""What a source implements: rows for Spark, and metadata queries without Spark."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

from tidegate.core.batch import Latest
from tidegate.core.bounds import BoundRequest
from tidegate.core.bucketing import Buckets, RowDigest
from tidegate.core.changes import SafeBound, SliceStats
from tidegate.core.fingerprint import Fingerprint
from tidegate.core.grouping import Grouping, Ranges
from tidegate.core.plan import Prune
from tidegate.core.retention import Retained
from tidegate.core.schema import Schema
from tidegate.core.slices import Partition, Slice

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Probe(Protocol):
    """Small questions to a source, answered without Spark.

    Every question, and every row read while the probe is open, sees one snapshot where the source offers one. Only the
    bound is taken before it, when the source is opened; so questions can come in any order.
    """

    def schema(self) -> Schema:
        """The columns that a load reads. Raises ColumnMissing, SchemaRefused (a type that cannot be kept)."""

    def identity(self) -> str:
        """Server and relation; another text means another history."""

    def clock(self) -> int | None:
        """A number that only increases while the source is not restored; None if there is none."""

    def version(self) -> str | None:
        """A text that identifies the current rows of the source; None if only the rows themselves can."""

    def unique(self, key: Sequence[str]) -> bool:
        """Whether the source guarantees one row for each value of `key` and no NULL in it."""

    def edge(self) -> SafeBound:
        """The bound that the source was opened with, taken before any row was looked at."""

    def stats(self, part: Slice) -> SliceStats:
        """Rows, last cursor and bytes of a slice."""

    def key_bounds(self, part: Slice, column: str) -> Prune | None:
        """Least and greatest value of a column in a slice; None for an empty slice or a type without order."""

    def fingerprint(self, part: Slice, *, latest: Latest | None = None) -> Fingerprint:
        """Fingerprint of the slice's rows over the covered columns; of the latest row a key if `latest` is given."""

    def count(self, part: Slice, *, latest: Latest | None = None) -> int:
        """Rows of the slice, counted by the source."""

    def partitions(
        self, grouping: Grouping, *, since: Partition | None = None, only: Sequence[Slice] = ()
    ) -> Mapping[Slice, Fingerprint]:
        """Fingerprint of every partition that has rows, asked by one grouped statement.

        Args:
            since: only rows that it holds, and those whose column is NULL.
            only: only these partitions; all of them if none is given.
        """

    def quick_hashes(self, grouping: Grouping, *, since: Partition | None = None) -> Mapping[Slice, str] | None:
        """The engine's own hash of every partition, over all columns, comparable with its own; None without one."""

    def spread(
        self, part: Slice, key: Sequence[str], spread: Buckets, *, latest: Latest | None = None
    ) -> Mapping[str, Fingerprint]:
        """Fingerprint of every bucket of the slice that has rows, asked by one grouped statement."""

    def digests(
        self, part: Slice, key: Sequence[str], spread: Buckets, *, latest: Latest | None = None
    ) -> Sequence[RowDigest]:
        """The rows of the named buckets by key and md5, also those beyond the slice; with `latest` the last of both."""

    def condition(self, part: Slice) -> str:
        """The slice in the source's own words, for people."""

    def now(self) -> datetime:
        """The time, aware; what a lookback counts back from."""

    def has_snapshot(self) -> bool:
        """Whether one snapshot holds every answer and every row that is read, so that one can stand for the other."""

    def verify_unchanged(self) -> None:
        """Asked after the last row was read. Raises SourceMoved when no snapshot held the source and it changed."""

    def notes(self) -> tuple[str, ...]:
        """What people should know of the answers given so far: who holds the edge, rows held back for later."""


@runtime_checkable
class KeepsRanges(Protocol):
    """A probe of a source that may keep its rows in ranges of a column."""

    def ranges(self) -> Ranges:
        """Those in which this source keeps its rows. Raises PlanError where it keeps them otherwise."""


class Sparks(Protocol):
    """Gives sessions to whoever has rows for Spark; the first call may start a JVM."""

    def load_session(self, *, small: bool = False) -> SparkSession:
        """A session of one's own. Raises EnvironmentMissing."""

    def release(self, session: SparkSession) -> None:
        """Ends a session that `load_session` gave."""


class Source(Protocol):
    """Where rows come from. A source is a subclass.

    `packs` says that its probes can leave out columns of a table, see `Probe.rescue`.
    """

    packs: ClassVar[bool] = False

    @property
    def replication_slot(self) -> ReplicationSlot | None:
        """What its server retains for it until it is confirmed; None where a server keeps nothing for one reader."""
        return None

    @abstractmethod
    def probe(self, sparks: Sparks | None = None, bound: BoundRequest | None = None) -> AbstractContextManager[Probe]:
        """Opens the source without Spark; while open, its snapshot is held.

        Args:
            bound: what to take before the snapshot, see `Probe.edge`.
            sparks: for a source whose rows only Spark can count and compare: what its probe cannot answer from
                metadata starts one, and only that. A database answers everything itself.

        Raises:
            SourceUnavailable: it cannot be reached.
            EdgeUnknown: no bound can be known.
        """

    @abstractmethod
    def read(self, session: SparkSession, probe: Probe, parts: Sequence[Slice], schema: Schema) -> DataFrame:
        """The rows of the slices, columns of `schema` in order with its stored types, in the probe's snapshot."""

    @abstractmethod
    def jars(self) -> tuple[str, ...]:
        """Maven coordinates that Spark needs to read it."""

    @abstractmethod
    def spark_conf(self) -> Mapping[str, str]:
        """Settings that a session needs to read it."""


class ReplicationSlot(Protocol):
    """The log that a server retains for one reader until it is confirmed.

    Only what a table's own position covers may be confirmed.
    """

    def claim(self, key: Sequence[str]) -> None:
        """Makes the server keep every change from now on, where it does not yet.

        Called before the first row of a table is read that has no position, so that nothing falls in between.

        Args:
            key: of the stream, by which changes will be applied.

        Raises:
            ConfigError: the server's log would not say which row of that key changed, or cannot be kept.
        """

    def acknowledge(self, state: Mapping[str, Any]) -> None:
        """Lets the server forget what a published position covers; any number of times, nothing where it has.

        Args:
            state: of that position.

        Raises:
            SourceError: it does not answer; nothing is lost, the next run tells it again.
        """

    def retained(self) -> Retained:
        """What the server retains."""

    def release(self) -> None:
        """Drops everything that the server retains; the stream then needs a full refresh."""
