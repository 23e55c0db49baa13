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
    """Small questions to a source, answered without Spark. A probe is a subclass.

    Every question, and every row read while the probe is open, sees one snapshot where the source offers one. Only the
    bound is taken before it, when the source is opened; so questions can come in any order.

    What only some sources can answer is `log`, `files`, `versions`, `rescue` and `restore`: None where a source cannot.
    """

    @property
    def log(self) -> Log | None:
        """Of a log of changes."""
        return None

    @property
    def files(self) -> ListedFiles | None:
        """Of files."""
        return None

    @property
    def versions(self) -> TableVersions | None:
        """Of a table that keeps its versions."""
        return None

    @property
    def rescue(self) -> RescuesColumns | None:
        """Of a source whose columns can be left out, or kept in one."""
        return None

    @property
    def restore(self) -> DetectsRestore | None:
        """Of a source that notices that it was restored from a copy."""
        return None

    @abstractmethod
    def schema(self) -> Schema:
        """The columns that a load reads.

        Raises:
            ColumnMissing: the source, or a column that the project names, is not there.
            ColumnsUnknown: only rows would show them, and there are none yet.
            SchemaRefused: a type that cannot be kept.
        """

    @abstractmethod
    def identity(self) -> str:
        """Server and relation; another text means another history."""

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
            since: only rows that it holds, and those whose column is NULL.
            only: only these partitions; all of them if none is given.
        """

    @abstractmethod
    def quick_hashes(self, grouping: Grouping, *, since: Partition | None = None) -> Mapping[Slice, str] | None:
        """The engine's own hash of every partition, over all columns, comparable with its own; None without one."""

    @abstractmethod
    def spread(
        self, part: Slice, key: Sequence[str], buckets: Buckets, *, latest: Latest | None = None
    ) -> Mapping[str, Fingerprint]:
        """Fingerprint of every bucket of the slice that has rows, asked by one grouped statement."""

    @abstractmethod
    def digests(
        self, part: Slice, key: Sequence[str], buckets: Buckets, *, latest: Latest | None = None
    ) -> Sequence[RowDigest]:
        """The rows of the named buckets by key and md5, also those beyond the slice; with `latest` the last of both."""

    @abstractmethod
    def condition(self, part: Slice) -> str:
        """The slice in the source's own words, for people."""

    @abstractmethod
    def now(self) -> datetime:
        """The time, aware; what a lookback counts back from."""

    @abstractmethod
    def has_snapshot(self) -> bool:
        """Whether one snapshot holds every answer and every row that is read, so that one can stand for the other."""

    @abstractmethod
    def verify_unchanged(self) -> None:
        """Asked after the last row was read. Raises SourceMoved when no snapshot held the source and it changed."""

    @abstractmethod
    def notes(self) -> tuple[str, ...]:
        """What people should know of the answers given so far: who holds the edge, rows held back for later."""

    def safe_bound(self) -> str | None:
        """The value of the bound that the source was opened with; None where it takes another question to know it."""
        return None

    def ranges(self) -> Ranges | None:
        """The ranges of a column in which the source keeps its rows; None where no source of its kind keeps any.

        Raises:
            PlanError: this one keeps them otherwise.
        """
        return None

    def quick_hash(self, names: Sequence[str]) -> tuple[int, str] | None:  # noqa: ARG002 - by default there is none
        """Rows, and the engine's own hash over these columns of all of them, at a fraction of a fingerprint's price.

        Comparable only with what the same source answered before: an equal hash means equal values. None without one.
        """
        return None


class SparkProvider(Protocol):
    """Gives sessions to whoever has rows for Spark; the first call may start a JVM."""

    def load_session(self, *, small: bool = False) -> SparkSession:
        """A session of one's own. Raises EnvironmentMissing."""

    def release(self, session: SparkSession) -> None:
        """Ends a session that `load_session` gave."""


P = TypeVar("P", bound=Probe)


class Source(Protocol[P]):
    """Where rows come from. A source is a subclass, and `P` the class of its probes.

    `packs` says that its probes can leave out columns of a table, see `Probe.rescue`.
    """

    packs: ClassVar[bool] = False

    @property
    def replication_slot(self) -> ReplicationSlot | None:
        """What its server retains for it until it is confirmed; None where a server keeps nothing for one reader."""
        return None

    def origin(self) -> Origin | None:
        """Where its rows are; None where nobody can say. May look at metadata of a lake, and never starts Spark."""
        return None

    @abstractmethod
    def probe(
        self, sparks: SparkProvider | None = None, bound: BoundRequest | None = None
    ) -> AbstractContextManager[P]:
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
    def read(self, session: SparkSession, probe: P, parts: Sequence[Slice], schema: Schema) -> DataFrame:
        """The rows of the slices, columns of `schema` in order with its stored types, in its own probe's snapshot."""

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

    def retained(self) -> SlotRetention:
        """What the server retains."""

    def release(self) -> None:
        """Drops everything that the server retains; the stream then needs a full refresh."""


class Log(Protocol):
    """What a probe of a log of changes answers.

    What its source reads of a range of it: one row an event, the columns of the schema (those of a deleted row may be
    NULL beside its key), `frames.DELETED`, `frames.ORDER`, and the columns of `core.log.EVENT_COLUMNS`. ORDER is a text
    that sorts, by code points, as the source committed; two events of one order are the same event, delivered twice. A
    change of a key is two events, the old key's end before the new key's beginning.
    """

    def after(self, state: Mapping[str, Any] | None, *, most: int | None) -> LogSpan:
        """The events after a position from an earlier answer; None for the log's beginning.

        Args:
            most: events to read at most; None for all there are.

        Raises:
            HistoryGone: the log has lost events after the position, is not the one that was read, or ends before it.
        """

    def lag(self, state: Mapping[str, Any] | None) -> Lag:
        """How far a position is behind the log's end, answered without a plan to read anything.

        Raises:
            HistoryGone: as `after` does.
        """

    def read_twice(
        self, session: SparkSession, parts: Sequence[Slice], *, values: bool
    ) -> tuple[Fingerprint, Fingerprint] | None:
        """The records of these parts as Spark reads them, and as a reader does that shares nothing with Spark's.

        Args:
            values: not only how many records there are.

        Returns:
            None where there is no other reader.
        """


class ListedFiles(Protocol):
    """What a probe of files answers beside the questions of every probe."""

    @property
    def carrier(self) -> str | None:
        """The column that carries the path of each row's file; None where rows do not carry it."""

    def listing(self, known: Manifest | None) -> Listing:
        """Every file there is, asked once, without Spark.

        Args:
            known: contents that need not be hashed again where a file's stamp is the one that is known.

        Raises:
            SourceRefused: there is no such folder or file.
        """

    def choose(self, files: Iterable[File], columns: Mapping[str, str]) -> None:
        """The files that are read and tell the columns from here on.

        Args:
            files: of which path and load count.
            columns: types by name, of loads before this one; they hold also where these files say less.
        """

    def restored(self, files: Files, keys: Keys, latest: Latest) -> Fingerprint:
        """What the `older` files of a slice hold of these keys: of each the latest row.

        Asked where a load removes the newest row of a key.

        Args:
            latest: its order has `core.manifest.LOADED`.
        """


class TableVersions(Protocol):
    """What a probe of a table with versions answers."""

    def between(self, after: str) -> Span:
        """What happened after that version up to the one that is read. Raises HistoryGone."""

    def present(self, session: SparkSession, keys: DataFrame, key: Sequence[str]) -> DataFrame:
        """The rows of some keys, in the version that is read."""


class RescuesColumns(Protocol):
    """Reads some of a table's columns, and packs others into one."""

    def map_columns(self, mapping: ColumnMapping) -> None:
        """From now on there are only the columns that the mapping leaves, and `RESCUED` for those that it keeps.

        Asked before anything else.
        """

    def left_out(self) -> Mapping[SchemaChange, Mode]:
        """The changes that the table sees nothing of, no more than a text in `RESCUED`, or values of its own type."""


class DetectsRestore(Protocol):
    """Tells a history that went on from one that was set back (by a backup) and written further."""

    def witness(self, cursor: Sequence[str], since: Position | None) -> Mapping[str, Any]:
        """What is kept of this moment, after that position; JSON types only."""

    def restore_reason(self, since: Position) -> str | None:
        """Why the source cannot have come here from that position, in a sentence; None where nothing says so."""

    def follows(self) -> bool:
        """Whether it replays the history of another server, so that it may just be late."""
