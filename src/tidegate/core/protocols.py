"""Decides what the open sets owe each other: Probe, Source, Strategy, Writer, Format, Staging.

Implemented by the plugins, called by the engine. Must never name a database, a file format or pyspark at run time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

from tidegate.core.batch import Batch, Checked, Latest
from tidegate.core.bounds import BoundRequest
from tidegate.core.bucketing import Buckets, RowDigest
from tidegate.core.changes import ChangeSet, SafeBound, SliceStats
from tidegate.core.effects import Effect
from tidegate.core.fingerprint import Fingerprint
from tidegate.core.grouping import Grouping, Ranges
from tidegate.core.ids import Target
from tidegate.core.ledger import Ledger
from tidegate.core.plan import LoadPlan, Prune, WriteChoice, WriteFacts
from tidegate.core.position import Position
from tidegate.core.schema import Schema, SchemaChange
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
        """A number that only grows while the history goes on; None where there is none."""

    def version(self) -> str | None:
        """A text that no other rows of this source have; None where only the rows themselves can tell."""

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
    """Where rows come from."""

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

    def read(self, session: SparkSession, probe: Probe, parts: Sequence[Slice], schema: Schema) -> DataFrame:
        """The rows of the slices, columns of `schema` in order with its stored types, in the probe's snapshot."""

    def jars(self) -> tuple[str, ...]:
        """Maven coordinates that Spark needs to read it."""

    def spark_conf(self) -> Mapping[str, str]:
        """Settings that a session needs to read it."""


class Strategy(Protocol):
    """Decides what changed; moves no rows.

    `rereads` says that a row may be read again although it did not change (so `append` would double it).
    `cursor` are the columns whose order says which of two rows of one key is later.
    What it may declare beside that is in `core/compatibility`.
    """

    kind: ClassVar[str]
    emits: ClassVar[frozenset[type[Effect]]]

    @property
    def rereads(self) -> bool:
        """Whether an unchanged row may be read again."""

    @property
    def cursor(self) -> tuple[str, ...]:
        """The columns that order the rows of one key; empty for none."""

    def detect(self, probe: Probe, since: Position | None, kept: Ledger | None = None) -> ChangeSet | None:
        """What changed since the position; None for nothing.

        Args:
            kept: the partitions as they were loaded, when the registry has them and the position vouches for them.
        """

    def problems(self) -> tuple[str, ...]:
        """What is wrong with the options on their own, one sentence each."""

    def resume(self, value: str | None) -> Mapping[str, Any]:
        """The state of a table that holds every row up to a cursor value given as canonical text.

        Raises:
            ConfigError: the strategy has no cursor and a value was given, or it has one and none was.
        """


@runtime_checkable
class Bounded(Protocol):
    """A strategy that reads up to a bound."""

    @property
    def bound_request(self) -> BoundRequest | None:
        """What its source has to be opened with; None where these options need none."""


class Writer(Protocol):
    """Says what happens to the rows; formats say how."""

    kind: ClassVar[str]
    accepts: ClassVar[frozenset[type[Effect]]]
    needs_key: ClassVar[bool]
    idempotent: ClassVar[bool]

    def choose(self, facts: WriteFacts) -> WriteChoice:
        """The mode for such a batch."""

    def check(self, rows: DataFrame, plan: LoadPlan, batch: Batch) -> Checked:
        """The rows made ready: for a keyed table one row a key, looked at before anything is written.

        Raises:
            DuplicateKeys: rows of one key that nothing orders.
            CheckFailed: a NULL in a key column.
        """

    def write(self, checked: Checked, plan: LoadPlan, staging: Staging) -> Checked:
        """One commit that carries the plan's position; what was written, or `skipped` where there is no commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How a new table is laid out; the `layout:` of a stream.

    Args:
        partition_by: columns or transforms: `days(created_at)`, `bucket(16, id)`, `truncate(4, code)`, `region`.
        sort_by: columns in order.
        format_version: of Iceberg, 2 or 3.
    """

    partition_by: tuple[str, ...] = ()
    sort_by: tuple[str, ...] = ()
    format_version: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class TableState:
    """What a table says of itself, read without Spark.

    Args:
        exists: the catalog knows it.
        uuid: the table's own identity.
        snapshot: the visible snapshot; None for an empty table.
        rows: rows of the visible snapshot; None when its summary does not say.
        position: of the stream asked for, from the ancestors of the visible snapshot.
        position_snapshot: the snapshot that carries it.
        number: of the load that the table stands at, where the table keeps that and not its position any more.
        last_sequence: the greatest number that the table has ever taken of this stream; it takes none below it.
        branches: this stream's branches that a crash left behind.
        schema: the columns, with stored types.
        properties: the table's properties.
        location: where its files are.
    """

    exists: bool
    uuid: str | None = None
    snapshot: str | None = None
    rows: int | None = None
    position: Position | None = None
    position_snapshot: str | None = None
    number: int | None = None
    last_sequence: int = 0
    branches: tuple[str, ...] = ()
    schema: Schema | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    location: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What a published or staged commit did to the table's rows."""

    snapshot: str | None
    rows_inserted: int = 0
    rows_updated: int = 0
    rows_deleted: int = 0


class Staging(Protocol):
    """A load of a table, opened at the plan's base; one write, then publish or discard.

    `invisible` says that nobody sees the write before it is published; else it is seen at once, fenced by itself.
    """

    invisible: ClassVar[bool]

    def append(self, rows: DataFrame) -> None:
        """Adds the rows."""

    def overwrite(self, rows: DataFrame, parts: Sequence[Slice] | None = None) -> None:
        """The rows become all that the table holds, or all that it holds of these partitions.

        Args:
            parts: of a grouping that the table is aligned with, or files whose names its rows carry; None means the
                whole table.
        """

    def merge(  # noqa: PLR0913 - what a merge is made of
        self,
        rows: DataFrame,
        *,
        prune: Sequence[Prune],
        skip_equal: bool,
        gone: str | None = None,
        again: str | None = None,
        by: Sequence[str] = (),
    ) -> None:
        """Updates rows of a known key, inserts the others; `prune` bounds the target side.

        Args:
            skip_equal: rows that are equal in every column are left alone.
            gone: a column of `rows` that is true for a row whose key is to be deleted, as the plan's `deletes` say.
            again: a column of `rows` that is true where every row of the key is taken away whatever they say, because
                a second merge brings the one that is wanted.
            by: the columns that identify a row of the table, where these are not the plan's key; `rows` then have every
                column of the table.
        """

    def delete(self, keys: DataFrame, *, prune: Sequence[Prune]) -> None:
        """Deletes the rows of these keys as the plan's `deletes` say; `prune` bounds the table's side."""

    def read(self) -> DataFrame:
        """The whole version, as committed; here and below without rows that are marked as deleted."""

    def read_keys(self, keys: DataFrame | None, *, prune: Sequence[Prune]) -> DataFrame:
        """The rows of the whole version, as committed, whose key is among `keys` and within `prune`.

        Args:
            keys: only columns that rows are found by, usually the key; None when `prune` alone says which keys.
        """

    def read_partitions(self, parts: Sequence[Slice]) -> DataFrame:
        """The rows of these partitions of the whole version, as committed."""

    def read_added(self) -> DataFrame:
        """The rows of the files that an append added, as committed."""

    def receipt(self) -> Receipt:
        """What the commit did; read from the commit itself."""

    def publish(self) -> Receipt:
        """Makes it visible at once, or not at all. Raises CommitConflict when the table has moved."""

    def discard(self) -> None:
        """Drops it; the table stays as it was."""


class Format(Protocol):
    """A table format in one lake; `invisible` is that of its stagings."""

    invisible: ClassVar[bool]

    def state(self, target: Target, uid: str) -> TableState:
        """Without Spark. Raises WriteError when catalog or metadata cannot be read."""

    def may_hold(self, target: Target, bound: Prune) -> bool:
        """Whether a file may hold a value within the bound, without Spark; yes where nothing proves otherwise."""

    def layout_problems(self, layout: Layout) -> Iterable[str]:
        """Why no table can have that layout, whatever its columns, one sentence each."""

    def partition_by(self, grouping: Grouping) -> tuple[str, ...]:
        """The layout in which every partition of the grouping is whole files; nothing where there is none."""

    def aligned(self, target: Target, grouping: Grouping) -> bool:
        """Whether every partition of the grouping is whole files, so that it is overwritten without another."""

    def spark_conf(self) -> Mapping[str, str]:
        """Settings that make the lake a catalog of a session."""

    def jars(self) -> tuple[str, ...]:
        """Maven coordinates."""

    def read(self, session: SparkSession, target: Target, snapshot: str | None) -> DataFrame:
        """The rows of one version of the table; none of an empty table."""

    def create(self, session: SparkSession, target: Target, schema: Schema, layout: Layout) -> None:
        """Makes an empty table (and its namespace); no error when it is there already."""

    def evolve(self, session: SparkSession, target: Target, changes: Sequence[SchemaChange], schema: Schema) -> None:
        """Applies changes of columns, all or none visible to a load."""

    def stage(self, session: SparkSession, target: Target, plan: LoadPlan) -> Staging:
        """Opens an invisible version at `plan.base`. Raises CommitConflict when the table is not there any more."""

    def drop_branches(self, session: SparkSession, target: Target, branches: Sequence[str]) -> None:
        """Drops what a crash left behind."""
