"""The Iceberg table format: reads table state, creates and changes tables, opens stagings.

Reads a table's metadata without Spark. Only publishing a staging changes what readers see.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from tidegate.core.change_feed import Span
from tidegate.core.grouping import Grouping
from tidegate.core.ids import Target
from tidegate.core.loads import LoadRow
from tidegate.core.plan import ORDERED, LoadPlan, Prune, branch_prefix
from tidegate.core.policies.maintenance import SIDE, Maintenance, Need, Step, Upkeep, Usage, Version
from tidegate.core.ports.format import (
    ChangeFeed,
    Format,
    Layout,
    Ledger,
    SinceLoad,
    TableInspection,
    TableMaintenance,
    TableState,
    TimeTravel,
)
from tidegate.core.schema import REPLACED, Schema, SchemaChange, every
from tidegate.core.table_facts import Snippets, TableAddress, TableFacts
from tidegate.errors import WriteError
from tidegate.formats.iceberg import change_feed as history
from tidegate.formats.iceberg import ddl, maintenance, replaced_columns
from tidegate.formats.iceberg import layout as layouts
from tidegate.formats.iceberg import versions as travel
from tidegate.formats.iceberg.catalog import Catalog
from tidegate.formats.iceberg.partitions import aligned, partition_by
from tidegate.formats.iceberg.snippets import snippets
from tidegate.formats.iceberg.staging import IcebergStaging, drop_leftovers
from tidegate.formats.shared.damage import damaged
from tidegate.formats.shared.placed import elsewhere, refuse_filled, same
from tidegate.formats.shared.storage import has_older, problem
from tidegate.spark import sql
from tidegate.spark.failures import translated
from tidegate.storage import Store

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]
    from pyiceberg.table import Table
    from pyspark.sql import DataFrame, SparkSession

CREATE_TRIES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Iceberg(Format):
    """Iceberg tables in one catalog.

    Args:
        name: the lake, which is also the catalog's name.
        warehouse: where the tables are stored; `./warehouse` of the project by default, or what the catalog decides
            (rest, glue, hive).
        catalog: `type` (sqlite, postgresql, rest, glue, hive) and its options; an embedded SQLite file by default.
        folder: the project's folder, which relative paths start from.
        locations: of the tables that lie elsewhere.
    """

    kind: ClassVar[str] = "iceberg"
    invisible: ClassVar[bool] = True

    name: str
    warehouse: str | None = None
    catalog: Mapping[str, Any] = field(default_factory=lambda: {"type": "sqlite"})
    folder: Path = field(default_factory=Path.cwd)
    locations: Mapping[Target, str] = field(default_factory=dict, metadata={"given": True})
    _where: Catalog = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        where = Catalog.of(name=self.name, warehouse=self.warehouse, catalog=self.catalog, folder=self.folder.resolve())
        object.__setattr__(self, "_where", where)

    @property
    def root(self) -> str | None:
        """The warehouse, if it is not the catalog that decides."""
        return self._where.warehouse

    def placing(self, locations: Mapping[Target, str]) -> Iceberg | None:
        """The same lake, in which these tables lie elsewhere; catalogs of servers are not tested for it."""
        return replace(self, locations=locations) if self._where.in_tables else None

    @property
    def maintenance(self) -> TableMaintenance:
        return self

    @property
    def inspection(self) -> TableInspection:
        return self

    @property
    def ledger(self) -> Ledger:
        return self

    @property
    def time_travel(self) -> TimeTravel:
        return self

    @property
    def change_feed(self) -> ChangeFeed:
        return self

    def state(self, target: Target, uid: str, *, takes: Callable[[str], bool] = every) -> TableState:
        """What the table says of itself, read from the catalog and one metadata file.

        Raises:
            WriteError: catalog or metadata cannot be read.
            SchemaRefused: the table has a column that Tidegate does not load.
        """
        metadata = self._where.load(target)
        if metadata is None:
            return TableState(exists=False)
        wanted = self.locations.get(target)
        if wanted is not None and not same(metadata.location, wanted):
            raise elsewhere(target, metadata.location, wanted)
        position = metadata.position(uid)
        current = metadata.snapshot(metadata.main)
        return TableState(
            exists=True,
            uuid=metadata.uuid,
            snapshot=None if metadata.main is None else str(metadata.main),
            rows=0 if metadata.main is None else current.rows if current else None,
            position=position[0] if position else None,
            position_snapshot=str(position[1].id) if position else None,
            branches=metadata.left(branch_prefix(uid)),
            schema=metadata.schema(takes),
            location=metadata.location,
            since_load=SinceLoad(
                same_rows=metadata.as_loaded(uid),
                partitioning=metadata.partitioning,
                source_columns=metadata.source_columns(uid),
            ),
        )

    def may_hold(self, target: Target, bound: Prune) -> bool:
        """Whether a file may hold a value within the bound, from the manifests; yes where nothing proves otherwise."""
        if bound.type.kind not in ORDERED:
            return True
        metadata = self._where.load(target)
        known = metadata.schema().find(bound.column) if metadata and metadata.main is not None else None
        if known is None or known.type.kind is not bound.type.kind:
            return True
        table = self._where.table(target)
        if table is None:
            return True
        from tidegate.formats.iceberg.column_bounds import may_hold  # noqa: PLC0415 - reads manifests by PyIceberg

        try:
            return may_hold(table, bound)
        except OSError as error:
            raise problem(table.location(), error) from error

    def layout_problems(self, layout: Layout, columns: Schema | None = None) -> Iterable[str]:
        return ddl.layout_problems(layout, columns)

    def maintenance_problems(self, rules: Maintenance) -> Iterable[str]:  # noqa: ARG002 - of whatever rules
        """None: it has every step."""
        return ()

    def refuse_loads(self, target: Target) -> None:
        """Refuses a catalog that says that it keeps no branches."""
        self._where.need_branches(target)

    def partition_by(self, grouping: Grouping) -> tuple[str, ...]:
        return partition_by(grouping)

    def aligned(self, target: Target, grouping: Grouping) -> bool:
        metadata = self._where.load(target)
        return metadata is not None and aligned(metadata.raw, grouping)

    def irreplaceable(self, target: Target, columns: Sequence[str]) -> str | None:
        """Why these columns cannot get another type with all of the table's rows; None where they can."""
        metadata = self._where.load(target)
        return None if metadata is None else replaced_columns.irreplaceable(metadata, columns)

    def spark_conf(self) -> Mapping[str, str]:
        """Settings that make the lake a catalog of a session; they may hold the catalog's password."""
        return self._where.spark_conf()

    def jars(self) -> tuple[str, ...]:
        return self._where.jars()

    def read(self, session: SparkSession, target: Target, snapshot: str | None) -> DataFrame:
        """The rows of one version of the table, in its present columns; none of an empty table."""
        with translated(f"reading {target}", self._where.warehouse):
            return travel.rows(session, target, snapshot, self._where.load)

    def create(self, session: SparkSession, target: Target, schema: Schema, layout: Layout) -> None:
        """Makes the namespace and an empty table in that layout; a table that is there stays as it is.

        Raises:
            ConfigError: the layout does not fit the columns.
            SchemaRefused: a name that Iceberg has for itself.
            Incompatible, WriteError: catalog or warehouse refused it.
        """
        self.refuse_loads(target)
        ddl.refuse_reserved(schema)
        location = ddl.location(target, self._where.warehouse) if self._where.in_tables else None
        if target in self.locations:
            location = self.locations[target]
            if self._where.load(target) is None:
                refuse_filled(target, location, self._where.store)
        statements = [ddl.create(target, schema, layout, location)]
        order = ddl.order(target, schema, layout) if layout.sort_by else None
        identifier = ddl.identifier(target, schema)
        for attempt in range(1, CREATE_TRIES + 1):
            try:
                self._create(session, target, statements, order, identifier)
            except WriteError:
                # Loads side by side may make one namespace at once, and a catalog refuses the later: it is there now.
                if attempt == CREATE_TRIES:
                    raise
                time.sleep(0.2 * attempt)
            else:
                return

    def evolve(self, session: SparkSession, target: Target, changes: Sequence[SchemaChange], schema: Schema) -> None:
        """Adds and widens columns; rows that are there read NULL in the new ones.

        Raises:
            SchemaRefused: a name that Iceberg has for itself.
            WriteError: the catalog refused it.
        """
        ddl.refuse_reserved(schema)
        replaced = [change.column for change in changes if change.kind in REPLACED]
        replaced_columns.refuse_connect(session, replaced)
        key = before.key if (before := self._where.load(target)) else ()
        with translated(f"changing the columns of {target}", self._where.warehouse):
            for statement in ddl.evolve(target, changes, schema, key=key):
                session.sql(statement)
            if replaced:
                for statement in replaced_columns.prepare(target, schema, replaced, self._where.load(target)):
                    session.sql(statement)

    def stage(self, session: SparkSession, target: Target, plan: LoadPlan) -> IcebergStaging:
        """Opens an invisible version at `plan.base`.

        Raises:
            CommitConflict, Incompatible: the table is gone or has moved on; the catalog keeps no branches.
        """
        if plan.base is None:  # where Spark makes an empty version for the branch to stand on
            self.refuse_loads(target)
        staging = IcebergStaging(
            session=session,
            target=target,
            plan=plan,
            load=lambda: self._where.load(target),
            table=lambda: self._where.table(target),
            warehouse=self._where.warehouse,
        )
        staging.open()
        return staging

    def between(self, target: Target, after: str, upto: str) -> Span:
        """What happened to the table after one snapshot up to another, from its metadata."""
        metadata = self._where.load(target)
        if metadata is None:
            raise WriteError(f"table {target} no longer exists", hint="Run again.")
        return history.between(metadata, after, upto)

    def enabling_statement(self, target: Target) -> str | None:  # noqa: ARG002 - whatever the table is
        """None: snapshots say what they add."""
        return None

    def witness(self, target: Target, version: str) -> Mapping[str, str]:  # noqa: ARG002 - whatever the table is
        """The snapshot's id: no other has it."""
        return {"version": version}

    def restore_reason(self, target: Target, witness: Mapping[str, str], upto: str, *, rolled_back: bool) -> str | None:
        """By what the snapshot stands on, see `ChangeFeed`; its id is no other's, so only a rollback goes back."""
        metadata = self._where.load(target) if rolled_back else None
        return None if metadata is None else history.restore_reason(metadata, witness["version"], upto)

    def at(self, session: SparkSession, target: Target, version: str | None, columns: Schema) -> DataFrame:
        """The rows of one version by the names of `columns`, matched by field id."""
        with translated(f"reading {target}", self._where.warehouse):
            return travel.rows(session, target, version, self._where.load, columns)

    def appended(self, session: SparkSession, target: Target, after: str, upto: str, columns: Schema) -> DataFrame:
        """The rows that came between two snapshots between which nothing else happened."""
        return history.Feed(self._where.load, session, target, after, upto).appended(columns)

    def changes(self, session: SparkSession, target: Target, after: str, upto: str, columns: Schema) -> DataFrame:
        """Every row that came or went between two snapshots, see `ChangeFeed`."""
        return history.Feed(self._where.load, session, target, after, upto).changes(columns)

    def drop_branches(self, session: SparkSession, target: Target, branches: Sequence[str]) -> None:
        """Drops what a crash left behind; main stays as it is."""
        drop_leftovers(session, target, branches, self._where.warehouse)

    def facts(self, target: Target) -> TableFacts | None:
        """Layout and size, from the metadata and the summary of the visible snapshot."""
        metadata = self._where.load(target)
        return None if metadata is None else layouts.facts(metadata)

    def rows(self, target: Target, names: Sequence[str]) -> pa.Table | None:
        """These columns of every row, read by PyIceberg."""
        from tidegate.formats.iceberg.readback import whole  # noqa: PLC0415 - imports PyIceberg, which is slow

        found = self._where.table(target)
        return None if found is None else whole(found, names)

    def damaged(self, target: Target, said: str) -> str | None:
        found = self._where.table(target)
        return None if found is None else damage(found, self._where.store(found.location(), target), said)

    def snippets(self, target: Target) -> Snippets:
        metadata = self._where.load(target)
        return snippets(target, self._where, metadata.location if metadata else None, self.spark_conf())

    def address(self, target: Target) -> TableAddress:
        """By its catalog where others can ask it, else by its newest metadata file."""
        return self._where.address(target)

    def add(self, target: Target, rows: Sequence[LoadRow]) -> None:
        """Adds the rows that the table does not have yet, by PyIceberg."""
        from tidegate.formats.iceberg import ledger  # noqa: PLC0415 - few projects keep such a table

        ledger.add(self._where, target, rows)

    def side_tables(self, target: Target) -> tuple[Target, ...]:
        """The tables that belong to a stream beside its own, asked of the catalog."""
        return tuple(replace(target, table=name) for name in self._where.tables(target, f"{target.table}{SIDE}"))

    def layout_differs(self, target: Target, partition_by: Sequence[str]) -> str | None:
        metadata = self._where.load(target) if partition_by else None
        return None if metadata is None else layouts.differs(metadata.raw, partition_by)

    def survey(self, upkeep: Upkeep) -> tuple[Need, ...]:
        """The steps that are worth doing, told by metadata and manifests."""
        metadata = self._where.load(upkeep.target)
        if metadata is None:
            return ()
        location, store = metadata.location, self._where.store_of(upkeep.target)
        return tuple(
            maintenance.survey(
                metadata,
                lambda: self._where.table(upkeep.target),
                upkeep,
                aged=lambda: location is None or has_older(location, upkeep.orphaned_before, store),
            )
        )

    def maintain(self, session: SparkSession, upkeep: Upkeep, step: Step) -> str:
        """Does the step by Iceberg's procedures; what it did, for people."""
        return maintenance.Keeper(
            session=session,
            upkeep=upkeep,
            load=lambda: self._where.load(upkeep.target),
            warehouse=self._where.warehouse,
            store=self._where.store_of(upkeep.target),
        ).do(step)

    def versions(self, target: Target, uid: str) -> tuple[Version, ...]:
        """The snapshots that people saw and that are kept, oldest first."""
        metadata = self._where.load(target)
        return () if metadata is None else tuple(travel.versions(metadata, uid))

    def rollback(self, session: SparkSession, target: Target, version: str) -> None:
        """Makes that snapshot the visible one."""
        metadata = self._where.load(target)
        if metadata is None:
            raise WriteError(f"table {target} no longer exists", hint="Run again.")
        replaced_columns.refuse_older(metadata, version, target)
        travel.rollback(session, target, version, metadata, self._where.warehouse)

    def usage(self, target: Target) -> Usage | None:
        """What lies below the table's location; None where that cannot be listed."""
        metadata = self._where.load(target)
        return None if metadata is None else layouts.taken(metadata, self._where.store_of(target))

    def _create(
        self, session: SparkSession, target: Target, statements: Sequence[str], order: str | None, ident: str | None
    ) -> None:
        with translated(f"creating {target}", self._where.warehouse):
            if self._where.kind == "sqlite":
                self._where.file.parent.mkdir(parents=True, exist_ok=True)
            for namespace in sql.namespaces(target):
                session.sql(f"CREATE NAMESPACE IF NOT EXISTS {namespace}")
            for statement in statements:
                session.sql(statement)
            if not order and not ident:
                return
            # Made by a load that crashed before all of it was done, a table is still empty.
            metadata = self._where.load(target)
            if metadata is None or metadata.main is not None:
                return
            if order and not metadata.sorted:
                session.sql(order)
            if ident and not metadata.key:
                session.sql(ident)


def damage(table: Table, store: Store, said: str) -> str | None:
    tasks = list(table.scan().plan_files())
    every = [file for task in tasks for file in (task.file, *task.delete_files)]
    return damaged(table.location(), {file.file_path: file.file_size_in_bytes for file in every}, store, said)
