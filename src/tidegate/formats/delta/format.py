"""The Delta table format: reads table state, creates and changes tables, opens stagings.

Reads a table's log without Spark. Every commit carries the load's number and position.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import unquote

from tidegate.core.change_feed import Span
from tidegate.core.grouping import Grouping
from tidegate.core.ids import Target
from tidegate.core.loads import LoadRow
from tidegate.core.plan import LoadPlan, Prune
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
from tidegate.core.schema import Schema, SchemaChange, every
from tidegate.core.table_facts import Snippets, TableAddress, TableFacts
from tidegate.errors import ConfigError, WriteError
from tidegate.formats.delta import change_feed as history
from tidegate.formats.delta import ddl, deletion_vectors, maintenance, table
from tidegate.formats.delta.ddl import by_path
from tidegate.formats.delta.log import Commit, Log, no_table
from tidegate.formats.delta.maintenance import made_at
from tidegate.formats.delta.snippets import snippets
from tidegate.formats.delta.staging import DeltaStaging, read
from tidegate.formats.shared.damage import damaged
from tidegate.formats.shared.placed import elsewhere, refuse_filled
from tidegate.formats.shared.storage import store_of, stored, usage
from tidegate.spark import jars
from tidegate.spark.dataframe_ops import DELETED, ORDER, completed
from tidegate.spark.failures import translated
from tidegate.spark.needed import LOG_STORE
from tidegate.spark.remote import is_connect
from tidegate.storage import local_path

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]
    from pyspark.sql import DataFrame, SparkSession

READING = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": jars.DELTA_CATALOG,
}
# Two Sparks that commit one version at once by Delta's own log store for S3 both report success, and one is lost.
CONDITIONAL = "tidegate.ConditionalLogStore"


LOG = "_delta_log"


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta(Format):
    """Delta tables below one folder.

    Args:
        name: the lake.
        warehouse: where the tables are stored, as `<warehouse>/<schema>/<table>`; `./warehouse` of the project by
            default.
        deletion_vectors: whether every reader of the lake understands deletion vectors: small changes to new tables
            then stay small. Without, a change rewrites the files that it touches, and any reader opens the table.
        catalog: with `{type: spark}` Spark's own catalog knows the tables, too, as `<schema>.<table>`.
        folder: the project's folder, which relative paths start from.
        locations: of the tables that lie elsewhere.
    """

    kind: ClassVar[str] = "delta"
    invisible: ClassVar[bool] = False

    name: str
    warehouse: str = "./warehouse"
    deletion_vectors: bool = False
    catalog: Mapping[str, str] = field(default_factory=dict)
    folder: Path = field(default_factory=Path.cwd)
    locations: Mapping[Target, str] = field(default_factory=dict, metadata={"given": True})

    def __post_init__(self) -> None:
        if self.catalog and dict(self.catalog) != {"type": "spark"}:
            raise ConfigError(
                f"lake {self.name!r}: a Delta lake supports no catalog except Spark's own",
                hint="Set `catalog: {type: spark}`, or remove it: tables are found by their path.",
            )
        if "://" not in self.warehouse and not self.warehouse.startswith("file:"):
            where = f"file://{(self.folder / self.warehouse).resolve()}"
            object.__setattr__(self, "warehouse", where)
        object.__setattr__(self, "warehouse", self.warehouse.rstrip("/"))

    @property
    def root(self) -> str:
        return self.warehouse

    def placing(self, locations: Mapping[Target, str]) -> Delta:
        return replace(self, locations=locations)

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
        """What the table says of itself, read from its log.

        Raises:
            WriteError: the log cannot be read, or something else lies where the table should.
            SchemaRefused: the table has a column that Tidegate does not load.
        """
        log = self._log(target)
        if log is None:
            if target in self.locations and Log.open(store_of(by_default := self._by_default(target))) is not None:
                raise elsewhere(target, by_default, self.locations[target])
            return TableState(exists=False)
        snapshot = log.snapshot()
        landed = table.landed(log, snapshot, uid)
        return TableState(
            exists=True,
            uuid=snapshot.metadata["id"],
            snapshot=str(snapshot.version),
            rows=snapshot.rows,
            position=landed.position,
            position_snapshot=None if landed.version is None else str(landed.version),
            number=landed.number,
            last_sequence=snapshot.transactions.get(uid, 0),
            schema=table.schema(snapshot, takes),
            location=self._location(target),
            since_load=SinceLoad(
                same_rows=landed.as_loaded,
                copies_files=table.copies_rows(snapshot),
                source_columns=landed.source_columns,
            ),
        )

    def may_hold(self, target: Target, bound: Prune) -> bool:
        """Whether a file may hold a value within the bound, from the log; yes where nothing proves otherwise."""
        log = self._log(target)
        return log is None or table.may_hold(log.snapshot(), bound)

    def layout_problems(self, layout: Layout, columns: Schema | None = None) -> Iterable[str]:
        return ddl.layout_problems(layout, columns)

    def maintenance_problems(self, rules: Maintenance) -> Iterable[str]:
        """Statistics of columns, for which Delta's log has no place, and what only Iceberg tables are tested with."""
        kept_apart = (
            "statistics are counted of Iceberg tables alone: of a Delta table each engine keeps its own, and what "
            "Spark counts is read by no other; run ANALYZE in the engine that reads the table"
        )
        untested = "measure_by is tested with Iceberg tables alone; leave it out, and Spark runs the query"
        return (*((kept_apart,) if rules.statistics else ()), *((untested,) if rules.measure_by else ()))

    def partition_by(self, grouping: Grouping) -> tuple[str, ...]:  # noqa: ARG002 - whatever the grouping is
        """Nothing: Delta cuts tables by whole values of columns, which would be too many folders."""
        return ()

    def aligned(self, target: Target, grouping: Grouping) -> bool:  # noqa: ARG002 - as above
        """True: `replaceWhere` takes rows out of files that hold others, too, in the same commit."""
        return True

    def irreplaceable(self, target: Target, columns: Sequence[str]) -> str | None:
        """Why these columns cannot get another type; None where they can, in the commit that replaces all rows."""
        log = self._log(target)
        apart = set(table.partition_by(log.snapshot())) & set(columns) if log is not None else set()
        return f"the table is partitioned by {', '.join(sorted(apart))}" if apart else None

    def spark_conf(self) -> Mapping[str, str]:
        """Settings by which a session reads and writes Delta tables."""
        return {**READING, **({LOG_STORE: CONDITIONAL} if self._on_s3 else {})}

    def jars(self) -> tuple[str, ...]:
        return (*self._reading_jars(), *((jars.DELTA_LOG_STORE,) if self._on_s3 else ()))

    @property
    def _on_s3(self) -> bool:
        return self.warehouse.startswith("s3a:")

    def _reading_jars(self) -> tuple[str, ...]:
        return (jars.DELTA, jars.DELTA_STORAGE, *(jars.S3A if self._on_s3 else ()))

    def read(self, session: SparkSession, target: Target, snapshot: str | None) -> DataFrame:
        """The rows of one version of the table, the newest by default."""
        return read(session, target, self._location(target), snapshot)

    def create(self, session: SparkSession, target: Target, schema: Schema, layout: Layout) -> None:
        """Makes an empty table in that layout; a table that is there stays as it is.

        Raises:
            ConfigError: the layout does not fit the columns.
            WriteError: the warehouse refused it, or something else lies where the table should.
        """
        location = self._location(target)
        if self._log(target) is None:
            _clear_empty_log(session, location)
            if target in self.locations:
                refuse_filled(target, location, store_of)
        statement = ddl.create(location, schema, layout, vectors=self.deletion_vectors)
        with translated(f"creating {target}", self.warehouse):
            session.sql(statement)
        if self._log(target) is None:
            raise no_table(location)

    def evolve(self, session: SparkSession, target: Target, changes: Sequence[SchemaChange], schema: Schema) -> None:
        """Adds and widens columns; rows that are there read NULL in the new ones.

        Raises:
            WriteError: the table refused it.
        """
        log = self._log(target)
        properties = log.snapshot().metadata["configuration"] if log else {}
        with translated(f"changing the columns of {target}", self.warehouse):
            for statement in ddl.evolve(self._location(target), changes, schema, properties):
                session.sql(statement)

    def stage(self, session: SparkSession, target: Target, plan: LoadPlan) -> DeltaStaging:
        """Opens a load of the table at `plan.base`. Raises CommitConflict: the table is gone or has moved on."""
        staging = DeltaStaging(
            session=session,
            target=target,
            plan=plan,
            location=self._location(target),
            load=lambda: self._log(target),
        )
        staging.open()
        if self.catalog:
            self._register(session, target)
        return staging

    def between(self, target: Target, after: str, upto: str) -> Span:
        """What happened to the table above one version up to another, from its log."""
        return history.between(self._need_log(target), after, upto)

    def enabling_statement(self, target: Target) -> str | None:
        return history.enabling_statement(self._need_log(target), self._location(target))

    def witness(self, target: Target, version: str) -> Mapping[str, str]:
        """The version and the digest of its commit, see `ChangeFeed`."""
        return history.witness(self._need_log(target), version)

    def restore_reason(self, target: Target, witness: Mapping[str, str], upto: str, *, rolled_back: bool) -> str | None:
        """By the commit that has the version's number now, and by RESTOREs since, see `ChangeFeed`."""
        return history.restore_reason(self._need_log(target), witness, upto, rolled_back=rolled_back)

    def at(self, session: SparkSession, target: Target, version: str | None, columns: Schema) -> DataFrame:
        """The rows of one version by the names of `columns`, matched by their physical names where these are known."""
        rows = self.read(session, target, version)
        if version is None or all(column.ident is None for column in columns):
            return completed(rows, columns)
        return rows.selectExpr(*table.as_seen(self._need_log(target).snapshot(int(version)), columns))

    def appended(self, session: SparkSession, target: Target, after: str, upto: str, columns: Schema) -> DataFrame:
        """The rows that came in versions in which nothing else happened."""
        return completed(self.changes(session, target, after, upto, columns), columns)

    def changes(self, session: SparkSession, target: Target, after: str, upto: str, columns: Schema) -> DataFrame:
        """Every row that came or went, see `ChangeFeed`; `between` allows no range in which columns had other names."""
        found = history.feed(session, self._need_log(target), self._location(target), after, upto)
        return completed(found, columns, DELETED, ORDER)

    def drop_branches(self, session: SparkSession, target: Target, branches: Sequence[str]) -> None:
        """Nothing: Delta has no branches."""

    def facts(self, target: Target) -> TableFacts | None:
        log = self._log(target)
        return None if log is None else table.facts(log.snapshot())

    def rows(self, target: Target, names: Sequence[str]) -> pa.Table | None:
        """These columns of every row, read by PyArrow."""
        from tidegate.formats.delta import readback  # noqa: PLC0415 - its import takes half a second

        log = self._log(target)
        return None if log is None else readback.rows(log, names)

    def damaged(self, target: Target, said: str) -> str | None:
        log = self._log(target)
        if log is None:
            return None
        files = {unquote(file["path"]): int(file["size"]) for file in log.snapshot().files}
        return damaged(self._location(target), files, log.store, said)

    def snippets(self, target: Target) -> Snippets:
        return snippets(target, self._location(target), READING, self._reading_jars())

    def address(self, target: Target) -> TableAddress:
        """Its folder."""
        return TableAddress(format=self.kind, catalog="", warehouse=self.warehouse, path=self._location(target))

    def add(self, target: Target, rows: Sequence[LoadRow]) -> None:
        """Adds the rows that the table does not have yet, by delta-rs."""
        from tidegate.formats.delta import ledger  # noqa: PLC0415 - few projects keep such a table

        ledger.add(self._location(target), target, rows)

    def side_tables(self, target: Target) -> tuple[Target, ...]:
        """The tables that belong to a stream beside its own, found beside its folder."""
        above, _, own = self._by_default(target).rpartition("/")
        names = store_of(above).names("") or ()
        found = sorted(name.removeprefix(own) for name in names if name.startswith(f"{own}{SIDE}"))
        return tuple(replace(target, table=f"{target.table}{ending}") for ending in found)

    def layout_differs(self, target: Target, partition_by: Sequence[str]) -> str | None:
        log = self._log(target) if partition_by else None
        return None if log is None else maintenance.layout_differs(log.snapshot(), partition_by)

    def survey(self, upkeep: Upkeep) -> tuple[Need, ...]:
        """The steps that are worth doing, told by log and listing."""
        log = self._log(upkeep.target)
        return () if log is None else tuple(maintenance.survey(log, self._location(upkeep.target), upkeep))

    def maintain(self, session: SparkSession, upkeep: Upkeep, step: Step) -> str:
        """Does the step by Delta's statements; what it did, for people."""
        keeper = maintenance.Keeper(
            session=session,
            upkeep=upkeep,
            load=lambda: self._log(upkeep.target),
            location=self._location(upkeep.target),
        )
        return keeper.do(step)

    def versions(self, target: Target, uid: str) -> tuple[Version, ...]:
        log = self._log(target)
        return () if log is None else tuple(_restorable(log, self._location(target), uid))

    def rollback(self, session: SparkSession, target: Target, version: str) -> None:
        _restore(session, target, self._location(target), version)

    def usage(self, target: Target) -> Usage | None:
        """What the table takes up; None where there is none."""
        log = self._log(target)
        if log is None:
            return None
        files, size = maintenance.live(log.snapshot())
        return usage(self._location(target), files=files, size=size)

    def _location(self, target: Target) -> str:
        return self.locations.get(target) or self._by_default(target)

    def _by_default(self, target: Target) -> str:
        return ddl.location(target, self.warehouse)

    def _log(self, target: Target) -> Log | None:
        return Log.open(store_of(self._location(target)))

    def _need_log(self, target: Target) -> Log:
        log = self._log(target)
        if log is None:
            raise WriteError(f"table {target} no longer exists", hint="Run again.")
        return log

    def _register(self, session: SparkSession, target: Target) -> None:
        if len(target.namespace) != 1:
            raise ConfigError(
                f"the name {target} has {len(target.parts)} parts, but Spark's catalog needs lake, schema and table",
                hint="Remove `catalog:`, or shorten the `target:`.",
            )
        with translated(f"registering {target}", self.warehouse):
            for statement in ddl.register(target, self._location(target)):
                session.sql(statement)


def _clear_empty_log(session: SparkSession, location: str) -> None:
    """Removes the log's folder and the folders in it, unless a file lies in one of them.

    A first load that is killed before its first commit leaves such a folder, which Delta takes for a table.

    Only empty folders are removed, one at a time, so that the log of another process that makes the table just now
    stays. Object stores are reached through Spark's JVM; a Spark Connect session has none here, and leaves them.
    """
    path = local_path(location)
    if path is None:
        if not is_connect(session):
            _clear_store(session, f"{location}/{LOG}")
        return
    log = path / LOG
    with suppress(OSError):
        for each in (*log.iterdir(), log):
            each.rmdir()


def _clear_store(session: SparkSession, log: str) -> None:
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # noqa: PLC0415 - PySpark's own

    java: Any = session._jvm  # noqa: SLF001 - Hadoop's file systems have no other door
    at = java.org.apache.hadoop.fs.Path(log)
    with suppress(Py4JJavaError):
        files = at.getFileSystem(session._jsparkSession.sessionState().newHadoopConf())  # noqa: SLF001
        for folder in (*(each.getPath() for each in files.listStatus(at)), at):
            files.delete(folder, False)  # noqa: FBT003 - Java takes no names; False spares a folder with files


def _restorable(log: Log, location: str, uid: str) -> Iterator[Version]:
    """The versions whose commits the log keeps, oldest first; never one whose files VACUUM removed."""
    there = {each.path for each in stored(location)}
    loads: dict[int, int | None] = {}
    for snapshot in log.snapshots():
        commit = log.commit(snapshot.version)
        if commit is None:
            continue
        loads[commit.version] = _load(log, commit, loads, uid)
        yield Version(
            id=str(commit.version),
            made_at=made_at(commit.info),
            load=loads[commit.version],
            rows=snapshot.rows,
            operation=str(commit.info.get("operation", "")),
            readable=all(there.issuperset(_names(file)) for file in snapshot.files),
            current=commit.version == log.version,
        )


def _restore(session: SparkSession, target: Target, location: str, version: str) -> None:
    """Makes that version the visible one, in a commit of its own; the numbers of loads stay.

    Raises:
        CommitConflict: another writer came in between.
    """
    with translated(f"rolling back {target}", location):
        session.sql(f"RESTORE TABLE {by_path(location)} TO VERSION AS OF {int(version)}").collect()


def _load(log: Log, commit: Commit, loads: Mapping[int, int | None], uid: str) -> int | None:
    """The number of the newest load among the commits that the version stands on, by those of older versions."""
    found = table.carried(log, commit, uid)
    if found is not None:
        return found.sequence
    before = table.stands_on(log, commit)
    if before is None or before in loads:
        return None if before is None else loads[before]
    landed = next(
        (found for each in table.ancestors(log, before) if each and (found := table.carried(log, each, uid))), None
    )
    return landed.sequence if landed else None


def _names(file: Mapping[str, Any]) -> Iterator[str]:
    """The files that a live file is read from, as far as they lie below the table."""
    if (path := table.own_path(file)) is not None:
        yield path
    if vector := deletion_vectors.file_of(file.get("deletionVector") or {}):
        yield vector
