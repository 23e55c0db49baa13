"""What a table format implements: table state without Spark, and loads that are staged, then published or discarded."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tidegate.core.change_feed import Span
from tidegate.core.grouping import Grouping
from tidegate.core.ids import Target
from tidegate.core.plan import LoadPlan, Prune
from tidegate.core.policies.maintenance import Need, Step, Upkeep, Usage, Version
from tidegate.core.position import Position
from tidegate.core.schema import Schema, SchemaChange
from tidegate.core.slices import Slice
from tidegate.core.table_facts import Snippets, TableFacts

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The layout of a new table; the `layout:` of a stream.

    Args:
        partition_by: columns or transforms: `days(created_at)`, `bucket(16, id)`, `truncate(4, code)`, `region`; on
            Delta only columns.
        sort_by: the columns that rows are sorted by within files.
        format_version: the version of the Iceberg format, 2 or 3.
        deletion_vectors: whether small changes of a Delta table mark rows as deleted beside their files, which readers
            have to understand; as the lake says unless given.
    """

    partition_by: tuple[str, ...] = ()
    sort_by: tuple[str, ...] = ()
    format_version: int = 2
    deletion_vectors: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SinceLoad:
    """What is known of a table since the load that its position is of.

    Args:
        same_rows: no row came or went; False where that is not known.
        partitioning: the number of the way in which new rows are partitioned now; 0 for a new table.
    """

    same_rows: bool = False
    partitioning: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TableState:
    """The state of a table, read without Spark.

    Args:
        exists: the catalog knows it.
        uuid: the table's own identity.
        snapshot: the visible snapshot; None for an empty table.
        rows: rows of the visible snapshot; None when its summary does not say.
        position: of the stream asked for, from the ancestors of the visible snapshot.
        position_snapshot: the snapshot that carries it.
        number: of the load that the table stands at, where the table keeps that and not its position any more.
        last_sequence: the greatest number that the table has ever taken of this stream; it takes none below it.
        branches: what a crash left behind, for `drop_branches`: this stream's branches, columns that nobody sees.
        schema: the columns, with stored types.
        location: where its files are.
        since_load: what happened to it since the load with the position.
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
    location: str | None = None
    since_load: SinceLoad = SinceLoad()


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What a published or staged commit did to the table's rows."""

    snapshot: str | None
    rows_inserted: int = 0
    rows_updated: int = 0
    rows_deleted: int = 0


class Staging(Protocol):
    """A load of a table, opened at the plan's base; one write, then publish or discard. A staging is a subclass.

    `invisible` says that nobody sees the write before it is published; else it is seen at once, fenced by itself.
    """

    @property
    @abstractmethod
    def invisible(self) -> bool:
        """Whether nobody sees the write before it is published."""

    @abstractmethod
    def append(self, rows: DataFrame) -> None:
        """Adds the rows."""

    @abstractmethod
    def overwrite(self, rows: DataFrame, parts: Sequence[Slice] | None = None) -> None:
        """The rows become all that the table holds, or all that it holds of these partitions.

        Args:
            parts: of a grouping that the table is aligned with, or files whose names its rows carry; None means the
                whole table.
        """

    @abstractmethod
    def merge(  # noqa: PLR0913 - what a merge is made of
        self,
        rows: DataFrame,
        *,
        prune: Sequence[Prune],
        skip_equal: bool,
        delete_if: str | None = None,
        again: str | None = None,
        by: Sequence[str] = (),
    ) -> None:
        """Updates rows of a known key, inserts the others; `prune` bounds the target side.

        Args:
            skip_equal: rows that are equal in every column are left alone.
            delete_if: a column of `rows`, true for a row whose key is to be deleted, as the plan's `deletes` say.
            again: a column of `rows` that is true where every row of the key is taken away whatever they say, because
                a second merge brings the one that is wanted.
            by: the columns that identify a row of the table, where these are not the plan's key; `rows` then have every
                column of the table.
        """

    @abstractmethod
    def delete(self, keys: DataFrame, *, prune: Sequence[Prune]) -> None:
        """Deletes the rows of these keys as the plan's `deletes` say; `prune` bounds the table's side."""

    @abstractmethod
    def read(self) -> DataFrame:
        """The whole version, as committed; here and below without rows that are marked as deleted."""

    @abstractmethod
    def read_keys(self, keys: DataFrame | None, *, prune: Sequence[Prune]) -> DataFrame:
        """The rows of the whole version, as committed, whose key is among `keys` and within `prune`.

        Args:
            keys: only columns that rows are found by, usually the key; None when `prune` alone says which keys.
        """

    @abstractmethod
    def read_partitions(self, parts: Sequence[Slice]) -> DataFrame:
        """The rows of these partitions of the whole version, as committed."""

    @abstractmethod
    def read_added(self) -> DataFrame:
        """The rows of the files that an append added, as committed."""

    def written(self) -> pa.Table | None:
        """The rows that an append or a merge added, or that stand in the partitions of an overwrite, as committed.

        Read again without Spark, so only where they are few.

        Columns: the plan's covered ones. None where there are too many rows, or where they may not be all that the
        version holds of their keys.
        """
        return None

    @abstractmethod
    def receipt(self) -> Receipt:
        """What the commit did; read from the commit itself."""

    @abstractmethod
    def publish(self) -> Receipt:
        """Makes it visible at once, or not at all. Raises CommitConflict when the table has moved."""

    @abstractmethod
    def discard(self) -> None:
        """Drops it; the table stays as it was."""


class Format(Protocol):
    """A table format in one lake; `invisible` is that of its stagings. A format is a subclass.

    What only some formats can do is `maintenance`, `time_travel`, `change_feed` and `inspection`: None where a format
    cannot.
    """

    @property
    @abstractmethod
    def invisible(self) -> bool:
        """Whether nobody sees a load's write before it is published."""

    @property
    def maintenance(self) -> TableMaintenance | None:
        """How its tables are kept small."""
        return None

    @property
    def time_travel(self) -> TimeTravel | None:
        """The versions of its tables."""
        return None

    @property
    def change_feed(self) -> ChangeFeed | None:
        """The changes between two versions of a table, without which no table is a source."""
        return None

    @property
    def inspection(self) -> TableInspection | None:
        """What its tables tell of themselves without Spark."""
        return None

    @abstractmethod
    def state(self, target: Target, uid: str) -> TableState:
        """Without Spark. Raises WriteError when catalog or metadata cannot be read."""

    @abstractmethod
    def may_hold(self, target: Target, bound: Prune) -> bool:
        """Whether a file may hold a value within the bound, without Spark; yes where nothing proves otherwise."""

    @abstractmethod
    def layout_problems(self, layout: Layout, columns: Schema | None = None) -> Iterable[str]:
        """Why no table of these columns can have that layout, one sentence each; of any columns if none are given."""

    def irreplaceable(self, target: Target, columns: Sequence[str]) -> str | None:  # noqa: ARG002 - by default none can
        """Why these columns of a table cannot get another type with all of its rows; None where they can."""
        return "tables of this format keep the types of their columns"

    @abstractmethod
    def partition_by(self, grouping: Grouping) -> tuple[str, ...]:
        """The layout in which every partition of the grouping is whole files; nothing where there is none."""

    @abstractmethod
    def aligned(self, target: Target, grouping: Grouping) -> bool:
        """Whether every partition of the grouping is whole files, so that it is overwritten without another."""

    @abstractmethod
    def spark_conf(self) -> Mapping[str, str]:
        """Settings that make the lake a catalog of a session."""

    @abstractmethod
    def jars(self) -> tuple[str, ...]:
        """Maven coordinates."""

    @abstractmethod
    def read(self, session: SparkSession, target: Target, snapshot: str | None) -> DataFrame:
        """The rows of one version of the table; none of an empty table."""

    @abstractmethod
    def create(self, session: SparkSession, target: Target, schema: Schema, layout: Layout) -> None:
        """Makes an empty table (and its namespace); no error when it is there already."""

    @abstractmethod
    def evolve(self, session: SparkSession, target: Target, changes: Sequence[SchemaChange], schema: Schema) -> None:
        """Applies changes of columns, all or none visible to a load."""

    @abstractmethod
    def stage(self, session: SparkSession, target: Target, plan: LoadPlan) -> Staging:
        """Opens an invisible version at `plan.base`. Raises CommitConflict when the table is not there any more."""

    @abstractmethod
    def drop_branches(self, session: SparkSession, target: Target, branches: Sequence[str]) -> None:
        """Drops what a crash left behind."""


class TableMaintenance(Protocol):
    """How a format keeps its tables small."""

    def side_tables(self, target: Target) -> tuple[Target, ...]:
        """The tables that belong to a stream beside its own: `<table>__tidegate_…`."""

    def layout_differs(self, target: Target, partition_by: Sequence[str]) -> str | None:
        """Why the table is not partitioned like that; None where it is, or there is no table or nothing asked for."""

    def survey(self, upkeep: Upkeep) -> tuple[Need, ...]:
        """The steps that are worth doing, in order, found from the metadata alone; empty if there is no table.

        Raises:
            ConfigError: the layout asks for what the format cannot change in a table that is there.
        """

    def maintain(self, session: SparkSession, upkeep: Upkeep, step: Step) -> str:
        """Does the step; what it did, for people. The rows and the position of every stream stay as they are.

        Raises:
            CommitConflict: another writer came in between; the step can be done again.
        """

    def usage(self, target: Target) -> Usage | None:
        """What the table takes up in the warehouse; None where that cannot be listed."""


class TableInspection(Protocol):
    """What a format's tables tell of themselves, and how others read them; all of it without Spark."""

    def facts(self, target: Target) -> TableFacts | None:
        """Layout and size of the visible version; None of a table that is not there."""

    def rows(self, target: Target, names: Sequence[str]) -> pa.Table | None:
        """These columns of every row of the visible version; None where only Spark can tell."""

    def snippets(self, target: Target) -> Snippets:
        """By engine a text that reads the table there. It may hold a secret of the catalog's options."""


class TimeTravel(Protocol):
    """The versions of a format's tables, and the way back to one."""

    def versions(self, target: Target, uid: str) -> Sequence[Version]:
        """The versions that are kept, oldest first, without Spark; none of a table that is not there."""

    def rollback(self, session: SparkSession, target: Target, version: str) -> None:
        """Makes that version the visible one; what was made since is kept until it expires.

        Raises:
            CommitConflict: another writer came in between.
        """


class ChangeFeed(Protocol):
    """What a format tells of the changes between two versions of a table, which makes its tables a source."""

    def between(self, target: Target, after: str, upto: str) -> Span:
        """What happened after one version up to another, from the metadata alone, without Spark.

        Raises:
            HistoryGone: the table cannot even be compared any more with what was loaded.
        """

    def enabling_statement(self, target: Target) -> str | None:
        """The statement that enables the table's change data feed; None if it is enabled."""

    def appended(self, session: SparkSession, target: Target, after: str, upto: str) -> DataFrame:
        """The inserted rows, of a range that has nothing else."""

    def changes(self, session: SparkSession, target: Target, after: str, upto: str) -> DataFrame:
        """Every inserted or deleted row.

        Rows: the table's columns; `frames.DELETED`, true for a row that went; `frames.ORDER`, a bigint that is greater
        for a later commit, and within one commit for a row that came: of each key the greatest one counts.
        """
