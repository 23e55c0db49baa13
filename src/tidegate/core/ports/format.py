"""What a table format implements: table state without Spark, and loads that are staged, then published or discarded."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tidegate.core.change_feed import Span
from tidegate.core.grouping import Grouping
from tidegate.core.ids import Target
from tidegate.core.loads import LoadRow
from tidegate.core.plan import LoadPlan, Prune
from tidegate.core.policies.maintenance import Maintenance, Need, Step, Upkeep, Usage, Version
from tidegate.core.position import Position
from tidegate.core.schema import Schema, SchemaChange, every
from tidegate.core.slices import Slice
from tidegate.core.source_columns import SourceColumns
from tidegate.core.table_facts import Snippets, TableAddress, TableFacts

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
        deletion_vectors: whether small changes of a Delta table mark rows as deleted; as the lake says unless given.
    """

    partition_by: tuple[str, ...] = ()
    sort_by: tuple[str, ...] = ()
    format_version: int = 2
    deletion_vectors: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SinceLoad:
    """What happened to a table since the load whose position it carries, and how the next one is written.

    Args:
        same_rows: no row was added or removed; False if that is not known.
        partitioning: the id of the current partition spec; 0 for a new table.
        copies_files: every merge writes the files again that hold a changed row, however few rows change.
        source_columns: which column of the source each column is, by its present name; None where no load said so.
    """

    same_rows: bool = False
    partitioning: int = 0
    copies_files: bool = False
    source_columns: SourceColumns | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableState:
    """The state of a table, read without Spark.

    Args:
        exists: whether the catalog has the table.
        uuid: the table's identity.
        snapshot: the visible snapshot; None for an empty table.
        rows: rows of the visible snapshot; None if its summary does not say.
        position: the position of the given stream, from the ancestors of the visible snapshot.
        position_snapshot: the snapshot that carries it.
        number: the number of the last load, if the table still has that but no longer its position.
        last_sequence: the greatest load number of this stream that the table ever accepted; it accepts no lower one.
        branches: what a crash left behind, for `drop_branches`: this stream's branches, and columns no reader sees.
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
    """A load of a table, opened at the plan's base: one write, then publish or discard. To be inherited from.

    `invisible` says that readers see the write only after it is published. Otherwise they see it at once, and the write
    itself is fenced.
    """

    @property
    @abstractmethod
    def invisible(self) -> bool:
        """Whether readers see the write only after it is published."""

    @abstractmethod
    def append(self, rows: DataFrame) -> None:
        """Adds the rows."""

    @abstractmethod
    def overwrite(self, rows: DataFrame, parts: Sequence[Slice] | None = None) -> None:
        """Replaces all rows of the table, or all rows of these partitions.

        Args:
            parts: partitions of a grouping that the table is aligned with, or files whose names its rows carry; None
                for the whole table.
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
            skip_equal: rows that are equal in every column are not written.
            delete_if: a column of `rows`, true for a row whose key is to be deleted, as the plan's `deletes` say.
            again: a column of `rows`, true if all rows of the key are removed regardless of `deletes`, because a second
                merge adds the right one.
            by: the columns that identify a row of the table, if these are not the plan's key; `rows` then have every
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
            keys: only the columns that identify rows, usually the key; None if `prune` alone names the keys.
        """

    @abstractmethod
    def read_partitions(self, parts: Sequence[Slice]) -> DataFrame:
        """The rows of these partitions of the whole version, as committed."""

    @abstractmethod
    def read_added(self) -> DataFrame:
        """The rows of the files that an append added, as committed."""

    def written(self) -> pa.Table | None:
        """The rows that an append or a merge added, or those in the partitions of an overwrite, as committed.

        Read without Spark, so only if they are few.

        Columns: the plan's covered ones. None if there are too many rows, or if the version may hold other rows of
        their keys.
        """
        return None

    @abstractmethod
    def receipt(self) -> Receipt:
        """What the commit did; read from the commit itself."""

    @abstractmethod
    def publish(self) -> Receipt:
        """Makes the load visible atomically. Raises CommitConflict if the table has changed."""

    @abstractmethod
    def discard(self) -> None:
        """Drops the load; the table stays as it was."""


class Format(Protocol):
    """A table format in one lake; `invisible` is that of its stagings. Formats inherit from this class.

    A format may lack the capabilities `maintenance`, `time_travel`, `change_feed`, `inspection` and `ledger`.
    """

    @property
    @abstractmethod
    def invisible(self) -> bool:
        """Whether readers see a load only after it is published."""

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
        """Layout, size and rows of its tables, without Spark."""
        return None

    @property
    def ledger(self) -> Ledger | None:
        """Writing few rows without Spark."""
        return None

    @property
    def root(self) -> str | None:
        """The folder that its tables lie below by default; None if only a catalog knows it."""
        return None

    def placing(self, locations: Mapping[Target, str]) -> Format | None:  # noqa: ARG002 - by default none can
        """The same lake, in which these tables lie elsewhere; None if its tables cannot."""
        return None

    @abstractmethod
    def state(self, target: Target, uid: str, *, takes: Callable[[str], bool] = every) -> TableState:
        """The state of a table, read without Spark.

        Args:
            takes: whether a column is read; one that is not may be of any type, and the schema knows only its name.

        Raises:
            WriteError: catalog or metadata cannot be read.
            ConfigError: the table lies elsewhere than it is placed.
            SchemaRefused: a column that is read is of a type that Tidegate does not load.
        """

    @abstractmethod
    def may_hold(self, target: Target, bound: Prune) -> bool:
        """Whether a file may hold a value within the bound, without Spark; True unless metadata proves otherwise."""

    @abstractmethod
    def layout_problems(self, layout: Layout, columns: Schema | None = None) -> Iterable[str]:
        """Why no table of these columns can have that layout, one sentence each; of any columns if none are given."""

    def maintenance_problems(self, rules: Maintenance) -> Iterable[str]:
        """Why no table can be maintained by these rules, one sentence each."""
        given = {"statistics": rules.statistics, "measure_by": rules.measure_by}
        return tuple(f"{name} is tested with Iceberg tables alone" for name, value in given.items() if value)

    def refuse_loads(self, target: Target) -> None:
        """Raises Incompatible if the lake's catalog lacks what loads need, WriteError if it cannot be reached."""
        del target  # by default every lake takes loads

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
        """The rows of one version of the table, in the columns that `state` says of it; none of an empty table."""

    @abstractmethod
    def create(self, session: SparkSession, target: Target, schema: Schema, layout: Layout) -> None:
        """Creates an empty table (and its namespace), unless it exists."""

    @abstractmethod
    def evolve(self, session: SparkSession, target: Target, changes: Sequence[SchemaChange], schema: Schema) -> None:
        """Applies changes of columns, all or none visible to a load."""

    @abstractmethod
    def stage(self, session: SparkSession, target: Target, plan: LoadPlan) -> Staging:
        """Opens a load at `plan.base`. Raises CommitConflict if the table no longer exists."""

    @abstractmethod
    def drop_branches(self, session: SparkSession, target: Target, branches: Sequence[str]) -> None:
        """Drops what a crash left behind."""


class Ledger(Protocol):
    """Adds few rows of Tidegate's own to a table of the format, without Spark."""

    def add(self, target: Target, rows: Sequence[LoadRow]) -> None:
        """Adds the rows that the table does not have yet, by `core.loads.KEY`, in one commit; creates the table.

        Raises:
            WriteError: catalog or warehouse refused it, or others kept committing in between.
            EnvironmentMissing: the package that writes the format is not installed.
        """


class TableMaintenance(Protocol):
    """How a format keeps its tables small."""

    def side_tables(self, target: Target) -> tuple[Target, ...]:
        """The tables that belong to a stream beside its own: `<table>__tidegate_…`."""

    def layout_differs(self, target: Target, partition_by: Sequence[str]) -> str | None:
        """Why the table is not partitioned like that; None where it is, or there is no table or nothing asked for."""

    def survey(self, upkeep: Upkeep) -> tuple[Need, ...]:
        """The steps that are worthwhile, in order, found from metadata alone; empty if there is no table.

        Raises ConfigError: the format cannot change an existing table to the layout.
        """

    def maintain(self, session: SparkSession, upkeep: Upkeep, step: Step) -> str:
        """Does the step; what it did, for people. No row or position changes. Raises CommitConflict: do it again."""

    def usage(self, target: Target) -> Usage | None:
        """The storage that the table uses; None if it cannot be listed."""


class TableInspection(Protocol):
    """Layout, size and rows of a format's tables, and how other engines read them; all without Spark."""

    def facts(self, target: Target) -> TableFacts | None:
        """Layout and size of the visible version; None if the table does not exist."""

    def rows(self, target: Target, names: Sequence[str]) -> pa.Table | None:
        """These columns of every row of the visible version; None if only Spark can read them."""

    def damaged(self, target: Target, said: str) -> str | None:
        """A file of the visible version and how it is damaged, after a reader of it said that; None for none."""

    def snippets(self, target: Target) -> Snippets:
        """For each engine, code that reads the table. It may contain a secret from the catalog's options."""

    def address(self, target: Target) -> TableAddress:
        """Where engines elsewhere find the table, without a secret."""


class TimeTravel(Protocol):
    """The versions of a format's tables, and rolling back to one."""

    def versions(self, target: Target, uid: str) -> Sequence[Version]:
        """The versions that are kept, oldest first, without Spark; none if the table does not exist."""

    def rollback(self, session: SparkSession, target: Target, version: str) -> None:
        """Makes that version the visible one; later ones are kept until they expire. Raises CommitConflict."""


class ChangeFeed(Protocol):
    """The changes between two versions of a table, which make the format's tables usable as a source."""

    def between(self, target: Target, after: str, upto: str) -> Span:
        """The kind of changes after one version, up to another, from metadata alone, without Spark.

        Raises HistoryGone: the table can no longer even be compared with what was loaded.
        """

    def enabling_statement(self, target: Target) -> str | None:
        """The statement that enables the table's change data feed; None if it is enabled."""

    def witness(self, target: Target, version: str) -> Mapping[str, str]:
        """What tells the version, later, from another one that has its number."""

    def restore_reason(self, target: Target, witness: Mapping[str, str], upto: str, *, rolled_back: bool) -> str | None:
        """Why a version does not follow the one of a witness, in a sentence; None without evidence.

        Args:
            rolled_back: a table that shows an older version again, and records that it does, counts, too.
        """

    def at(self, session: SparkSession, target: Target, version: str | None, columns: Schema) -> DataFrame:
        """The rows of one version in columns that `state` gave, whatever version or table call them; None: no rows."""

    def appended(self, session: SparkSession, target: Target, after: str, upto: str, columns: Schema) -> DataFrame:
        """The inserted rows of a range with only inserts, in columns as for `at`."""

    def changes(self, session: SparkSession, target: Target, after: str, upto: str, columns: Schema) -> DataFrame:
        """Every inserted or deleted row.

        Rows: columns as for `at`; `dataframe_ops.DELETED`, true for a deleted row; `dataframe_ops.ORDER`, a bigint that
        increases with each commit and is greater for inserts than for deletes of one commit: for each key, the greatest
        one counts.
        """
