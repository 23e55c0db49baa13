"""What a source implements: rows for Spark, and metadata queries without Spark."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from tidegate.core.batch import Latest
from tidegate.core.bounds import BoundRequest
from tidegate.core.bucketing import Buckets, RowDigest
from tidegate.core.change_feed import Span
from tidegate.core.changes import SafeBound, SliceStats
from tidegate.core.fingerprint import Fingerprint
from tidegate.core.grouping import Grouping, Ranges
from tidegate.core.log import Lag, LogSpan
from tidegate.core.manifest import File, Listing, Manifest
from tidegate.core.origin import Origin
from tidegate.core.plan import Prune
from tidegate.core.policies.contract import ColumnMapping, Mode
from tidegate.core.position import Position
from tidegate.core.retention import SlotRetention
from tidegate.core.schema import Schema, SchemaChange
from tidegate.core.slices import Files, Keys, Partition, Slice

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
        """The current time, with a time zone; a lookback counts back from it."""

    @abstractmethod
    def has_snapshot(self) -> bool:
        """Whether all answers and all rows come from one snapshot, so that they are consistent with each other."""

    @abstractmethod
    def verify_unchanged(self) -> None:
        """Called after the last row. Raises SourceMoved if the source changed and was read without a snapshot."""

    @abstractmethod
    def notes(self) -> tuple[str, ...]:
        """Notes on the answers so far, for people: who holds the edge back, which rows wait for a later run."""

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

    def origin(self) -> Origin | None:
        """Where its rows are stored; None if that is not known. May read a lake's metadata, and never starts Spark."""
        return None

    def located(self) -> Origin | None:
        """The same, with what only the source can say: in which schema a table lies that is named alone. Asks it."""
        return self.origin()

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

    @abstractmethod
    def read(self, session: SparkSession, probe: P, parts: Sequence[Slice], schema: Schema) -> DataFrame:
        """The rows of the slices in the probe's snapshot, with the columns and stored types of `schema`, in order."""

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
        """Makes the server retain every change from now on, unless it already does.

        Called before the first load reads a row, so that no change between them is lost.

        Args:
            key: the stream's key, by which changes will be applied.

        Raises:
            ConfigError: the server's log would not identify the changed rows by that key, or cannot be retained.
        """

    def acknowledge(self, state: Mapping[str, Any]) -> None:
        """Lets the server drop what a published position covers; may be repeated.

        Args:
            state: the state of that position.

        Raises:
            SourceError: the server does not answer. Nothing is lost: the next run confirms again.
        """

    def retained(self) -> SlotRetention:
        """What the server retains."""

    def release(self) -> None:
        """Drops everything that the server retains; the stream then needs a full refresh."""


class Log(Protocol):
    """What a probe of a log of changes answers.

    Its source reads a range of the log as one row per event: the columns of the schema (all but the key may be NULL for
    a deleted row), `DELETED` and `ORDER` of `dataframe_ops`, and the columns of `core.log.EVENT_COLUMNS`. ORDER is
    a text that sorts, by code points, in the order of commits at the source; two events of the same order are one
    event that was delivered twice. A changed key is two events: the delete of the old key, then the insert of the new.
    """

    def after(self, state: Mapping[str, Any] | None, *, most: int | None) -> LogSpan:
        """The range of events after a position from an earlier answer; None for the log's beginning.

        Args:
            most: events to read at most; None for all there are.

        Raises:
            HistoryGone: the log lost events after the position, is a different log, or ends before the position.
        """

    def lag(self, state: Mapping[str, Any] | None) -> Lag:
        """How far a position is behind the log's end, answered without a plan to read anything.

        Raises:
            HistoryGone: as `after` does.
        """

    def read_twice(
        self, session: SparkSession, parts: Sequence[Slice], *, values: bool
    ) -> tuple[Fingerprint, Fingerprint] | None:
        """Fingerprints of these parts' records as Spark reads them and as an independent reader does.

        Args:
            values: compare values, not only the number of records.

        Returns:
            None if there is no other reader.
        """


class ListedFiles(Protocol):
    """What a probe of files answers in addition."""

    @property
    def carrier(self) -> str | None:
        """The column with the path of each row's file; None if rows have none."""

    def listing(self, known: Manifest | None) -> Listing:
        """All files, listed once, without Spark.

        Args:
            known: files whose content need not be hashed again if their stamp is unchanged.

        Raises:
            SourceRefused: the folder or file does not exist.
        """

    def choose(self, files: Iterable[File], columns: Mapping[str, str]) -> None:
        """Chooses the files that are read, and that determine the columns from here on.

        Args:
            files: the files; only path and load are used.
            columns: types by name from earlier loads; they also apply if these files show less. A column that was left
                out has an empty type.
        """

    def restored(self, files: Files, keys: Keys, latest: Latest) -> Fingerprint:
        """Fingerprint of the latest row of each of these keys in the `older` files of a slice.

        Used if a load removes the newest row of a key.

        Args:
            latest: its order has `core.manifest.LOADED`.
        """


class TableVersions(Protocol):
    """What a probe of a table with versions answers."""

    def between(self, after: str) -> Span:
        """The changes after that version, up to the one that is read. Raises HistoryGone."""

    def present(self, session: SparkSession, keys: DataFrame, key: Sequence[str]) -> DataFrame:
        """The rows of some keys, in the version that is read."""


class RescuesColumns(Protocol):
    """Reads some of a table's columns, and packs others into one column."""

    def map_columns(self, mapping: ColumnMapping) -> None:
        """Restricts the probe to the columns that the mapping loads, and `RESCUED` for those that it rescues.

        Called before any other question.
        """

    def left_out(self) -> Mapping[SchemaChange, Mode]:
        """The changes of columns that are dropped, rescued as text in `RESCUED`, or cast to the table's type."""


class DetectsRestore(Protocol):
    """Distinguishes a source that continued from one that was restored from a backup and written to again."""

    def witness(self, cursor: Sequence[str], since: Position | None) -> Mapping[str, Any]:
        """Evidence of the source's state at this moment, stored in the next position; JSON types only."""

    def restore_reason(self, since: Position) -> str | None:
        """Why the source cannot have continued from that position, in a sentence; None without evidence."""

    def follows(self) -> bool:
        """Whether it replicates another server, so that it may just be behind."""
