"""What a source implements: rows for Spark, and metadata queries without Spark."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import TYPE_CHECKING, ClassVar, Protocol, Self, TypeVar

from tidegate.core.batch import Latest
from tidegate.core.bounds import BoundRequest
from tidegate.core.bucketing import Buckets, RowDigest
from tidegate.core.changes import SafeBound, SliceStats
from tidegate.core.connector import CapturedTable
from tidegate.core.fingerprint import Fingerprint
from tidegate.core.grouping import Grouping, Ranges
from tidegate.core.origin import Origin
from tidegate.core.plan import Prune
from tidegate.core.policies.retention import Kept
from tidegate.core.ports.capabilities import (
    DetectsRestore,
    ListedFiles,
    Log,
    ReplicationSlot,
    RescuesColumns,
    TableVersions,
)
from tidegate.core.retention import SlotRetention
from tidegate.core.schema import Schema
from tidegate.core.slices import Partition, Slice

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Probe(Protocol):
    """Answers small questions about a source, without Spark. Probes inherit from this class.

    Every answer, and every row read while the probe is open, comes from one snapshot if the source offers one. Only the
    bound is taken before it, when the source is opened; so questions can be asked in any order.

    Optional capabilities are `log`, `files`, `versions`, `rescue` and `restore`; None if a source lacks them.
    """

    @property
    def log(self) -> Log | None:
        """What a log of changes can answer."""
        return None

    @property
    def files(self) -> ListedFiles | None:
        """What a folder of files can answer."""
        return None

    @property
    def versions(self) -> TableVersions | None:
        """What a table that keeps its versions can answer."""
        return None

    @property
    def rescue(self) -> RescuesColumns | None:
        """Loading without some columns, or with several packed into one."""
        return None

    @property
    def restore(self) -> DetectsRestore | None:
        """Detection that the source was restored from a backup."""
        return None

    @property
    def row_bytes(self) -> int:
        """Of a row on average, as the source estimates it; 0 where it does not."""
        return 0

    @abstractmethod
    def schema(self) -> Schema:
        """The columns that a load reads.

        Raises:
            ColumnMissing: the source, or a column that the project names, does not exist.
            ColumnsUnknown: only rows would show the columns, and there are none yet.
            SchemaRefused: the lake has no exact type for a column.
        """

    @abstractmethod
    def identity(self) -> str:
        """Identifies server and relation; a different text means a different history."""

    @abstractmethod
    def clock(self) -> int | None:
        """A number that only increases while the source is not restored; None if there is none."""

    @abstractmethod
    def version(self) -> str | None:
        """A text that identifies the current rows of the source; None if only the rows themselves can."""

    @abstractmethod
    def unique(self, key: Sequence[str]) -> bool:
        """Whether the source guarantees one row for each value of `key` and no NULL in it."""

    @abstractmethod
    def edge(self) -> SafeBound:
        """The bound that the source was opened with, taken before any row was looked at."""

    @abstractmethod
    def stats(self, part: Slice) -> SliceStats:
        """Rows, last cursor and bytes of a slice."""

    @abstractmethod
    def key_bounds(self, part: Slice, column: str) -> Prune | None:
        """Least and greatest value of a column in a slice; None for an empty slice or a type without order."""

    @abstractmethod
    def fingerprint(self, part: Slice, *, latest: Latest | None = None) -> Fingerprint:
        """Fingerprint of the slice's rows over the covered columns; of the latest row a key if `latest` is given."""

    @abstractmethod
    def count(self, part: Slice, *, latest: Latest | None = None) -> int:
        """Rows of the slice, counted by the source."""

    @abstractmethod
    def partitions(
        self, grouping: Grouping, *, since: Partition | None = None, only: Sequence[Slice] = ()
    ) -> Mapping[Slice, Fingerprint]:
        """Fingerprint of every partition that has rows, asked by one grouped statement.

        Args:
            since: restricts the answer to the rows of this slice and to rows whose column is NULL.
            only: these partitions; all of them if none is given.
        """

    @abstractmethod
    def quick_hashes(self, grouping: Grouping, *, since: Partition | None = None) -> Mapping[Slice, str] | None:
        """The source engine's own hash of every partition, over all columns; None if it has none."""

    @abstractmethod
    def spread(
        self, part: Slice, key: Sequence[str], buckets: Buckets, *, latest: Latest | None = None
    ) -> Mapping[str, Fingerprint]:
        """Fingerprint of every bucket of the slice that has rows, asked by one grouped statement."""

    @abstractmethod
    def digests(
        self, part: Slice, key: Sequence[str], buckets: Buckets, *, latest: Latest | None = None
    ) -> Sequence[RowDigest]:
        """Key and md5 of the rows in the named buckets, including rows beyond the slice; with `latest`, one per key."""

    @abstractmethod
    def condition(self, part: Slice) -> str:
        """The slice as a condition in the source's language, for people."""

    @abstractmethod
    def now(self) -> datetime:
        """The time of the snapshot, with a time zone: all that was written before is in it.

        By the source's own clock where it has one to ask. It dates what the answers show, and a lookback counts back
        from it.
        """

    @abstractmethod
    def has_snapshot(self) -> bool:
        """Whether all answers and all rows come from one snapshot, so that they are consistent with each other."""

    @abstractmethod
    def verify_unchanged(self) -> None:
        """Called after the last row. Raises SourceMoved if the source changed and was read without a snapshot."""

    def cancel(self) -> None:
        """Ends a question that nobody waits for any longer, where the source can."""
        return

    @abstractmethod
    def notes(self) -> tuple[str, ...]:
        """Notes on the answers so far, for people: who holds the edge back, which files wait for a later run."""

    def at_bound(self) -> SliceStats:
        """Statistics of the rows that were asked for up to the safe bound, and of those beyond it."""
        return SliceStats(rows=0)

    def ahead(self) -> int:
        """Rows that the source itself leaves to a later load, because their cursor is ahead of the clock."""
        return 0

    def safe_bound(self) -> str | None:
        """The value of the bound that the source was opened with; None if only a further query would show it."""
        return None

    def ranges(self) -> Ranges | None:
        """The ranges of a column by which the source is partitioned; None if sources of this kind never are.

        Raises:
            PlanError: the source is partitioned in another way.
        """
        return None

    def quick_hash(self, names: Sequence[str]) -> tuple[int, str] | None:  # noqa: ARG002 - by default there is none
        """The number of rows, and the engine's own hash of these columns over all rows; cheaper than a fingerprint.

        Comparable only with earlier answers of the same source: an equal hash means equal values. None if the engine
        has no such hash.
        """
        return None

    def own_fingerprint(self) -> str | None:
        """Of all rows over all columns, also those that no fingerprint covers, as the source itself writes them.

        Comparable only with what the same source answered before, so it shows a change and proves no table. None
        where a column has no exact text at the source either.
        """
        return None


class SparkProvider(Protocol):
    """Provides Spark sessions; the first call may start a JVM."""

    def load_session(self, *, small: bool = False) -> SparkSession:
        """A separate session. Raises EnvironmentMissing."""

    def release(self, session: SparkSession) -> None:
        """Ends a session from `load_session`."""


P = TypeVar("P", bound=Probe)


class Source(Protocol[P]):
    """Where rows come from. Sources inherit from this class; `P` is the class of their probes.

    `packs` says that its probes support `Probe.rescue`.
    """

    packs: ClassVar[bool] = False

    @property
    def replication_slot(self) -> ReplicationSlot | None:
        """The log that its server retains until it is confirmed; None if it retains nothing for one reader."""
        return None

    def retained(self) -> SlotRetention | None:
        """What the server retains of its log for the stream, or for the connector that fills its topic. Asks it."""
        slot = self.replication_slot
        return slot.retained() if slot is not None else None

    @property
    def captured(self) -> CapturedTable | None:
        """The table whose changes a connector writes for it; None where there is no connector, or none is known."""
        return None

    def origin(self) -> Origin | None:
        """Where its rows are stored; None if that is not known. May read a lake's metadata, and never starts Spark."""
        return None

    def located(self) -> Origin | None:
        """The same, with what only the source can say: in which schema a table lies that is named alone. Asks it."""
        return self.origin()

    def refuse_urls(self) -> None:
        """Raises ConfigError for the URL of a connection that can be opened nowhere. Asks nobody."""
        return

    def in_the_clear(self) -> tuple[str, ...]:
        """A warning for each connection on which others may read what is sent. Asks nobody."""
        return ()

    @abstractmethod
    def probe(
        self, sparks: SparkProvider | None = None, bound: BoundRequest | None = None
    ) -> AbstractContextManager[P]:
        """Opens the source without Spark; while open, its snapshot is held.

        Args:
            bound: the bound to determine before the snapshot, see `Probe.edge`.
            sparks: for sources whose rows only Spark can count and compare: questions that metadata cannot answer
                start a session, and only those. A database answers everything itself.

        Raises:
            SourceUnavailable: it cannot be reached.
            EdgeUnknown: the bound cannot be determined.
        """

    def retaining(self, kept: Kept) -> Source[P] | None:  # noqa: ARG002 - by default it cannot
        """The source whose every answer and row is of those that are kept; None if it cannot be asked for them."""
        return None

    @abstractmethod
    def read(self, session: SparkSession, probe: P, parts: Sequence[Slice], schema: Schema) -> DataFrame:
        """The rows of the slices in the probe's snapshot, with the columns and stored types of `schema`, in order."""

    def smaller(self) -> Self:
        """The same rows, of which Spark holds fewer at a time: the next attempt where it did not survive."""
        return self

    @abstractmethod
    def jars(self) -> tuple[str, ...]:
        """Maven coordinates that Spark needs to read it."""

    @abstractmethod
    def spark_conf(self) -> Mapping[str, str]:
        """Settings that a session needs to read it."""
